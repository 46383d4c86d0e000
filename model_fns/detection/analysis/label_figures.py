"""Figures of the boxes of the data: positions, sizes beside the anchors, and the fit of both."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import Figure
from model_fns.detection.box_report import Fit, Record, first_records, fit_anchors
from model_fns.detection.detector import Detector

_MOST_POINTS = 2000  # boxes that are drawn


def box_figures(model: Detector, readers: Mapping[str, Sequence[Record]]) -> List[Figure]:
    """Return the figures of the boxes of the first reader; empty without boxes.

    Args:
        model: the detector, with its anchors.
        readers: results of `box_report.examine`, by reader.
    """
    records = first_records(readers)
    boxes, fit = fit_anchors(model, records)
    if boxes is None:
        return []
    reader = next(name for name, records in readers.items() if records)
    centers = np.concatenate([_centers(each.boxes) for each in records if len(each.boxes)])
    # Every n-th box, not the first ones: neighbors come from the same images.
    step = -(-len(boxes) // _MOST_POINTS)
    sizes: Dict[str, Tuple[np.ndarray, np.ndarray]] = {'boxes': _width_height(boxes[::step])}
    if fit is not None:
        # Anchors of a kind differ by rounding from cell to cell. Of tens of thousands, the distinct
        # sizes remain.
        widths_heights = np.round(np.stack(_width_height(fit.anchors), axis=1), 1)
        widths, heights = np.unique(widths_heights, axis=0).T
        sizes['anchors'] = widths, heights
    figures = [
        Figure(
            'box_positions',
            f'{reader}: centers of boxes',
            lambda figure: plots.density(figure, centers[:, 1], centers[:, 0], 'x', 'y'),
            'As fractions of the image.',
        ),
        Figure(
            'box_sizes',
            f'{reader}: sizes of boxes',
            lambda figure: plots.scatter(figure, sizes, 'width', 'height'),
            "In pixels of the network's input.",
        ),
    ]
    return [*figures, *([] if fit is None else [_fit_figure(reader, fit)])]


def _fit_figure(reader: str, fit: Fit) -> Figure:
    note = ', the least IoU of a match' if fit.threshold is not None else ''
    return Figure(
        'anchor_overlaps',
        f'{reader}: overlap with the best anchor',
        lambda figure: plots.histograms(
            figure, {'IoU': fit.similarity}, 'boxes', limits=(0.0, 1.0), line=fit.threshold
        ),
        f'{fit.describe()}{note}.',
    )


def _centers(boxes: np.ndarray) -> np.ndarray:
    """Return y and x [n, 2] of the centers of boxes as records have them."""
    return boxes[:, :2] if boxes.shape[1] == 5 else (boxes[:, :2] + boxes[:, 2:]) / 2


def _width_height(boxes: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return the widths and heights of boxes [n, 4], or the sides of corners [n, 8]."""
    if boxes.shape[1] == 4:
        return boxes[:, 3] - boxes[:, 1], boxes[:, 2] - boxes[:, 0]
    points = boxes.reshape(-1, 4, 2)
    first, second = points[:, 1] - points[:, 0], points[:, 2] - points[:, 1]
    return np.hypot(*first.T), np.hypot(*second.T)
