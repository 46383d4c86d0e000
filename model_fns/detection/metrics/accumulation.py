"""Metrics of a `tf.estimator` graph, which pass the tensors of an evaluation to its evaluators."""

from __future__ import annotations

import copy
import logging
from typing import Any, Dict, List, Mapping, Sequence, Set

import numpy as np
import tensorflow as tf

from estimator_lib import texts
from estimator_lib.task import Features, Labels, Metric, Tensors
from model_fns.detection import fields
from model_fns.detection.metrics import image_arrays
from model_fns.detection.metrics.evaluator import Evaluator

tf1 = tf.compat.v1
log = logging.getLogger('model_fns')

_VALUES = 'detection_metrics'
_MAX_NAMED = 10  # images in a message


class Metrics:
    """The metrics of a detection task.

    Args:
        evaluators: evaluators with distinct names of metrics.
    """

    def __init__(self, evaluators: Sequence[Evaluator]):
        self._evaluators = list(evaluators)
        # Names of `fields` of labels that evaluators use besides boxes: masks, keypoints.
        self.needs = frozenset().union(*(evaluator.needs for evaluator in self._evaluators))

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
            # NaN for what is undefined, as the vector has a number for each name.
            return np.array([computed.get(name, np.nan) for name in names], np.float32)

        fetched = image_arrays.select(self.needs, outputs, features, labels)
        keys, tensors = list(fetched), list(fetched.values())
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
            groundtruth, detections = (
                image_arrays.groundtruth(image),
                image_arrays.detections(image),
            )
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
                '%s of %s left out, because an image has more than max_number_of_boxes: %s',
                texts.counted(sum(self._crowded.values()), 'box', 'boxes'),
                texts.counted(len(self._crowded), 'image'),
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


def _listed(image_ids: Sequence[str]) -> str:
    """Join the first ids for a message."""
    return ', '.join(image_ids[:_MAX_NAMED]) + (', ...' if len(image_ids) > _MAX_NAMED else '')
