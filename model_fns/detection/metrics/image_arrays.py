"""Tensors of a batch that evaluators use, and what they are of one image."""

from __future__ import annotations

from typing import FrozenSet, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib.task import Features, Labels, Tensors
from model_fns.detection import fields
from model_fns.detection.metrics import image_masks
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.structures import box_overlaps, rotated_overlaps
from model_fns.structures.label_map import to_id

# Tensors that an evaluation fetches of each batch. Only these determine its memory.
_OUTPUTS = (
    fields.DETECTION_BOXES,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.NUM_DETECTIONS,
)
_LABELS = (
    fields.BOXES,
    fields.CLASSES,
    fields.IS_CROWD,
    fields.DIFFICULT,
    fields.GROUP_OF,
    fields.AREA,
    fields.NUM_BOXES,
)
# Labels that are fetched if the reader provides them.
_MORE_LABELS = (
    fields.IMAGE_CLASSES,
    fields.LABELED_CLASSES,
    fields.ABSENT_CLASSES,
    fields.INCOMPLETE_CLASSES,
    fields.NUM_LEFT_OUT,
)
# Labels, outputs and features that are fetched if an evaluator needs the groundtruth of the key.
_NEEDED_WITH = {
    fields.MASKS: (
        (fields.MASKS, fields.MASK_WEIGHTS),
        (fields.DETECTION_MASKS,),
        (fields.TRUE_IMAGE_SHAPE,),
    ),
    fields.KEYPOINTS: ((fields.KEYPOINTS,), (fields.DETECTION_KEYPOINTS,), ()),
}


def select(needs: FrozenSet[str], outputs: Tensors, features: Features, labels: Labels) -> Tensors:
    """Select the tensors of a batch that evaluators use, by name; their first axis is the batch.

    Args:
        needs: names of `fields` of labels that are used besides boxes: masks, keypoints.
        outputs: detections.
        features: features of the batch.
        labels: labels of the batch.
    """
    tensors = {name: labels[name] for name in _LABELS}
    # One number for each box in place of C, before the tensors leave the graph.
    tensors[fields.CLASSES] = tf.argmax(labels[fields.CLASSES], axis=-1)
    tensors.update({name: labels[name] for name in _MORE_LABELS if name in labels})
    tensors.update({name: outputs[name] for name in _OUTPUTS})
    tensors[fields.SOURCE_ID] = features[fields.SOURCE_ID]
    tensors[fields.ORIGINAL_SHAPE] = features[fields.ORIGINAL_SHAPE]
    for need in sorted(needs):
        for names, source in zip(_NEEDED_WITH[need], (labels, outputs, features)):
            tensors.update({name: source[name] for name in names})
    return tensors


def groundtruth(image: Mapping[str, np.ndarray]) -> Groundtruth:
    """Return the groundtruth of an image, in its pixels.

    Args:
        image: arrays of `select`, without the batch dimension.
    """
    count, size = int(image[fields.NUM_BOXES]), image[fields.ORIGINAL_SHAPE]
    rows = {name: image[name][:count] for name in fields.PER_BOX if name in image}
    masks, keypoints = None, rows.get(fields.KEYPOINTS)
    if fields.MASKS in rows:
        content = image[fields.TRUE_IMAGE_SHAPE].tolist()
        masks = image_masks.resize_groundtruth(rows[fields.MASKS], content, size.tolist())
    return Groundtruth(
        boxes=_to_pixels(rows[fields.BOXES], size),
        classes=to_id(rows[fields.CLASSES]),
        is_crowd=rows[fields.IS_CROWD],
        difficult=rows[fields.DIFFICULT],
        group_of=rows[fields.GROUP_OF],
        areas=rows[fields.AREA],
        image_classes=to_id(np.flatnonzero(image.get(fields.IMAGE_CLASSES, ()))),
        absent_classes=to_id(np.flatnonzero(image.get(fields.ABSENT_CLASSES, ()))),
        incomplete_classes=to_id(np.flatnonzero(image.get(fields.INCOMPLETE_CLASSES, ()))),
        masks=masks,
        mask_weights=rows.get(fields.MASK_WEIGHTS),
        keypoints=None if keypoints is None else keypoints * size,
    )


def detections(image: Mapping[str, np.ndarray]) -> Detections:
    """Return the detections of an image, in its pixels; see `groundtruth` for the argument.

    Those of classes that were not looked for are left out: they may be right.
    """
    count, size = int(image[fields.NUM_DETECTIONS]), image[fields.ORIGINAL_SHAPE]
    boxes = image[fields.DETECTION_BOXES][:count]
    masks, keypoints = None, image.get(fields.DETECTION_KEYPOINTS)
    if fields.DETECTION_MASKS in image:
        masks = image_masks.paste_detections(
            image[fields.DETECTION_MASKS][:count], boxes, size.tolist()
        )
    found = Detections(
        boxes=_to_pixels(boxes, size),
        scores=image[fields.DETECTION_SCORES][:count],
        classes=image[fields.DETECTION_CLASSES][:count].astype(np.int64),
        masks=masks,
        keypoints=None if keypoints is None else keypoints[:count] * size,
    )
    if fields.LABELED_CLASSES not in image:
        return found
    return found.kept(np.isin(found.classes, to_id(np.flatnonzero(image[fields.LABELED_CLASSES]))))


def _to_pixels(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Convert boxes to pixels: axis-aligned ones to [n, 4], rotated ones to outlines [n, 4, 2]."""
    if boxes.shape[1] == 4:
        return box_overlaps.scale_to_pixels(boxes, size)
    return rotated_overlaps.outlines(boxes, size)
