"""From the tensors of an evaluation to its evaluators: metrics of a `tf.estimator` graph."""

from __future__ import annotations

import copy
import logging
from typing import Any, Dict, List, Mapping, Sequence, Set

import numpy as np
import tensorflow as tf

from estimator_lib.task import Features, Labels, Metric, Tensors
from model_fns.detection import fields
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth

log = logging.getLogger('model_fns')

_VALUES = 'detection_metrics'
_MAX_NAMED = 10  # images in a message

# What an evaluation fetches of each batch, and no more: its memory grows with these alone.
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
# Likewise, where the reader gives them.
_MORE_LABELS = (fields.IMAGE_CLASSES, fields.NUM_LEFT_OUT)


class Metrics:
    """The metrics of a detection task.

    Args:
        evaluators: what is computed; no two report the same name.
        class_id_offset: the id of the first class.
    """

    def __init__(self, evaluators: Sequence[Evaluator], class_id_offset: int = 1):
        self._evaluators = list(evaluators)
        self._class_id_offset = class_id_offset

    def names(self) -> List[str]:
        """All metrics that may be reported."""
        return [name for evaluator in self._evaluators for name in evaluator.names()]

    def create(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """One metric, of which `finish` makes scalars: all values as one vector.

        The update op hands each batch to the evaluators; the value op lets them compute.
        """
        collected = _Collected(self._evaluators, self._class_id_offset)
        names = self.names()

        def update(*arrays: np.ndarray) -> np.int64:
            collected.add_batch(dict(zip(keys, arrays)))
            return np.int64(0)

        def value() -> np.ndarray:
            computed = collected.evaluate()
            return np.array([computed.get(name, np.nan) for name in names], np.float32)

        keys, tensors = _fetched(outputs, features, labels)
        with tf.name_scope(_VALUES):
            updated = tf.numpy_function(update, tensors, tf.int64)
            values = tf.numpy_function(value, [], tf.float32)
        values.set_shape([len(names)])
        return {_VALUES: (values, updated)}

    def finish(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """The scalars, by name."""
        pairs = zip(self.names(), np.asarray(values[_VALUES]))
        return {name: float(value) for name, value in pairs if not np.isnan(value)}


class _Collected:
    """The images of one evaluation."""

    def __init__(self, evaluators: Sequence[Evaluator], class_id_offset: int):
        # Each evaluation has its own: a task remembers nothing.
        self._evaluators = [copy.copy(evaluator) for evaluator in evaluators]
        self._offset = class_id_offset
        self._seen: Set[str] = set()
        self._duplicates: List[str] = []
        self._crowded: Dict[str, int] = {}
        for evaluator in self._evaluators:
            evaluator.clear()

    def add_batch(self, batch: Mapping[str, np.ndarray]) -> None:
        """Hands the images of a batch on, each once."""
        for index, source_id in enumerate(batch[fields.SOURCE_ID]):
            image_id = source_id.decode('utf-8', 'replace')
            if not image_id:
                image_id = f'image {len(self._seen) + 1}'
            if image_id in self._seen:
                self._duplicates.append(image_id)
                continue
            self._seen.add(image_id)
            one = {name: values[index] for name, values in batch.items()}
            if one.get(fields.NUM_LEFT_OUT, 0):
                self._crowded[image_id] = int(one[fields.NUM_LEFT_OUT])
            groundtruth, detections = self._groundtruth(one), self._detections(one)
            for evaluator in self._evaluators:
                evaluator.add_image(image_id, groundtruth, detections)

    def evaluate(self) -> Dict[str, float]:
        """The metrics of all images; what was not counted is named."""
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
        return metrics

    def _groundtruth(self, one: Mapping[str, np.ndarray]) -> Groundtruth:
        real = slice(int(one[fields.NUM_BOXES]))
        return Groundtruth(
            boxes=_in_pixels(one[fields.BOXES][real], one),
            classes=one[fields.CLASSES][real] + self._offset,
            is_crowd=one[fields.IS_CROWD][real],
            difficult=one[fields.DIFFICULT][real],
            group_of=one[fields.GROUP_OF][real],
            areas=one[fields.AREA][real],
            image_classes=np.flatnonzero(one.get(fields.IMAGE_CLASSES, ())) + self._offset,
        )

    def _detections(self, one: Mapping[str, np.ndarray]) -> Detections:
        real = slice(int(one[fields.NUM_DETECTIONS]))
        return Detections(
            boxes=_in_pixels(one[fields.DETECTION_BOXES][real], one),
            scores=one[fields.DETECTION_SCORES][real],
            classes=one[fields.DETECTION_CLASSES][real].astype(np.int64),
        )


def _fetched(outputs: Tensors, features: Features, labels: Labels) -> tuple:
    """Names and tensors of what the evaluators need; boxes as shares of the image."""
    true_size = tf.cast(features[fields.TRUE_IMAGE_SHAPE][:, :2], tf.float32)
    size = tf.cast(tf.shape(features[fields.IMAGE])[1:3], tf.float32)
    share = tf.tile(true_size / size, [1, 2])[:, tf.newaxis, :]
    tensors = {name: labels[name] for name in _LABELS}
    tensors[fields.CLASSES] = tf.argmax(labels[fields.CLASSES], axis=-1)
    # Groundtruth is given as shares of the padded input.
    tensors[fields.BOXES] = tensors[fields.BOXES] / share
    tensors.update({name: labels[name] for name in _MORE_LABELS if name in labels})
    tensors.update({name: outputs[name] for name in _OUTPUTS})
    tensors[fields.SOURCE_ID] = features[fields.SOURCE_ID]
    tensors[fields.ORIGINAL_SHAPE] = features[fields.ORIGINAL_SHAPE]
    return list(tensors), list(tensors.values())


def _listed(image_ids: Sequence[str]) -> str:
    """The first of them."""
    return ', '.join(image_ids[:_MAX_NAMED]) + (', ...' if len(image_ids) > _MAX_NAMED else '')


def _in_pixels(boxes: np.ndarray, one: Mapping[str, np.ndarray]) -> np.ndarray:
    height, width = one[fields.ORIGINAL_SHAPE]
    return boxes * np.array([height, width, height, width], np.float32)
