"""Proposal of anchors that fit the boxes of the training examples, for `--mode=check`.

Each map gets the boxes whose side is nearest, as a ratio, to a number of its strides. Of their
sizes k-means finds as many anchors as the map has now, with 1 - IoU as the distance (Redmon and
Farhadi 2017, "YOLO9000", section 2, "Dimension Clusters"). So the heads keep their shapes, and
checkpoints still fit. Rotated anchors keep their angles.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from estimator_lib.data import inputs
from estimator_lib.task import Task
from model_fns.detection import box_report, detector
from model_fns.detection.boxes import anchors as anchors_lib
from model_fns.detection.boxes.family import BoxFamily
from model_fns.structures import box_overlaps
from protos import anchors_pb2, pipeline_pb2

tf1 = tf.compat.v1

Size = Tuple[int, int]

_NO_THRESHOLD = 'the matcher has no threshold that anchors could reach'
_MOST_BOXES = 20_000
_MOST_ROUNDS = 100
_DIGITS = 5


class _Kind(NamedTuple):
    """Anchors of a kind of model.

    Attributes:
        field: of the model's config.
        strides: side of an anchor in strides of its map.
        in_pixels: whether boxes of anchors are in pixels, not normalized.
    """

    field: str
    strides: float
    in_pixels: bool


KINDS = {
    # The smallest anchor of an octave of RetinaNet (Lin et al. 2017, section 4, has 4 strides), and
    # the next octave's, in the geometric mean.
    'ssd': _Kind('anchor_generator', 4.0 * math.sqrt(2.0), False),
    # Lin et al. 2016, "Feature Pyramid Networks", section 4.1: sides of 32 on the map of stride 4.
    'faster_rcnn': _Kind('first_stage_anchor_generator', 8.0, True),
}


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


class Fitted(NamedTuple):
    """Anchors that are fitted to boxes.

    Attributes:
        before: the fit of the present anchors.
        after: the fit of the proposed ones; None where they are of no use.
        generator: of the proposed ones.
    """

    before: box_report.Fit
    after: Optional[box_report.Fit]
    generator: anchors_pb2.AnchorGenerator


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
    name = config.model.WhichOneof('model')
    if name not in KINDS:
        raise errors.UserError(
            f'--propose_anchors: the model is {name}; expected {" or ".join(KINDS)}, which have '
            'anchors.'
        )
    records: List[box_report.Record] = []
    inputs.inspect_records(
        task,
        config.train_input_reader,
        check_all=check_all,
        examine=lambda record: records.append(task.checks.examine(record)),
    )
    fitted = fit(config, records)
    if isinstance(fitted, str):
        raise errors.UserError(f'--propose_anchors: {fitted}.')
    field = KINDS[name].field
    proposal = pipeline_pb2.TrainEvalPipelineConfig()
    getattr(getattr(proposal.model, name), field).CopyFrom(fitted.generator)
    fragment = text_format.MessageToString(proposal).splitlines()
    return _describe(fitted.before, fitted.after, field, fragment)


def fit(
    config: pipeline_pb2.TrainEvalPipelineConfig, records: Sequence[box_report.Record]
) -> Union[Fitted, str]:
    """Fit the anchors of a model to boxes.

    Args:
        config: of a detector with anchors on a pyramid.
        records: sizes of images and their boxes.

    Returns:
        The fitted anchors; or what is missing for them, in words.
    """
    name = config.model.WhichOneof('model')
    kind, model = KINDS[name], detector.build_detector(config.model)
    boxes, before = box_report.fit_anchors(model, records)
    if boxes is None or before is None:
        return 'there are no boxes to fit anchors to' if boxes is None else _NO_THRESHOLD
    if before.threshold is None:
        return 'the matcher gives each box an anchor, whatever their overlap: there is none to fit'
    present = getattr(getattr(config.model, name), kind.field)
    angles = _angles(present)
    # Without the angles: the sizes of rotated anchors before they are rotated.
    generator = anchors_lib.build_anchor_generator(Section(present, f'model.{name}.{kind.field}'))
    # Every n-th box, so that all parts of the data are represented.
    sizes = _sizes(boxes[:: -(-len(boxes) // _MOST_BOXES)], model.family, angles or [0.0])
    levels = fit_levels(find_levels(generator, before.grids, before.size), sizes, kind.strides)
    fitted = _to_config(levels, angles, kind.in_pixels)
    changed = pipeline_pb2.TrainEvalPipelineConfig()
    changed.CopyFrom(config)
    getattr(getattr(changed.model, name), kind.field).CopyFrom(fitted)
    try:
        _, after = box_report.fit_anchors(detector.build_detector(changed.model), records)
    except errors.ConfigError:  # none is inside of the input of a two-stage detector
        after = None
    return Fitted(before, after, fitted)


def _describe(
    before: box_report.Fit, after: Optional[box_report.Fit], field: str, fragment: Sequence[str]
) -> List[str]:
    """Return the lines of a proposal."""
    recall, mean = _recall(before)
    lines = [
        f'anchors: {recall:.1%} of {len(before.similarity):,} boxes overlap one by '
        f'{before.threshold:g} (mean of the best overlaps: {mean:.3f})'
    ]
    if after is None or _recall(after) <= (recall, mean):
        return [*lines, 'anchors: k-means finds none that fit better']
    recall, mean = _recall(after)
    gain = f'anchors below: {recall:.1%} (mean: {mean:.3f}); write them in place of {field}'
    return [*lines, gain, *fragment]


def _recall(fit: box_report.Fit) -> Tuple[float, float]:
    """Compute the share of boxes that overlap an anchor enough, and the mean overlap."""
    return 1.0 - fit.unmatched_share(), float(np.mean(fit.similarity))


def _angles(config: anchors_pb2.AnchorGenerator) -> List[float]:
    """Return the angles of rotated anchors in radians; empty: they are not rotated."""
    return list(getattr(config, config.WhichOneof('anchor_generator_oneof')).angles)


def _sizes(boxes: np.ndarray, family: BoxFamily, angles: Sequence[float]) -> np.ndarray:
    """Compute heights and widths [n, 2] of boxes [n, K] in pixels, float64.

    Those of a rotated box are seen from the nearest angle of the anchors: where that is more than
    45 degrees away, height and width are exchanged.
    """
    if not family.IS_ROTATED:
        return (boxes[:, 2:] - boxes[:, :2]).astype(np.float64)
    with tf.Graph().as_default(), tf1.Session() as session:
        rotated = session.run(family.to_boxes(tf.constant(boxes), 1.0, 1.0)).astype(np.float64)
    turns = np.mod(rotated[:, 4:] - np.array(angles) + math.pi / 2, math.pi) - math.pi / 2
    is_across = np.min(np.abs(turns), axis=1, keepdims=True) > math.pi / 4
    return np.where(is_across, rotated[:, 3:1:-1], rotated[:, 2:4])


def find_levels(
    generator: anchors_lib.AnchorGenerator, grids: Sequence[Size], image_size: Size
) -> List[Level]:
    """Find the feature maps of a generator of axis-aligned anchors.

    Args:
        generator: of the anchors.
        grids: height and width of each feature map in cells; empty: the generator has strides.
        image_size: height and width of the network's input in pixels.
    """
    levels = []
    for index, count in enumerate(generator.anchors_per_location()):
        grid = grids[index] if grids else (2, 2)
        boxes = np.reshape(generator.level(index, grid, image_size), [*grid, count, 4])
        if not generator.in_pixels:
            boxes = boxes * np.tile(image_size, 2)
        centers = (boxes[:, :, 0, :2] + boxes[:, :, 0, 2:]) / 2.0
        # The stride of a single cell is the whole image.
        down = centers[1, 0, 0] - centers[0, 0, 0] if grid[0] > 1 else image_size[0]
        right = centers[0, 1, 1] - centers[0, 0, 1] if grid[1] > 1 else image_size[1]
        shapes = boxes[0, 0, :, 2:] - boxes[0, 0, :, :2]
        first = (float(centers[0, 0, 0]), float(centers[0, 0, 1]))
        levels.append(Level(shapes, (float(down), float(right)), first))
    return levels


def fit_levels(levels: Sequence[Level], sizes: np.ndarray, strides: float) -> List[Level]:
    """Return the maps with anchors that fit the boxes.

    Args:
        levels: the maps with their present anchors, which stay where a map gets no boxes.
        sizes: [n, 2]: height and width of the boxes in pixels.
        strides: side of a box of a map in strides of the map.
    """
    # Logarithms, because sizes of objects are compared as ratios: 16 is as far from 32 as 64.
    expected = np.log(
        [strides * math.sqrt(level.strides[0] * level.strides[1]) for level in levels]
    )
    sides = 0.5 * np.log(np.prod(sizes, axis=1))
    nearest = np.argmin(np.abs(sides[:, np.newaxis] - expected), axis=1)
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
    # Not drawn at random: the same data gives the same anchors, and quantiles are spread.
    centers = by_area[positions.astype(int)]
    boxes = _from_origin(by_area)
    nearest = None
    for _ in range(_MOST_ROUNDS):
        chosen = np.argmax(box_overlaps.iou(boxes, _from_origin(centers)), axis=1)
        if nearest is not None and np.array_equal(chosen, nearest):
            break
        nearest = chosen
        centers = np.array(
            [
                # A center without boxes stays: its anchor keeps the number of outputs of the heads.
                by_area[nearest == index].mean(axis=0) if np.any(nearest == index) else center
                for index, center in enumerate(centers)
            ]
        )
    return centers[np.argsort(np.prod(centers, axis=1), kind='stable')]


def _from_origin(sizes: np.ndarray) -> np.ndarray:
    """Return boxes [n, 4] of sizes [n, 2], with a corner in common."""
    return np.concatenate([np.zeros_like(sizes), sizes], axis=1)


def _to_config(
    levels: Sequence[Level], angles: Sequence[float], in_pixels: bool
) -> anchors_pb2.AnchorGenerator:
    """Convert maps to the message of a generator, whose strides are whole pixels."""
    config = anchors_pb2.AnchorGenerator()
    config.flexible_grid_anchor_generator.angles.extend(angles)
    if in_pixels:
        config.flexible_grid_anchor_generator.normalize_coordinates = False
    grids = config.flexible_grid_anchor_generator.anchor_grid
    for level in levels:
        heights, widths = level.shapes.T
        grids.add(
            base_sizes=_rounded(np.sqrt(heights * widths)),
            aspect_ratios=_rounded(widths / heights),
            # The schema has whole pixels, and map sides that are rounded up make fractions.
            height_stride=max(1, round(level.strides[0])),
            width_stride=max(1, round(level.strides[1])),
            height_offset=max(0, round(level.offsets[0])),
            width_offset=max(0, round(level.offsets[1])),
        )
    return config


def _rounded(values: np.ndarray) -> List[float]:
    return [float(f'{value:.{_DIGITS}g}') for value in values]
