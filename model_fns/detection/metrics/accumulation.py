"""Metrics of a `tf.estimator` graph, which pass the tensors of an evaluation to its evaluators."""

from __future__ import annotations

import copy
import logging
from typing import Any, Dict, FrozenSet, List, Mapping, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import Features, Labels, Metric, Tensors
from model_fns.detection import fields
from model_fns.detection.boxes import overlaps
from model_fns.detection.metrics import image_masks
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth
from model_fns.structures import rotated_overlaps
from model_fns.structures.label_map import to_id

tf1 = tf.compat.v1
log = logging.getLogger('model_fns')

_VALUES = 'detection_metrics'
_MAX_NAMED = 10  # images in a message

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
_MORE_LABELS = (fields.IMAGE_CLASSES, fields.NUM_LEFT_OUT)
# Labels, outputs and features that are fetched if an evaluator needs the groundtruth of the key.
_NEEDED_WITH = {
    fields.MASKS: (
        (fields.MASKS, fields.MASK_WEIGHTS),
        (fields.DETECTION_MASKS,),
        (fields.TRUE_IMAGE_SHAPE,),
    ),
    fields.KEYPOINTS: ((fields.KEYPOINTS,), (fields.DETECTION_KEYPOINTS,), ()),
}


class Metrics:
    """The metrics of a detection task.

    Args:
        evaluators: evaluators with distinct names of metrics.
    """

    def __init__(self, evaluators: Sequence[Evaluator]):
        self._evaluators = list(evaluators)

    def names(self) -> List[str]:
        """List all metrics that may be reported."""
        return [name for evaluator in self._evaluators for name in evaluator.names()]

    def create(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build one metric with all values as a vector, which `finish` splits.

        The update op passes each batch to the evaluators, and the value op lets them compute. A
        local variable counts batches, so that a new pass discards the previous one.
        """
        collected = _Collected(self._evaluators)
        names = self.names()

        def update(count: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
            if count == 1:
                collected.clear()
            collected.add_batch(dict(zip(keys, arrays)))
            return count

        def value(count: np.ndarray) -> np.ndarray:
            if count == 0:
                collected.clear()
            computed = collected.evaluate()
            return np.array([computed.get(name, np.nan) for name in names], np.float32)

        needs = frozenset().union(*(evaluator.needs for evaluator in self._evaluators))
        keys, tensors = _fetched(needs, outputs, features, labels)
        with tf.name_scope(_VALUES):
            batches = tf1.Variable(
                tf.constant(0, tf.int64),
                trainable=False,
                collections=[tf1.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
            updated = tf.numpy_function(update, [batches.assign_add(1), *tensors], tf.int64)
            values = tf.numpy_function(value, [batches.read_value()], tf.float32)
        values.set_shape([len(names)])
        return {_VALUES: (values, updated)}

    def finish(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Return the scalars by name.

        Metrics that the data does not define are omitted, except summaries, which are NaN.
        """
        summaries = {name for evaluator in self._evaluators for name in evaluator.summary_names()}
        pairs = zip(self.names(), np.asarray(values[_VALUES]))
        return {
            name: float(value) for name, value in pairs if name in summaries or not np.isnan(value)
        }


class _Collected:
    """Images of one evaluation."""

    def __init__(self, evaluators: Sequence[Evaluator]):
        # Each evaluation has copies, because a task has no state.
        self._evaluators = [copy.copy(evaluator) for evaluator in evaluators]
        self.clear()

    def clear(self) -> None:
        """Discard all images."""
        self._seen: Set[str] = set()
        self._duplicates: List[str] = []
        self._crowded: Dict[str, int] = {}
        for evaluator in self._evaluators:
            evaluator.clear()

    def add_batch(self, batch: Mapping[str, np.ndarray]) -> None:
        """Pass each image of a batch to the evaluators, without duplicates."""
        for index, source_id in enumerate(batch[fields.SOURCE_ID]):
            image_id = source_id.decode('utf-8', 'replace')
            if not image_id:
                image_id = f'image {len(self._seen) + 1}'
            if image_id in self._seen:
                self._duplicates.append(image_id)
                continue
            self._seen.add(image_id)
            image = {name: values[index] for name, values in batch.items()}
            if image.get(fields.NUM_LEFT_OUT, 0):
                self._crowded[image_id] = int(image[fields.NUM_LEFT_OUT])
            groundtruth, detections = self._groundtruth(image), self._detections(image)
            for evaluator in self._evaluators:
                evaluator.add_image(image_id, groundtruth, detections)

    def evaluate(self) -> Dict[str, float]:
        """Compute the metrics of all images, and warn of what was not counted."""
        if self._duplicates:
            log.warning(
                '%d examples have the id of another one and were counted once: %s',
                len(self._duplicates),
                _listed(self._duplicates),
            )
        if self._crowded:
            log.warning(
                '%d boxes of %d images were left out, because an image has more than '
                'max_number_of_boxes: %s',
                sum(self._crowded.values()),
                len(self._crowded),
                _listed(list(self._crowded)),
            )
        metrics: Dict[str, float] = {}
        for evaluator in self._evaluators:
            metrics.update(evaluator.evaluate())
            missing = [name for name in evaluator.summary_names() if name not in metrics]
            if missing:
                text = '%s: not a number, because the examples have no objects to find'
                log.warning(text, ', '.join(missing))
        return metrics

    def _groundtruth(self, image: Mapping[str, np.ndarray]) -> Groundtruth:
        count, size = int(image[fields.NUM_BOXES]), image[fields.ORIGINAL_SHAPE]
        rows = {name: image[name][:count] for name in fields.PER_BOX if name in image}
        masks, keypoints = None, rows.get(fields.KEYPOINTS)
        if fields.MASKS in rows:
            content = image[fields.TRUE_IMAGE_SHAPE]
            masks = image_masks.resize_groundtruth(rows[fields.MASKS], content, size)
        return Groundtruth(
            boxes=_to_pixels(rows[fields.BOXES], size),
            classes=to_id(rows[fields.CLASSES]),
            is_crowd=rows[fields.IS_CROWD],
            difficult=rows[fields.DIFFICULT],
            group_of=rows[fields.GROUP_OF],
            areas=rows[fields.AREA],
            image_classes=to_id(np.flatnonzero(image.get(fields.IMAGE_CLASSES, ()))),
            masks=masks,
            mask_weights=rows.get(fields.MASK_WEIGHTS),
            keypoints=None if keypoints is None else keypoints * size,
        )

    def _detections(self, image: Mapping[str, np.ndarray]) -> Detections:
        count, size = int(image[fields.NUM_DETECTIONS]), image[fields.ORIGINAL_SHAPE]
        boxes = image[fields.DETECTION_BOXES][:count]
        masks, keypoints = None, image.get(fields.DETECTION_KEYPOINTS)
        if fields.DETECTION_MASKS in image:
            masks = image_masks.paste_detections(image[fields.DETECTION_MASKS][:count], boxes, size)
        return Detections(
            boxes=_to_pixels(boxes, size),
            scores=image[fields.DETECTION_SCORES][:count],
            classes=image[fields.DETECTION_CLASSES][:count].astype(np.int64),
            masks=masks,
            keypoints=None if keypoints is None else keypoints[:count] * size,
        )


def _to_pixels(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Convert boxes to pixels: axis-aligned ones to [n, 4], rotated ones to outlines [n, 4, 2]."""
    if boxes.shape[1] == 4:
        return overlaps.scale_to_pixels(boxes, size)
    return rotated_overlaps.outlines(boxes, size)


def _fetched(
    needs: FrozenSet[str], outputs: Tensors, features: Features, labels: Labels
) -> Tuple[List[str], List[tf.Tensor]]:
    """Return names and tensors that evaluators use; `needs` are those besides boxes."""
    tensors = {name: labels[name] for name in _LABELS}
    tensors[fields.CLASSES] = tf.argmax(labels[fields.CLASSES], axis=-1)
    tensors.update({name: labels[name] for name in _MORE_LABELS if name in labels})
    tensors.update({name: outputs[name] for name in _OUTPUTS})
    tensors[fields.SOURCE_ID] = features[fields.SOURCE_ID]
    tensors[fields.ORIGINAL_SHAPE] = features[fields.ORIGINAL_SHAPE]
    for need in sorted(needs):
        for names, source in zip(_NEEDED_WITH[need], (labels, outputs, features)):
            tensors.update({name: source[name] for name in names})
    return list(tensors), list(tensors.values())


def _listed(image_ids: Sequence[str]) -> str:
    """Join the first ids for a message."""
    return ', '.join(image_ids[:_MAX_NAMED]) + (', ...' if len(image_ids) > _MAX_NAMED else '')
