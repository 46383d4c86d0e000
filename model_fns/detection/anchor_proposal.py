"""Proposal of anchors that fit the boxes of the training examples, for `--mode=check`.

Each map gets the boxes whose side is nearest, as a ratio, to `_STRIDES` times its stride. Of
their sizes k-means finds as many anchors as the map has now, with 1 - IoU as the distance (Redmon
and Farhadi 2017, "YOLO9000", section 2, "Dimension Clusters"). So the heads keep their shapes, and
checkpoints still fit.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.data import inputs
from estimator_lib.task import Task
from model_fns.detection import box_report, detector
from model_fns.detection.boxes import anchors as anchors_lib
from model_fns.detection.boxes import axis_aligned, overlaps
from protos import anchors_pb2, pipeline_pb2

# Side of an anchor in strides of its map: the smallest one of an octave of RetinaNet (Lin et al.
# 2017, section 4, has 4), and the next octave's, in the geometric mean.
_STRIDES = 4.0 * math.sqrt(2.0)
_MOST_BOXES = 20_000
_MOST_ROUNDS = 100
_DIGITS = 5


class Level(NamedTuple):
    """One feature map.

    Attributes:
        shapes: [n, 2]: height and width of the anchors of a cell, in pixels.
        strides: vertical and horizontal distance between cells in pixels.
        offsets: center of the first cell in pixels.
    """

    shapes: np.ndarray
    strides: Tuple[float, float]
    offsets: Tuple[float, float]


def propose(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, check_all: bool = False
) -> List[str]:
    """Return the lines of a proposal: the recall before and after, and a fragment of a config.

    Args:
        task: the task of the config.
        config: a valid pipeline config.
        check_all: use every record of the training reader, not a sample.

    Raises:
        errors.UserError: the model has no anchors on a pyramid, or there are no boxes.
    """
    if not config.model.HasField('ssd'):
        raise errors.UserError(
            f'--propose_anchors: the model is {config.model.WhichOneof("model")}; expected ssd, '
            'whose feature maps have anchors of their own.'
        )
    records: List[box_report.Record] = []
    inputs.inspect_records(
        task,
        config.train_input_reader,
        check_all=check_all,
        examine=lambda record: records.append(task.examine(record)),
    )
    model = detector.build_detector(config.model)
    if model.family is not axis_aligned:
        raise errors.UserError(
            '--propose_anchors: the boxes of the model are rotated; expected axis-aligned ones.'
        )
    boxes, fit = box_report.fit_anchors(model, records)
    if fit is None:
        missing = 'no boxes' if boxes is None else 'no threshold of matches'
        raise errors.UserError(f'--propose_anchors: there are {missing} to fit anchors to.')
    where = 'model.ssd.anchor_generator'
    generator = anchors_lib.build_anchor_generator(config.model.ssd.anchor_generator, where)
    levels = find_levels(fit.anchors, generator.anchors_per_location(), fit.size)
    step = -(-len(boxes) // _MOST_BOXES)
    sizes = (boxes[:, 2:] - boxes[:, :2])[::step].astype(np.float64)
    proposal = pipeline_pb2.TrainEvalPipelineConfig()
    proposal.model.ssd.anchor_generator.CopyFrom(_to_config(fit_levels(levels, sizes)))
    changed = pipeline_pb2.TrainEvalPipelineConfig()
    changed.CopyFrom(config)
    changed.model.ssd.anchor_generator.CopyFrom(proposal.model.ssd.anchor_generator)
    _, new_fit = box_report.fit_anchors(detector.build_detector(changed.model), records)
    return _describe(fit, new_fit, text_format.MessageToString(proposal))


def _describe(before: box_report.Fit, after: box_report.Fit, fragment: str) -> List[str]:
    """Return the lines of a proposal."""
    recalls = [float(np.mean(fit.similarity >= fit.threshold)) for fit in (before, after)]
    means = [float(np.mean(fit.similarity)) for fit in (before, after)]
    lines = [
        f'anchors: {recalls[0]:.1%} of {len(before.similarity):,} boxes overlap one by '
        f'{before.threshold:g} (mean of the best overlaps: {means[0]:.3f})'
    ]
    if recalls[1] < recalls[0] or (recalls[1] == recalls[0] and means[1] <= means[0]):
        return [*lines, 'anchors: k-means finds none that fit better']
    return [
        *lines,
        f'anchors below: {recalls[1]:.1%} (mean: {means[1]:.3f}); write them in place of '
        'anchor_generator',
        *fragment.splitlines(),
    ]


def find_levels(
    boxes: np.ndarray, counts: Sequence[int], image_size: Tuple[int, int]
) -> List[Level]:
    """Find the feature maps in the anchors of all of them.

    Args:
        boxes: [A, 4]: anchors in pixels, by map, cell (row by row) and anchor of the cell.
        counts: number of anchors of a cell, for each map.
        image_size: height and width of the image in pixels.
    """
    levels, start = [], 0
    for count in counts:
        shapes = (boxes[start : start + count, 2:] - boxes[start : start + count, :2]).astype(float)
        centers = (boxes[start::count, :2] + boxes[start::count, 2:]) / 2.0
        # The first cell of the next map is neither right of nor below the last one of this map.
        is_same_map = np.any(np.diff(centers, axis=0) > 1e-3, axis=1)
        cells = int(np.argmin(np.append(is_same_map, False))) + 1
        centers = centers[:cells]
        strides = [
            float(np.diff(np.unique(np.round(side, 2))).mean()) if np.ptp(side) > 1e-2 else whole
            for side, whole in zip(centers.T, map(float, image_size))
        ]
        first = (float(centers[0, 0]), float(centers[0, 1]))
        levels.append(Level(shapes, (strides[0], strides[1]), first))
        start += cells * count
    return levels


def fit_levels(levels: Sequence[Level], sizes: np.ndarray) -> List[Level]:
    """Return the maps with anchors that fit the boxes.

    Args:
        levels: the maps with their present anchors, which stay where a map gets no boxes.
        sizes: [n, 2]: height and width of the boxes in pixels.
    """
    strides = np.log([math.sqrt(level.strides[0] * level.strides[1]) for level in levels])
    sides = 0.5 * np.log(np.prod(sizes, axis=1)) - math.log(_STRIDES)
    nearest = np.argmin(np.abs(sides[:, np.newaxis] - strides), axis=1)
    return [
        level._replace(shapes=cluster(sizes[nearest == index], len(level.shapes)))
        if np.any(nearest == index)
        else level
        for index, level in enumerate(levels)
    ]


def cluster(sizes: np.ndarray, count: int) -> np.ndarray:
    """Find clusters of sizes by k-means with 1 - IoU as the distance.

    Args:
        sizes: [n, 2]: heights and widths, n at least 1.
        count: number of clusters.

    Returns:
        [count, 2]: the mean size of each cluster, by area. The first ones are quantiles of the
        area, so the result is a function of the arguments.
    """
    by_area = sizes[np.argsort(np.prod(sizes, axis=1), kind='stable')]
    positions = (np.arange(count) + 0.5) / count * len(by_area)
    centers = by_area[positions.astype(int)]
    boxes = _from_origin(by_area)
    nearest = None
    for _ in range(_MOST_ROUNDS):
        chosen = np.argmax(overlaps.iou(boxes, _from_origin(centers)), axis=1)
        if nearest is not None and np.array_equal(chosen, nearest):
            break
        nearest = chosen
        centers = np.array(
            [
                by_area[nearest == index].mean(axis=0) if np.any(nearest == index) else center
                for index, center in enumerate(centers)
            ]
        )
    return centers[np.argsort(np.prod(centers, axis=1), kind='stable')]


def _from_origin(sizes: np.ndarray) -> np.ndarray:
    """Return boxes [n, 4] of sizes [n, 2], with a corner in common."""
    return np.concatenate([np.zeros_like(sizes), sizes], axis=1)


def _to_config(levels: Sequence[Level]) -> anchors_pb2.AnchorGenerator:
    """Convert maps to the message of a generator, whose strides are whole pixels."""
    config = anchors_pb2.AnchorGenerator()
    grids = config.flexible_grid_anchor_generator.anchor_grid
    for level in levels:
        heights, widths = level.shapes.T
        grids.add(
            base_sizes=_rounded(np.sqrt(heights * widths)),
            aspect_ratios=_rounded(widths / heights),
            height_stride=max(1, round(level.strides[0])),
            width_stride=max(1, round(level.strides[1])),
            height_offset=round(level.offsets[0]),
            width_offset=round(level.offsets[1]),
        )
    return config


def _rounded(values: np.ndarray) -> List[float]:
    return [float(f'{value:.{_DIGITS}g}') for value in values]
