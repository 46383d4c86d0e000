"""Differences of the two sides of a comparison, in the order of the computation."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from vision_extras.compare.reference import bridge

Results = Mapping[str, Mapping[str, Any]]

# Float32 sums in another order differ by 1e-6 to 1e-4 after a few layers with batch norm.
TOLERANCE = 1e-3


class Difference(NamedTuple):
    """Difference of two arrays.

    Attributes:
        name: name of the array.
        here: largest absolute value here; None: this side has no such array.
        there: the same of the reference.
        absolute: largest absolute difference; infinite for other shapes, and where NaN or infinity
            is on one side only.
        relative: the same, relative to the largest finite value of both sides.
    """

    name: str
    here: Optional[float]
    there: Optional[float]
    absolute: float
    relative: float


@dataclasses.dataclass(frozen=True)
class Stage:
    """Stage of the computation.

    Attributes:
        title: what is compared.
        differences: a difference for each array, the largest first.
    """

    title: str
    differences: Sequence[Difference]

    @property
    def largest(self) -> Optional[Difference]:
        """Largest relative difference; None: there is nothing to compare."""
        return self.differences[0] if self.differences else None

    @property
    def differs(self) -> bool:
        """True if a difference is above `TOLERANCE`."""
        return self.largest is not None and self.largest.relative > TOLERANCE


def measure(name: str, here: Optional[np.ndarray], there: Optional[np.ndarray]) -> Difference:
    """Measure the difference of two arrays; None: the side does not have it."""
    sizes = _size(here), _size(there)
    if here is None or there is None or np.shape(here) != np.shape(there):
        return Difference(name, *sizes, np.inf, np.inf)
    values, others = (np.asarray(each, np.float64) for each in (here, there))
    same = (values == others) | (np.isnan(values) & np.isnan(others))
    with np.errstate(invalid='ignore'):
        gap = np.where(same, 0.0, np.abs(values - others))
    absolute = float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0))
    scale = max(_size(np.where(np.isfinite(each), each, 0.0)) for each in (values, others))
    relative = absolute / scale if scale > 0 else absolute
    return Difference(name, *sizes, absolute, relative)


def _size(values: Optional[np.ndarray]) -> Optional[float]:
    if values is None:
        return None
    return float(np.nanmax(np.abs(np.asarray(values, np.float64)), initial=0.0))


def measure_all(here: Mapping[str, Any], there: Mapping[str, Any]) -> List[Difference]:
    """Measure the differences of all arrays of either side, the largest first."""
    names = list(dict.fromkeys([*here, *there]))
    found = [measure(name, here.get(name), there.get(name)) for name in names]
    return sorted(found, key=lambda each: -each.relative)


def measure_metrics(here: Mapping[str, float], there: Mapping[str, float]) -> List[Difference]:
    """Measure the differences of metrics, absolute ones, since metrics are in [0, 1]."""
    found = [each._replace(relative=each.absolute) for each in measure_all(here, there)]
    return sorted(found, key=lambda each: -each.relative)


def measure_detections(
    here: Mapping[str, np.ndarray], there: Mapping[str, np.ndarray]
) -> List[Difference]:
    """Measure how far each detection is from the most similar one of the other side.

    The order of equal scores does not count. The distance of two detections of a class is the
    largest difference of their scores and coordinates.

    Returns:
        A difference for each image, which is 1 at most where a detection has no counterpart.
    """
    found = []
    for row in range(len(here['num_detections'])):
        rows = [_detections(side, row) for side in (here, there)]
        gap = max(_farthest(*rows), _farthest(*rows[::-1]))
        counts = float(len(rows[0])), float(len(rows[1]))
        found.append(Difference(f'image {row}', *counts, gap, gap))
    return sorted(found, key=lambda each: -each.relative)


def _detections(side: Mapping[str, np.ndarray], row: int) -> np.ndarray:
    """Return class, score and box of the detections of an image, [N, 6]."""
    count = int(side['num_detections'][row])
    classes, scores, boxes = (
        np.asarray(side[name][row][:count], np.float64)
        for name in ('detection_classes', 'detection_scores', 'detection_boxes')
    )
    return np.concatenate([classes[:, np.newaxis], scores[:, np.newaxis], boxes], axis=1)


def _farthest(detections: np.ndarray, others: np.ndarray) -> float:
    """Return the largest distance of a detection from the nearest of the others, at most 1."""
    pairs = detections[:, np.newaxis], others[np.newaxis]
    distances = np.max(np.abs(pairs[0][..., 1:] - pairs[1][..., 1:]), axis=2)
    # A distance that is NaN is none: such a detection has no counterpart.
    near = (pairs[0][..., 0] == pairs[1][..., 0]) & (distances < 1.0)
    nearest = np.min(np.where(near, distances, 1.0), axis=1, initial=1.0)
    return float(np.max(nearest, initial=0.0))


def list_stages(
    here: Results, there: Results, metrics: Sequence[Mapping[str, float]]
) -> List[Stage]:
    """List the stages in the order of the computation.

    Args:
        here: results of our side.
        there: results of the reference.
        metrics: metrics of the detections here and there.
    """
    sides = [here, there]
    raw = [each.get('raw', {}) for each in sides]
    stages = [Stage('initial values', _measure_group(sides, 'initial'))]
    stages += [
        Stage(f'{name} of step 1', [measure(name, raw[0].get(name), raw[1].get(name))])
        for name in bridge.RAW
        if any(name in each for each in raw)
    ]
    stages += [
        Stage('losses of step 1', measure_all(*(_losses(each, slice(0, 1)) for each in sides))),
        Stage('gradients of step 1', _measure_group(sides, 'gradients')),
        Stage(
            'losses of later steps', measure_all(*(_losses(each, slice(1, None)) for each in sides))
        ),
        Stage('variables after the steps', _measure_group(sides, 'variables')),
        Stage('detections', measure_detections(here['detections'], there['detections'])),
        Stage('metrics', measure_metrics(*metrics)),
    ]
    return [each for each in stages if each.differences]


def _measure_group(sides: Sequence[Results], group: str) -> List[Difference]:
    return measure_all(*(each.get(group, {}) for each in sides))


def _losses(side: Results, steps: slice) -> Mapping[str, np.ndarray]:
    losses = {name: np.asarray(values)[steps] for name, values in side.get('losses', {}).items()}
    return {name: values for name, values in losses.items() if len(values)}


def find_begin(stages: Sequence[Stage]) -> Optional[Stage]:
    """Find the first stage that differs by more than `TOLERANCE`; None: none does."""
    return next((each for each in stages if each.differs), None)


def find_first_step(here: Results, there: Results) -> Optional[int]:
    """Find the first step, from 1, whose total loss differs; None: none does."""
    sides = [np.asarray(each.get('losses', {}).get('total_loss', [])) for each in (here, there)]
    for step, pair in enumerate(zip(*sides), 1):
        if measure('', *map(np.asarray, pair)).relative > TOLERANCE:
            return step
    return None
