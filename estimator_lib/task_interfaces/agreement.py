"""Agreement of an exported file with its model: the matching part of its outputs."""

from __future__ import annotations

import logging
import math
import os
from typing import Dict, Mapping, NamedTuple, Sequence

import numpy as np

from estimator_lib import errors
from estimator_lib.task_interfaces.tensors import Arrays

log = logging.getLogger('estimator_lib')

# Folding batch norm rounds otherwise than batch norm does.
_EXACT = {'rtol': 1e-3, 'atol': 1e-4}
# Of a float output's range over all images: what 8-bit arithmetic through a whole network costs.
_NEAR = 0.1
_AS_PROBABLE = 0.02


def compare(
    expected: Sequence[Arrays], actual: Sequence[Arrays], exact: bool = True
) -> Dict[str, float]:
    """Return the matching part of each output, in [0, 1].

    Args:
        expected: outputs of each image, by name.
        actual: the outputs that are compared with them.
        exact: whether floats must be equal but for rounding; else they may be a tenth of the
            output's range apart.

    Returns:
        By name, the part of the numbers that are equal, or close where they are floats; 0 where
        shapes differ.
    """
    parts: Dict[str, float] = {}
    for name in expected[0]:
        tolerance = _EXACT if exact else _near([outputs[name] for outputs in expected])
        same = [_close(want[name], got[name], tolerance) for want, got in zip(expected, actual)]
        parts[name] = float(np.mean(np.concatenate(same))) if same else 0.0
    return parts


def is_close(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Check which floats are equal but for rounding, after broadcasting.

    Returns:
        bool, of the broadcast shape.
    """
    return np.isclose(actual, expected, **_EXACT)


def class_agreement(probabilities: Sequence[np.ndarray], classes: Sequence[np.ndarray]) -> float:
    """Return the part of classes that are right, or nearly as probable as the best one.

    Args:
        probabilities: [.., C], of each image.
        classes: ints [..], the classes that the file returned.
    """
    same = []
    for expected, actual in zip(probabilities, classes):
        probability = np.take_along_axis(expected, np.asarray(actual)[..., np.newaxis], -1)[..., 0]
        same.append(np.ravel(probability >= expected.max(-1) - _AS_PROBABLE))
    return float(np.mean(np.concatenate(same)))


def largest_differences(expected: Sequence[Arrays], actual: Sequence[Arrays]) -> Dict[str, float]:
    """Return the largest difference of two numbers of each float output, by name."""
    return {
        name: max(
            float(np.abs(want[name] - got[name]).max(initial=0.0))
            for want, got in zip(expected, actual)
        )
        for name, value in expected[0].items()
        if value.dtype.kind == 'f' and value.shape == actual[0][name].shape
    }


def percent(part: float) -> str:
    """Write a part in percent, rounded down: what is below a bound must not read as the bound.

    Args:
        part: in [0, 1]; 0.96999 is `96.99%`.
    """
    # 1e4 * 0.57 is a little less than 5700.
    return f'{math.floor(round(1e4 * part, 6)) / 100:.2f}%'


def require(parts: Mapping[str, float], least: float, path: str, images: str) -> None:
    """Log how far a file agrees with its model, and refuse one that computes something else.

    Args:
        parts: of `compare`.
        least: that each must be.
        path: of the file.
        images: that it was run on, in words.

    Raises:
        errors.UserError: one is less.
    """
    listed = ', '.join(f'{name} {percent(part)}' for name, part in parts.items())
    log.info('agreement with the network on %s: %s', images, listed)
    worst = min(parts, key=lambda name: parts[name])
    if parts[worst] < least:
        raise errors.UserError(
            f'{os.path.basename(path)} was written and computes something else than the model: '
            f'{percent(parts[worst])} of {worst} agree; expected at least {100 * least:g}%. '
            'No export is left.'
        )


class MetricPair(NamedTuple):
    """Metric of a checkpoint, and of a file of it on the same examples.

    Attributes:
        name: of the metric.
        higher_is_better: whether larger values are better.
        checkpoint: its value.
        file: its value.
    """

    name: str
    higher_is_better: bool
    checkpoint: float
    file: float

    @property
    def loss(self) -> float:
        """Amount by which the file is worse: 0.02 for accuracies of 0.9 and 0.88."""
        change = self.file - self.checkpoint
        return -change if self.higher_is_better else change


def require_metric(pair: MetricPair, most: float, path: str) -> None:
    """Log what a file loses of a metric, and refuse one that loses too much.

    Args:
        pair: the metric.
        most: that it may lose.
        path: of the file.

    Raises:
        errors.UserError: it loses more, or a value is not a number.
    """
    name = os.path.basename(path)
    values = (
        f'{pair.name} of {name} is {pair.file:.6g}, and of the checkpoint {pair.checkpoint:.6g}'
    )
    log.info('%s', values)
    if not pair.loss <= most:  # also where one is not a number
        raise errors.UserError(
            f'{values}; expected at most {most:g} worse (--max_loss). No export is left.'
        )


def require_change(expected: Sequence[Arrays], actual: Sequence[Arrays], path: str) -> None:
    """Refuse a file whose outputs are the same for all images, where the model's are not.

    Args:
        expected: outputs of the model, of each image.
        actual: of the file.
        path: of the file.

    Raises:
        errors.UserError: they are.
    """
    if _changes(expected) and not _changes(actual):
        raise errors.UserError(
            f'{os.path.basename(path)} was written and answers every image with the same outputs. '
            'No export is left.'
        )


def _changes(outputs: Sequence[Arrays]) -> bool:
    first = outputs[0]
    return any(not np.array_equal(each[name], first[name]) for each in outputs for name in first)


def _near(values: Sequence[np.ndarray]) -> Mapping[str, float]:
    if values[0].dtype.kind != 'f' or not values[0].size:
        return _EXACT
    extent = max(float(each.max()) for each in values) - min(float(each.min()) for each in values)
    return {'rtol': 0.0, 'atol': max(_NEAR * extent, _EXACT['atol'])}


def _close(expected: np.ndarray, actual: np.ndarray, tolerance: Mapping[str, float]) -> np.ndarray:
    if expected.shape != actual.shape:
        return np.zeros([1], bool)
    if expected.dtype.kind != 'f':
        return np.ravel(expected == actual)
    # `np.isclose` takes its relative tolerance of the second argument.
    return np.ravel(np.isclose(actual, expected, **tolerance))
