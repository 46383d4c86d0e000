"""Bounds on what depends on the rounding of kernels, derived from what was measured.

Batch norm over a few values divides by their differences, and enlarges rounding: gradients of
recorded detectors change by up to 10 % where the input is changed by a part in 100,000. So what is
computed in training deviates from the recording by another amount with each set of kernels.

`MEASURED` has the largest deviation over TensorFlow's own kernels and oneDNN's, of TensorFlow 2.15
and 2.21, with one thread and with two. A bound is `_MARGIN` times that, for the processors that
were not at hand.

    make test-numerics

runs the checks with each set of kernels, and with one thread. Then `python -m tests.rounding FILE`
compares the deviations that were logged with the table. It fails where a deviation is above its
bound, and where a bound is more than ten times as large as the largest deviation: bounds follow
what is computed.
"""

from __future__ import annotations

import collections
import json
import os
import sys
from typing import Any, Dict, Optional, Sequence

import numpy as np

# Path of the file to which `check` appends what it was given.
LOG = 'ROUNDING_LOG'
# A processor that was not measured sums in another order again.
_MARGIN = 5.0
# Of the gradient of one variable. Where one value crosses the corner of a ReLU, one norm changes by
# up to 8 %, with one set of kernels and not with another: no measurement bounds it. A gradient that
# is left out, or counted twice, changes a norm by a half or more.
_WRONG_GRADIENT = 0.3
_LOOSEST = 10.0
# Deviations below this are those of single sums, and need no entry.
_LEAST = 3.4e-5

MEASURED: Dict[str, float] = {
    'centernet_resnet50_v1_fpn_256: gradients, half': 4.5e-05,
    'centernet_resnet50_v1_fpn_256: gradients, nine in ten': 0.00035,
    'faster_rcnn_resnet50_256x320: gradients, nine in ten': 8.2e-05,
    'inception_v3: aux_cross_entropy': 3.7e-05,
    'inception_v3: end points': 0.00043,
    'inception_v3: gradients, half': 0.00092,
    'inception_v3: gradients, nine in ten': 0.0059,
    'mask_rcnn_inception_v2_256x320: gradients, half': 0.00015,
    'mask_rcnn_inception_v2_256x320: gradients, nine in ten': 0.00048,
    'mobilenet_v1: end points': 0.00049,
    'mobilenet_v1: gradients, half': 0.0024,
    'mobilenet_v1: gradients, nine in ten': 0.012,
    'mobilenet_v2_035: end points': 0.00054,
    'mobilenet_v2_035: gradients, half': 0.0035,
    'mobilenet_v2_035: gradients, nine in ten': 0.017,
    'mobilenet_v2_aspp_decoder: gradients, half': 0.022,
    'mobilenet_v2_aspp_decoder: gradients, nine in ten': 0.028,
    'mobilenet_v2_aspp_decoder: training logits': 0.0023,
    'resnet_v1_50_beta: gradients, half': 0.0013,
    'resnet_v1_50_beta: gradients, nine in ten': 0.0018,
    'resnet_v1_50_beta: training logits': 7.5e-05,
    'ssd_mobilenet_v1_coco: gradients, half': 0.0017,
    'ssd_mobilenet_v1_coco: gradients, nine in ten': 0.011,
    'ssd_mobilenet_v1_coco: losses': 0.00015,
    'ssd_mobilenet_v1_fpn_320: gradients, half': 0.0033,
    'ssd_mobilenet_v1_fpn_320: gradients, nine in ten': 0.014,
    'ssd_mobilenet_v1_fpn_320: losses': 4.9e-05,
    'ssdlite_mobilenet_v2_coco: gradients, half': 0.018,
    'ssdlite_mobilenet_v2_coco: gradients, nine in ten': 0.034,
    'ssdlite_mobilenet_v2_coco: losses': 8e-05,
    'tf2/efficientdet_d0_256: gradients, half': 5.8e-05,
    'tf2/efficientdet_d0_256: gradients, nine in ten': 0.00037,
    'tf2/faster_rcnn_resnet50_v1_fpn_256x320: gradients, half': 8.5e-05,
    'tf2/faster_rcnn_resnet50_v1_fpn_256x320: gradients, nine in ten': 0.00049,
    'tf2/mask_rcnn_inception_resnet_v2_256x320: gradients, nine in ten': 4.6e-05,
    'tf2/ssd_mobilenet_v2_fpnlite_320: gradients, half': 0.0049,
    'tf2/ssd_mobilenet_v2_fpnlite_320: gradients, nine in ten': 0.018,
    'tf2/ssd_mobilenet_v2_fpnlite_320: losses': 7.7e-05,
}


def bound(name: str) -> float:
    """Return the bound of a check."""
    return _MARGIN * max(MEASURED.get(name, 0.0), _LEAST)


def check(name: str, deviation: float, detail: str = '') -> None:
    """Require that a deviation from a recording is one that kernels cause.

    Where the environment names a `LOG`, deviations are logged and not compared.

    Args:
        name: of the check, as in `MEASURED`.
        deviation: what was found, relative to the recorded magnitude.
        detail: of the message.
    """
    path = os.environ.get(LOG)
    if path:
        with open(path, 'a') as file:
            file.write(json.dumps([name, float(deviation)]) + '\n')
        return  # `main` compares what all kernels have logged
    most = bound(name)
    assert deviation <= most, f'{name}: {deviation:.3g}; expected at most {most:.3g}. {detail}'


def check_close(name: str, actual: Any, expected: Any) -> None:
    """Check the largest difference, relative to the largest expected magnitude."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, name
    scale = max(np.max(np.abs(expected), initial=0.0), 1e-6)
    check(name, np.max(np.abs(actual - expected), initial=0.0) / scale)


def check_gradient_norms(
    case: str, ours: Any, expected: np.ndarray, names: Optional[Sequence[str]] = None
) -> None:
    """Check the norms of gradients: relative differences of half, of nine in ten, and of all.

    A norm near zero (of a bias before batch norm) is noise, which moves with the last bits of the
    input. So differences are relative to a hundredth of the median norm at least.

    Args:
        case: the name of the recorded case.
        ours: norms [N].
        expected: recorded norms [N].
        names: of the variables.
    """
    differences = np.abs(np.asarray(ours) - expected)
    differences = differences / np.maximum(expected, 0.01 * np.median(expected))
    worst = int(np.argmax(differences))
    found = f'variable {worst if names is None else names[worst]}: {differences[worst]:.3g}'
    assert differences[worst] <= _WRONG_GRADIENT, f'{case}: the gradient of {found}'
    check(f'{case}: gradients, half', np.median(differences), found)
    check(f'{case}: gradients, nine in ten', np.quantile(differences, 0.9), found)


def main(path: str) -> Optional[str]:
    """Compare the bounds with logged deviations; return what is wrong, None for nothing."""
    largest: Dict[str, float] = collections.defaultdict(float)
    with open(path) as file:
        for name, deviation in map(json.loads, file):
            largest[name] = max(largest[name], deviation)
    problems = [f'{name} was not measured' for name in sorted(MEASURED.keys() - largest.keys())]
    for name, deviation in sorted(largest.items()):
        print(f'{name:70s} {deviation:.2g} {bound(name):.2g}')
        if deviation > bound(name):
            problems.append(f'{name}: {deviation:.2g} is above the bound {bound(name):.2g}')
        if bound(name) > _LOOSEST * max(deviation, _LEAST):
            problems.append(f'{name}: the bound {bound(name):.2g} is too loose for {deviation:.2g}')
    return '\n'.join(problems) or None


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
