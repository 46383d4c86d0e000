"""From the tensors of an evaluation to its evaluators: metrics of a `tf.estimator` graph."""

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
# Likewise, where an evaluator needs the groundtruth of the first: labels, outputs, features.
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
        evaluators: what is computed; no two report the same name.
    """

    def __init__(self, evaluators: Sequence[Evaluator]):
        self._evaluators = list(evaluators)

    def names(self) -> List[str]:
        """Return all metrics that may be reported."""
        return [name for evaluator in self._evaluators for name in evaluator.names()]

    def create(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Return one metric, of which `finish` makes scalars: all values as one vector.

        The update op hands each batch to the evaluators; the value op lets them compute. Batches
        are counted in a local variable, so that a pass that begins forgets the one before.
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

        Those that the data cannot tell are left out, but for summaries, which are NaN.
        """
        summaries = {name for one in self._evaluators for name in one.summary_names()}
        pairs = zip(self.names(), np.asarray(values[_VALUES]))
        return {
            name: float(value) for name, value in pairs if name in summaries or not np.isnan(value)
        }


class _Collected:
    """The images of one evaluation."""

    def __init__(self, evaluators: Sequence[Evaluator]):
        # Each evaluation has its own: a task remembers nothing.
        self._evaluators = [copy.copy(evaluator) for evaluator in evaluators]
        self.clear()

    def clear(self) -> None:
        """Forget all images."""
        self._seen: Set[str] = set()
        self._duplicates: List[str] = []
        self._crowded: Dict[str, int] = {}
        for evaluator in self._evaluators:
            evaluator.clear()

    def add_batch(self, batch: Mapping[str, np.ndarray]) -> None:
        """Hand the images of a batch on, each once."""
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
        """Return the metrics of all images; what was not counted is named."""
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

    def _groundtruth(self, one: Mapping[str, np.ndarray]) -> Groundtruth:
        count, size = int(one[fields.NUM_BOXES]), one[fields.ORIGINAL_SHAPE]
        rows = {name: one[name][:count] for name in fields.PER_BOX if name in one}
        masks, keypoints = None, rows.get(fields.KEYPOINTS)
        if fields.MASKS in rows:
            content = one[fields.TRUE_IMAGE_SHAPE]
            masks = image_masks.of_groundtruth(rows[fields.MASKS], content, size)
        return Groundtruth(
            boxes=_in_pixels(rows[fields.BOXES], size),
            classes=to_id(rows[fields.CLASSES]),
            is_crowd=rows[fields.IS_CROWD],
            difficult=rows[fields.DIFFICULT],
            group_of=rows[fields.GROUP_OF],
            areas=rows[fields.AREA],
            image_classes=to_id(np.flatnonzero(one.get(fields.IMAGE_CLASSES, ()))),
            masks=masks,
            mask_weights=rows.get(fields.MASK_WEIGHTS),
            keypoints=None if keypoints is None else keypoints * size,
        )

    def _detections(self, one: Mapping[str, np.ndarray]) -> Detections:
        count, size = int(one[fields.NUM_DETECTIONS]), one[fields.ORIGINAL_SHAPE]
        boxes = one[fields.DETECTION_BOXES][:count]
        masks, keypoints = None, one.get(fields.DETECTION_KEYPOINTS)
        if fields.DETECTION_MASKS in one:
            masks = image_masks.of_boxes(one[fields.DETECTION_MASKS][:count], boxes, size)
        return Detections(
            boxes=_in_pixels(boxes, size),
            scores=one[fields.DETECTION_SCORES][:count],
            classes=one[fields.DETECTION_CLASSES][:count].astype(np.int64),
            masks=masks,
            keypoints=None if keypoints is None else keypoints[:count] * size,
        )


def _in_pixels(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Upright boxes [n, 4], or the outlines [n, 4, 2] of rotated ones."""
    if boxes.shape[1] == 4:
        return overlaps.in_pixels(boxes, size)
    return rotated_overlaps.outlines(boxes, size)


def _fetched(
    needs: FrozenSet[str], outputs: Tensors, features: Features, labels: Labels
) -> Tuple[List[str], List[tf.Tensor]]:
    """Names and tensors of what the evaluators need, `needs` beyond boxes."""
    tensors = {name: labels[name] for name in _LABELS}
    tensors[fields.CLASSES] = tf.argmax(labels[fields.CLASSES], axis=-1)
    tensors.update({name: labels[name] for name in _MORE_LABELS if name in labels})
    tensors.update({name: outputs[name] for name in _OUTPUTS})
    tensors[fields.SOURCE_ID] = features[fields.SOURCE_ID]
    tensors[fields.ORIGINAL_SHAPE] = features[fields.ORIGINAL_SHAPE]
    for need in sorted(needs):
        for names, given in zip(_NEEDED_WITH[need], (labels, outputs, features)):
            tensors.update({name: given[name] for name in names})
    return list(tensors), list(tensors.values())


def _listed(image_ids: Sequence[str]) -> str:
    """Return the first of them."""
    return ', '.join(image_ids[:_MAX_NAMED]) + (', ...' if len(image_ids) > _MAX_NAMED else '')
