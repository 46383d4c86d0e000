"""Tables and figures of a detector's analysis."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import Cell, Figure, Section, Table, Tile
from model_fns import class_analysis
from model_fns.detection.analysis import score_curves
from model_fns.detection.analysis.error_types import KINDS, Detected, Kind, mean_precision
from model_fns.detection.metrics import coco_matching
from model_fns.detection.metrics.coco_matching import ClassResult
from model_fns.structures.confusion import Confusion, mean_of_known

BACKGROUND = 'background'
_ALL_CLASSES = 'all classes'

_MEANINGS = {
    Kind.CLASSIFICATION: 'right place, wrong class',
    Kind.LOCALIZATION: 'right class, IoU from 0.1 to 0.5',
    Kind.BOTH: 'wrong class, IoU from 0.1 to 0.5',
    Kind.DUPLICATE: 'the object has a detection with a higher score',
    Kind.BACKGROUND: 'no object: IoU below 0.1',
    Kind.MISSED: 'object without a detection',
}


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of the analysis of a detector.

    Attributes:
        num_images: number of images.
        names: names of the classes.
        class_ids: their ids, in the same order.
        counts: number of objects to find, by class id.
        by_class: average precision by IoU and size, by class id; without classes without objects.
        detected: the counted detections.
        gains: change of the mean average precision by fixing a type of error.
        errors: number of errors from the score threshold on.
        confusion: int64 [classes + 1, classes + 1], groundtruth x prediction, background last.
        least_score: the score threshold.
    """

    num_images: int
    names: Sequence[str]
    class_ids: Sequence[int]
    counts: Mapping[int, int]
    by_class: Mapping[int, ClassResult]
    detected: Detected
    gains: Mapping[Kind, float]
    errors: Mapping[Kind, int]
    confusion: np.ndarray
    least_score: float


@dataclasses.dataclass(frozen=True)
class _Curves:
    """Curves of one class."""

    precision: np.ndarray  # at the recalls of COCO
    f1: np.ndarray  # at score_curves.THRESHOLDS
    here: score_curves.AtScore  # at the score threshold
    best: float  # threshold of the best F1


def create_sections(results: Results) -> List[Section]:
    """Return the sections of the report, the most important first."""
    curves = _class_curves(results)
    confusion = Confusion.from_matrix(results.confusion)
    return [
        _overview(results, curves),
        _error_section(results),
        class_analysis.confusion_section(confusion, [*results.names, BACKGROUND], 'objects'),
        _curve_section(results, curves),
    ]


def _class_curves(results: Results) -> Dict[int, _Curves]:
    """Compute the curves of each class; they are NaN for a class without objects."""
    detected = results.detected
    order = np.lexsort([-detected.scores, detected.classes])
    classes = detected.classes[order]
    threshold = np.array([np.float32(results.least_score)])
    curves = {}
    for class_id in results.class_ids:
        first, last = np.searchsorted(classes, [class_id, class_id + 1])
        rows = order[first:last]
        scores, found, count = detected.scores[rows], detected.found[rows], results.counts[class_id]
        precision = np.full(len(coco_matching.RECALLS), np.nan)
        if count:
            precision = coco_matching.precision_at_recalls(found, count)
        curves[class_id] = _Curves(
            precision,
            score_curves.score_rates(scores, found, count, score_curves.THRESHOLDS).f1,
            score_curves.score_rates(scores, found, count, threshold),
            score_curves.best_threshold(scores, found, count),
        )
    return curves


def _overview(results: Results, curves: Mapping[int, _Curves]) -> Section:
    detected = results.detected
    half = mean_precision(detected.classes, detected.scores, detected.found, results.counts)
    ten = [np.mean(each.precision[:, 0]) for each in results.by_class.values()]
    shown = detected.scores >= np.float32(results.least_score)
    objects, true = sum(results.counts.values()), int(detected.found[shown].sum())
    half = half if objects else float('nan')
    precision = true / shown.sum() if shown.any() else float('nan')
    at = f'at a score of {results.least_score:.2g}'
    tiles = [
        Tile('AP', _percent(mean_of_known(np.array(ten))), 'mean of IoU 0.5 to 0.95'),
        Tile('AP50', _percent(half), 'at IoU 0.5'),
        Tile('precision', _percent(precision), at),
        Tile('recall', _percent(true / objects if objects else float('nan')), at),
        Tile('images', f'{results.num_images:,}', f'{objects:,} objects'),
    ]
    return Section(
        'Classes',
        [_class_table(results, curves)],
        'Average precision (AP) by the rules of COCO. Precision, recall and F1 are those of '
        f'detections from a score of {results.least_score:.3g} on, at an IoU of 0.5.',
        tiles,
    )


def _percent(value: float) -> str:
    return '–' if np.isnan(value) else f'{100 * value:.1f} %'


def _class_table(results: Results, curves: Mapping[int, _Curves]) -> Table:
    rows = []
    for class_id, name in zip(results.class_ids, results.names):
        result, curve = results.by_class.get(class_id), curves[class_id]
        precisions = _average_precisions(result)
        rates = [float(rate[0]) for rate in curve.here]
        numbers = [*precisions[:2], curve.best, *rates, *precisions[2:]]
        rows.append((name, results.counts[class_id], *map(class_analysis.known, numbers)))
    return Table(
        'classes',
        'Each class',
        [
            # What people choose by comes first: the last columns are hidden on small screens.
            *('class', 'objects', 'AP', 'AP50', 'best threshold', 'precision', 'recall', 'F1'),
            *('AP75', 'AP small', 'AP medium', 'AP large'),
        ],
        rows,
        'Small objects have less than 32 x 32 pixels, large ones more than 96 x 96. The best '
        'threshold is the score of the highest F1 of the class.',
    )


def _average_precisions(result: Optional[ClassResult]) -> List[float]:
    """Return AP, AP50, AP75, and AP by size; NaN where there are no objects."""
    if result is None:
        return [float('nan')] * 6
    table = result.precision
    means = table.mean(axis=0)
    # The sixth threshold, table[5], is 0.75.
    return [float(each) for each in (means[0], table[0, 0], table[5, 0], *means[1:])]


def _error_section(results: Results) -> Section:
    gains = {kind.name.lower(): 100 * results.gains[kind] for kind in KINDS}
    rows: List[Tuple[Cell, ...]] = [
        (kind.name.lower(), _MEANINGS[kind], results.errors[kind], 100 * results.gains[kind])
        for kind in KINDS
    ]
    return Section(
        'Error types',
        [
            Figure(
                'error_types_gain',
                'AP50 gained by fixing each type, in points',
                lambda figure: plots.bars(figure, gains, 'points of AP50'),
            ),
            Table(
                'error_types',
                'Errors by type',
                ('error', 'meaning', 'number', 'gain in AP50'),
                rows,
                'The number is that of detections from the score threshold on. The gain is that of '
                'fixing this type alone among all detections.',
            ),
        ],
        'The six types of TIDE. The type with the largest gain is the one to work on.',
    )


def _curve_section(results: Results, curves: Mapping[int, _Curves]) -> Section:
    known = [class_id for class_id in results.class_ids if results.counts[class_id]]
    known.sort(key=lambda class_id: -results.counts[class_id])
    names = dict(zip(results.class_ids, results.names))

    def lines(x: np.ndarray, attribute: str) -> Dict[str, Tuple[np.ndarray, np.ndarray]]:
        values = {class_id: getattr(curves[class_id], attribute) for class_id in known}
        each = {names[class_id]: (x, y) for class_id, y in values.items()}
        if len(known) < 2:
            return each
        return {_ALL_CLASSES: (x, np.mean(list(values.values()), axis=0)), **each}

    recalls, thresholds = coco_matching.RECALLS, score_curves.THRESHOLDS
    precision, f1 = lines(recalls, 'precision'), lines(thresholds, 'f1')
    return Section(
        'Curves',
        [
            Figure(
                'precision_recall',
                'Precision over recall, at IoU 0.5',
                lambda figure: plots.curves(
                    figure, precision, 'recall', 'precision', main=_ALL_CLASSES
                ),
            ),
            Figure(
                'f1_score',
                'F1 over the score threshold, at IoU 0.5',
                lambda figure: plots.curves(figure, f1, 'score threshold', 'F1', main=_ALL_CLASSES),
            ),
        ],
        'The mean over classes with objects is bold.',
    )
