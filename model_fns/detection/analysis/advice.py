"""Suggestions for a better detector, by the metrics of an evaluation."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping

from model_fns import class_analysis

_SIZE = '{prefix}Precision/mAP ({size})'
_PREFIXES = ('DetectionBoxes_', 'DetectionMasks_')
_BY_CLASS = re.compile(r'(\w+_PerformanceByCategory/[^/]+)/(.+)')
_NOTHING = 0.01  # mAP of a model that has learned next to nothing
_LEARNED = 0.1  # mAP of sizes that are found


def advise(metrics: Mapping[str, float]) -> List[str]:
    """Return suggestions, the most important first.

    Args:
        metrics: by reported name. COCO reports -1 for sizes and classes without objects.
    """
    means = [metrics.get(f'{prefix}Precision/mAP') for prefix in _PREFIXES]
    known = [mean for mean in means if mean is not None and mean >= 0]
    if known and max(known) < _NOTHING:
        return [
            'labels and length first: next to nothing is found. Look at augmented.png and '
            '--mode=check, then train longer'
        ]
    return [
        *_advise_on_sizes(metrics),
        *class_analysis.advise_on_classes(_values_by_class(metrics)),
    ]


def _advise_on_sizes(metrics: Mapping[str, float]) -> List[str]:
    """Compare small objects (below 32 x 32 pixels of the image) with the larger ones.

    A precision of small objects of 0.1 with 0.4 for large ones is less than half.
    """
    for prefix in _PREFIXES:
        small, *larger = (
            metrics.get(_SIZE.format(prefix=prefix, size=size), -1.0)
            for size in ('small', 'medium', 'large')
        )
        if 0 <= small < max(larger) / 2 and max(larger) >= _LEARNED:
            return [
                f'a larger image_resizer, or --tile: small objects are missed (mAP {small:.2f}; '
                f'larger ones {max(larger):.2f})'
            ]
    return []


def _values_by_class(metrics: Mapping[str, float]) -> Dict[str, float]:
    """Return the values of the first metric of classes, by class."""
    matches = [match for match in map(_BY_CLASS.fullmatch, sorted(metrics)) if match]
    # Several sets of metrics may report the same classes.
    first = [match for match in matches if match[1] == matches[0][1]]
    return {match[2]: metrics[match[0]] for match in first}
