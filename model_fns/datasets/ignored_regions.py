"""Regions to ignore, of any format: objects of a class whose name says so.

In records such a region is a crowd of each class: no anchor in it learns, and no detection in it
counts, whatever its class. Its pixels have the value that counts for nothing.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Counter, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations.class_maps import FIRST_IGNORED_ID
from model_fns.datasets.sources import Item, Source
from model_fns.structures.label_map import LabelMap

# Of labelme, KITTI and VisDrone.
NAMES = ('__ignore__', 'DontCare', 'ignored regions')

_REASON = 'regions to ignore'
_PREFIX, _LABELS, _TEXTS = 'image/object/', 'image/object/class/label', 'image/object/class/text'
_DEFAULTS = {'image/object/is_crowd': np.int64(0), 'image/object/weight': np.float32(1)}


def class_names(source: Source, items: Sequence[Item]) -> List[str]:
    """Return the class names of items, without those of regions to ignore."""
    return [name for name in source.class_names(items) if name not in source.ignored]


def extend(classes: LabelMap, source: Source) -> LabelMap:
    """Return a label map for `Source.features`, which knows ids of the names of regions to ignore.

    A name that the label map has is that of a class.
    """
    names = [name for name in source.ignored if name not in classes]
    others = tuple((name, FIRST_IGNORED_ID + index) for index, name in enumerate(names))
    return dataclasses.replace(classes, other_names=(*classes.other_names, *others))


def expand(
    features: records.Features, classes: LabelMap, report: sources.Report
) -> Tuple[records.Features, Counter[str]]:
    """Replace each region to ignore by a crowd of each class, behind all objects.

    With the classes a and b, the objects [a, DontCare, b] become [a, b, a, b], of which the last
    two are crowds of weight 0.

    Args:
        features: from `Source.features`, with the result of `extend`.
        classes: the label map without regions to ignore.
        report: its objects of such names are marked as ignored.

    Returns:
        The features, and the number of regions by name.

    Raises:
        errors.DataError: the label of the whole image is such a name.
    """
    if np.max(features.get('image/class/label', 0), initial=0) >= FIRST_IGNORED_ID:
        raise errors.DataError(
            f'the label {features["image/class/text"]!r} is a name of regions to ignore, and it is '
            'of the whole image; expected a class, or the name in the label map.'
        )
    ids = np.asarray(features.get(_LABELS, ()))
    rows, regions = np.flatnonzero(ids < FIRST_IGNORED_ID), np.flatnonzero(ids >= FIRST_IGNORED_ID)
    if not len(regions):
        return features, collections.Counter()
    expanded: Dict[str, Any] = dict(features)
    names = expanded[_TEXTS]
    counts = collections.Counter(names[row] for row in regions)
    report.objects = [
        item._replace(name='', label=None, ignored=_REASON) if item.name in counts else item
        for item in report.objects
    ]
    order = [*rows, *np.repeat(regions, len(classes.items))]
    for key, default in _DEFAULTS.items():
        expanded.setdefault(key, np.full([len(ids)], default))
    for key, values in expanded.items():
        if key.startswith(_PREFIX) and isinstance(values, (list, np.ndarray)):
            expanded[key] = _take(values, order, len(ids))
    of_regions = slice(len(rows), None)
    repeated = [item for _ in regions for item in classes.items]
    expanded[_LABELS][of_regions] = [item.id for item in repeated]
    expanded[_TEXTS][of_regions] = [item.name for item in repeated]
    expanded['image/object/is_crowd'][of_regions] = 1
    expanded['image/object/weight'][of_regions] = 0
    return expanded, counts


def count_rows(num_ignored: Mapping[str, int], classes: LabelMap) -> int:
    """Return the number of objects, behind all others, that `expand` has made of regions.

    Args:
        num_ignored: number of regions by name, the second result of `expand`.
        classes: its label map.
    """
    return sum(num_ignored.values()) * len(classes.items)


def _take(values: Any, order: Sequence[int], count: int) -> Any:
    """Return the values of some rows; a row may have several, as those of keypoints."""
    size = len(values) // count
    places = [row * size + k for row in order for k in range(size)]
    return values[places] if isinstance(values, np.ndarray) else [values[k] for k in places]
