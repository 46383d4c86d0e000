"""Classification of images that may have several labels, or none: a sigmoid for each class."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.data import record_sources
from estimator_lib.task import (
    IMAGE,
    SOURCE_ID,
    Arrays,
    BatchSpec,
    Example,
    Features,
    Labels,
    Metric,
    Tensors,
)
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.analysis import Analysis
from model_fns.classification import (
    data_checks,
    inputs,
    losses,
    merged_views,
    multi_label_metrics,
)
from model_fns.classification.analysis.label_analyzer import MultiLabelAnalyzer
from model_fns.classification.deployable import (
    CLASSES,
    LOGITS,
    PROBABILITIES,
    ClassificationDeployable,
)
from model_fns.classification.presentation import MultiLabelPresentation
from model_fns.classification.task import (
    MERGED_LOGITS,
    ClassificationTask,
)

_KEYS = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/class/label': tf.io.VarLenFeature(tf.int64),
    'image/class/text': tf.io.VarLenFeature(tf.string),
    'image/source_id': tf.io.FixedLenFeature([], tf.string, ''),
    'image/filename': tf.io.FixedLenFeature([], tf.string, ''),
    record_sources.LABELED: tf.io.VarLenFeature(tf.string),
}


class MultiLabelDeployable(ClassificationDeployable):
    """The network in a file for small devices, with a sigmoid for each class."""

    activation = staticmethod(tf.sigmoid)
    meaning_of_probabilities = 'of each class, in the order of labels.txt; each for itself'

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare the outputs, and the classes that images are said to have."""
        same = [
            np.mean((np.asarray(one[LOGITS]) >= 0) == (np.asarray(other[LOGITS]) >= 0))
            for one, other in zip(expected, found)
        ]
        return {CLASSES: float(np.mean(same)), **agreement.compare(expected, found, exact)}


class MultiLabelTask(ClassificationTask):
    """Classification of images into any number of the classes; arguments are those of the base."""

    _presentation_class = MultiLabelPresentation
    _deployable_class = MultiLabelDeployable

    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode one record; its labels become float32 [num_classes], 1 for each label.

        Classes that were not looked for become NaN.
        """
        channels = self._preprocess.channels
        parsed = tf.io.parse_single_example(serialized, {**_KEYS, **channels.keys()})
        ids = parsed['image/class/label'].values
        if self._label_map is not None:
            by_name = self._label_map.lookup(parsed['image/class/text'].values)
            ids = tf.cond(tf.size(ids) > 0, lambda: ids, lambda: by_name)
        indices = ids - self._labels_offset
        last = self._labels_offset + self._num_classes - 1
        # one_hot gives zeros for an index outside: a wrong label would be no label, without a word.
        in_range = tf.Assert(
            tf.reduce_all((indices >= 0) & (indices < self._num_classes)),
            ['image/class/label is', ids, f'expected {self._labels_offset} to {last}'],
        )
        with tf.control_dependencies([in_range]):
            is_label = tf.reduce_any(tf.one_hot(indices, self._num_classes) > 0, axis=0)
        labels = tf.cast(is_label, tf.float32)
        names = parsed[record_sources.LABELED].values
        if self._label_map is not None:
            looked_for = self._label_map.lookup(names) - self._labels_offset
            is_known = tf.reduce_any(tf.one_hot(looked_for, self._num_classes) > 0, axis=0)
            # A label that is there was looked for; without the list, all classes were.
            is_known |= is_label | tf.equal(tf.size(names), 0)
            labels = tf.where(is_known, labels, np.nan)
        source_id = parsed['image/source_id']
        return {
            IMAGE: channels.decode(parsed, self._max_pixels),
            inputs.LABEL: tf.ensure_shape(labels, [self._num_classes]),
            SOURCE_ID: tf.where(tf.equal(source_id, ''), parsed['image/filename'], source_id),
        }

    def batch_spec(self) -> BatchSpec:
        """Declare images with the network's channels, and the labels of each."""
        return inputs.MULTI_LABEL_BATCH.of_model(self._sizes())

    def _distort(self, example: Example, seed: tf.Tensor) -> Example:
        """Vary the image as the base does; the labels themselves are the shares to be mixed."""
        image = self._preprocess.distort(example[IMAGE], self._height, self._width, seed)
        shares = {inputs.SHARES: example[inputs.LABEL]} if self._augmentation.mixings else {}
        return {**example, IMAGE: image, **shares}

    def _loss(self, logits: tf.Tensor, labels: Labels) -> tf.Tensor:
        """Build the sigmoid cross entropy of one head: float32 scalar."""
        shares = labels.get(inputs.SHARES, labels[inputs.LABEL])
        return losses.sigmoid_cross_entropy(logits, shares, *self._loss_options)

    def _merge(self, logits: tf.Tensor) -> tf.Tensor:
        """Merge the logits of views, see `merged_views`."""
        return merged_views.merge_independent(logits)

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Build `LOGITS`, `PROBABILITIES` and `CLASSES`, each [batch, num_classes].

        `CLASSES` is int64: 1 for each class with a probability of at least 0.5, else 0.
        """
        logits = predictions.get(MERGED_LOGITS, predictions[LOGITS])
        return {
            LOGITS: logits,
            PROBABILITIES: tf.sigmoid(logits),
            # Of logits: a sigmoid of 0.5 may be rounded to either side.
            CLASSES: tf.cast(logits >= 0, tf.int64),
        }

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build the accumulator of scores, see `multi_label_metrics`."""
        return multi_label_metrics.create_metrics(outputs[LOGITS], labels[inputs.LABEL])

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Return average precisions and F1 scores, of each class and their means."""
        return multi_label_metrics.finish(values)

    def metric_names(self) -> Sequence[str]:
        """Return the names that `finish_metrics` may return."""
        return multi_label_metrics.metric_names(self._num_classes)

    def _create_checks(self) -> data_checks.MultiLabelChecks:
        return data_checks.MultiLabelChecks(*self._labeling(), self._preprocess.channels, True)

    def _create_analysis(self) -> Analysis:
        names, to_pixels = self.presentation.class_names, self._preprocess.denormalize
        return Analysis(lambda: MultiLabelAnalyzer(names, to_pixels))
