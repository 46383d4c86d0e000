"""Metrics of a segmentation.

An evaluation accumulates counts in local variables and computes scalars from them at its end: the
result does not depend on the batches. B is the batch, H x W the size of its images.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.config import schema
from estimator_lib.task import Features, Labels, Metric, Tensors
from model_fns.segmentation import fields, instances
from model_fns.segmentation.data import targets
from model_fns.segmentation.metrics import boundaries, panoptic
from model_fns.structures import heatmaps
from protos import segmentation_pb2

tf1 = tf.compat.v1

log = logging.getLogger('model_fns')

CONFUSION = 'confusion_matrix'
PIXEL_ACCURACY = 'pixel_accuracy'
MEAN_ACCURACY = 'mean_accuracy'
OFFSET_ERROR = 'offset_error'

_EDGE_COUNTS = 'edge_counts'
_CENTER_COUNTS = 'center_counts'
_OFFSET_SUMS = 'offset_sums'
_PANOPTIC_COUNTS = 'panoptic_counts'
_EDGES, _CENTERS = 'boundary', 'center'


@dataclasses.dataclass(frozen=True)
class Metrics:
    """The metrics of a segmentation task.

    Attributes:
        num_classes: C.
        ignore_label: pixels with it are ignored.
        scales: of the images in inference; part of names.
        flipped: whether inference uses mirrored images too; part of names.
        class_names: for the log; a class without a name is shown by its number.
        edge_tolerance: fraction of the diagonal of an image; None without an edge head.
        center_tolerance: pixels between a center and its peak; None without a center head.
        has_offsets: whether there is an offset head.
        grouping: finds peaks and instances; None without a center head.
    """

    num_classes: int
    ignore_label: int
    scales: Tuple[float, ...] = (1.0,)
    flipped: bool = False
    class_names: Tuple[str, ...] = ()
    edge_tolerance: Optional[float] = None
    center_tolerance: Optional[float] = None
    has_offsets: bool = False
    grouping: Optional[instances.InstanceGrouping] = None

    @classmethod
    def from_config(
        cls,
        model: segmentation_pb2.Segmentation,
        num_classes: int,
        ignore_label: int,
        class_names: Sequence[str] = (),
    ) -> Metrics:
        """Build the metrics of a model's heads.

        Raises:
            errors.ConfigError: see `InstanceGrouping.from_config`.
        """
        has_centers = model.HasField('instance_center')
        return cls(
            num_classes,
            ignore_label,
            tuple(model.evaluation.scales) or (1.0,),
            model.evaluation.add_flipped_images,
            tuple(class_names),
            edge_tolerance=model.edge.tolerance if model.HasField('edge') else None,
            center_tolerance=model.instance_center.sigma if has_centers else None,
            has_offsets=model.HasField('offset'),
            grouping=(
                instances.InstanceGrouping.from_config(model.instance_grouping, num_classes)
                if has_centers
                else None
            ),
        )

    def names(self) -> List[str]:
        """Return the names of all scalars of `finish`."""
        names = [self.iou_name(), PIXEL_ACCURACY, MEAN_ACCURACY]
        names += [self.iou_name(f'class_{index}') for index in range(self.num_classes)]
        if self.edge_tolerance is not None:
            names += boundaries.boundary_names(_EDGES)
        if self.center_tolerance is not None:
            names += boundaries.boundary_names(_CENTERS)
        if self.has_offsets:
            names.append(OFFSET_ERROR)
        return names + (panoptic.quality_names(self.num_classes) if self._has_panoptic else [])

    def iou_name(self, group: str = 'overall') -> str:
        """Return a name: `miou_1.0_overall`, `miou_0.5_1.0_flipped_class_3` for two scales."""
        scales = '_'.join(str(schema.decimal_number(scale)) for scale in self.scales)
        return f'miou_{scales}{"_flipped" if self.flipped else ""}_{group}'

    def ignore_padding(
        self, is_image: tf.Tensor, outputs: Tensors, labels: Labels
    ) -> Tuple[Tensors, Labels]:
        """Set outputs and labels to ignored values in the padding.

        Where several devices evaluate, their batches are joined with zeros around smaller images.

        Args:
            is_image: bool [B, H, W].
            outputs: [B, H, W] of the model's heads, by the names of `fields`.
            labels: [B, H, W] of the same batch.
        """
        fillers = {
            fields.SEMANTIC: self.ignore_label,
            fields.EDGE: targets.IGNORED_EDGE,
            fields.PANOPTIC_PREDICTIONS: instances.UNLABELED,
        }
        return tuple(
            {
                name: tf.where(is_image, value, fillers[name]) if name in fillers else value
                for name, value in tensors.items()
            }
            for tensors in (outputs, labels)
        )

    def create(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build accumulators, from which `finish` computes scalars.

        Args:
            outputs: of the model's heads, by the names of `fields`.
            features: of the same batch.
            labels: of the same batch.
        """
        counts = {
            CONFUSION: confusion_matrix(
                outputs[fields.SEMANTIC_PREDICTIONS],
                labels[fields.SEMANTIC],
                self.num_classes,
                self.ignore_label,
            )
        }
        if self.edge_tolerance is not None:
            counts[_EDGE_COUNTS] = self._edge_counts(outputs, features, labels)
        if self.center_tolerance is not None:
            counts[_CENTER_COUNTS] = self._center_counts(outputs, labels)
        if self.has_offsets:
            counts[_OFFSET_SUMS] = _offset_sums(outputs, labels)
        if self._has_panoptic:
            counts[_PANOPTIC_COUNTS] = panoptic.panoptic_counts(
                outputs[fields.PANOPTIC_PREDICTIONS],
                labels[fields.SEMANTIC],
                labels[fields.INSTANCES],
                self.ignore_label,
                self.grouping,
            )
        return {name: _accumulate(name, count) for name, count in counts.items()}

    def finish(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Compute scalars from the values of the accumulators of `create`.

        Scalars that are undefined (the IoU of a class that is in no image) are left out.
        """
        # float64 holds counts up to 2^53 exactly.
        metrics = self._confusion_metrics(np.asarray(values[CONFUSION], np.float64))
        if _EDGE_COUNTS in values:
            metrics.update(boundaries.boundary_scores(values[_EDGE_COUNTS], _EDGES))
        if _CENTER_COUNTS in values:
            metrics.update(boundaries.boundary_scores(values[_CENTER_COUNTS], _CENTERS))
        if _OFFSET_SUMS in values:
            error, count = values[_OFFSET_SUMS]
            metrics.update({OFFSET_ERROR: float(error / count)} if count else {})
        if _PANOPTIC_COUNTS in values:
            metrics.update(panoptic.qualities(values[_PANOPTIC_COUNTS], self.grouping.things()))
        return metrics

    @property
    def _has_panoptic(self) -> bool:
        return self.grouping is not None and self.has_offsets

    def _confusion_metrics(self, confusion: np.ndarray) -> Dict[str, float]:
        right, labeled, predicted = _right_labeled_predicted(confusion)
        self._report_absent(labeled + predicted > 0, labeled > 0)
        return self.count_metrics(right, labeled, predicted)

    def count_metrics(
        self, right: np.ndarray, labeled: np.ndarray, predicted: np.ndarray
    ) -> Dict[str, float]:
        """Compute the scalars of the classes of pixels; undefined ones are left out.

        Args:
            right: [C], numbers of right pixels by class.
            labeled: [C], numbers of labeled pixels.
            predicted: [C], numbers of predicted pixels.
        """
        is_there, is_labeled = labeled + predicted > 0, labeled > 0
        if not is_labeled.any():
            return {}
        # tf.metrics.mean_iou, DeepLab's metric, leaves absent classes out of the mean too.
        ious = right / np.maximum(labeled + predicted - right, 1.0)
        metrics = {
            self.iou_name(): float(ious[is_there].mean()),
            PIXEL_ACCURACY: float(right.sum() / labeled.sum()),
            MEAN_ACCURACY: float((right[is_labeled] / labeled[is_labeled]).mean()),
        }
        for index in np.flatnonzero(is_there):
            metrics[self.iou_name(f'class_{index}')] = float(ious[index])
        return metrics

    def _report_absent(self, is_there: np.ndarray, is_labeled: np.ndarray) -> None:
        """Log one line for all classes without labeled pixels."""
        absent, only_predicted = ~is_there, is_there & ~is_labeled
        if absent.any() or only_predicted.any():
            log.warning(
                'no pixel is labeled as one of %d of %d classes. Left out of the mean IoU, for '
                'they are not predicted either: %s. Predicted, so with an IoU of 0: %s.',
                np.sum(~is_labeled),
                self.num_classes,
                self._listed(absent),
                self._listed(only_predicted),
            )

    def _listed(self, chosen: np.ndarray) -> str:
        names = dict(enumerate(self.class_names))
        indices = np.flatnonzero(chosen).tolist()
        return ', '.join(names.get(index, f'class {index}') for index in indices) or 'none'

    def _edge_counts(self, outputs: Tensors, features: Features, labels: Labels) -> tf.Tensor:
        size = tf.cast(features[fields.TRUE_IMAGE_SHAPE][:, :2], tf.float32)
        return _boundary_counts(
            tf.cast(outputs[fields.EDGE_PREDICTIONS], tf.int32),
            labels[fields.EDGE],
            self.edge_tolerance * tf.norm(size, axis=1),
        )

    def _center_counts(self, outputs: Tensors, labels: Labels) -> tf.Tensor:
        peaks = heatmaps.find_peaks(
            outputs[fields.INSTANCE_CENTERS],
            self.grouping.center_threshold,
            self.grouping.suppression_window,
        )
        return _boundary_counts(
            tf.cast(peaks, tf.int32),
            # The heat of a center itself.
            tf.cast(labels[fields.CENTER] >= 1.0, tf.int32),
            tf.fill([tf.shape(peaks)[0]], self.center_tolerance),
        )


def confusion_matrix(
    predictions: tf.Tensor, labels: tf.Tensor, num_classes: int, ignore_label: int
) -> tf.Tensor:
    """Count the pixels by labeled and predicted class.

    Args:
        predictions: integers [B, H, W].
        labels: int32 [B, H, W].
        num_classes: C.
        ignore_label: pixels with it are not counted.

    Returns:
        int64 [C, C], rows are labels and columns predictions.
    """
    num_cells = num_classes * num_classes
    cells = labels * num_classes + tf.cast(predictions, tf.int32)
    # Bincount ignores values beyond its size.
    cells = tf.where(tf.equal(labels, ignore_label), num_cells, cells)
    # int64: float32 counts stop at 2^24, the pixels of 64 images of 513 x 513.
    counts = tf.raw_ops.Bincount(arr=cells, size=num_cells, weights=tf.zeros([0], tf.int64))
    return tf.reshape(counts, [num_classes, num_classes])


def training_window(evaluation: segmentation_pb2.SegmentationEvaluation) -> int:
    """Return the number of steps that training reports metrics of; 0: it reports none.

    Args:
        evaluation: `model.segmentation.evaluation`.
    """
    window = evaluation.training_metrics_window
    if window and tf.distribute.has_strategy():
        log.warning(
            'model.segmentation.evaluation.training_metrics_window has no effect in a '
            'distribution strategy (MIRRORED, MULTI_WORKER_MIRRORED): each replica would '
            'report its own part.'
        )
        return 0
    return window


def training_metrics(
    predictions: tf.Tensor, labels: tf.Tensor, num_classes: int, ignore_label: int, window: int
) -> Tuple[Dict[str, tf.Tensor], tf.Operation]:
    """Build mean IoU and pixel accuracy over the last steps of training.

    The counts are in local variables: a resumed run starts with an empty window.

    Args:
        predictions: integers [B, h, w], of any size.
        labels: int32 [B, h, w].
        num_classes: C.
        ignore_label: pixels with it are not counted.
        window: number of steps.

    Returns:
        float32 scalars, for summaries, and the op that each training step must run.
    """
    # Store three numbers per class of each step, not the square matrix.
    counts = _local_variable('window_counts', [window, 3, num_classes], tf.int64)
    step = _local_variable('window_step', [], tf.int64)
    confusion = confusion_matrix(predictions, labels, num_classes, ignore_label)
    step_counts = tf.stack(_right_labeled_predicted(confusion))
    # The row is written before the step is counted: a step that fails between is written again.
    with tf.control_dependencies([tf1.scatter_update(counts, step % window, step_counts)]):
        update = step.assign_add(1).op
    right, labeled, predicted = tf.unstack(tf.reduce_sum(counts, axis=0))
    ious = tf.math.divide_no_nan(
        tf.cast(right, tf.float32), tf.cast(labeled + predicted - right, tf.float32)
    )
    num_there = tf.reduce_sum(tf.cast(labeled + predicted > 0, tf.float32))
    accuracy = tf.math.divide_no_nan(
        tf.cast(tf.reduce_sum(right), tf.float32), tf.cast(tf.reduce_sum(labeled), tf.float32)
    )
    mean_iou = tf.math.divide_no_nan(tf.reduce_sum(ious), num_there)
    return {'miou': mean_iou, PIXEL_ACCURACY: accuracy}, update


def _right_labeled_predicted(confusion: Any) -> Tuple[Any, Any, Any]:
    """Count right, labeled and predicted pixels per class, from an array or a tensor."""
    if tf.is_tensor(confusion):
        diagonal, sums = tf.linalg.diag_part(confusion), tf.reduce_sum
    else:
        diagonal, sums = np.diag(confusion), np.sum
    return diagonal, sums(confusion, axis=1), sums(confusion, axis=0)


def _offset_sums(outputs: Tensors, labels: Labels) -> tf.Tensor:
    """Sum the distances between predicted and true offsets, and count the pixels: float64 [2]."""
    weights = tf.cast(labels[fields.OFFSET_WEIGHTS], tf.float64)
    distances = tf.norm(outputs[fields.CENTER_OFFSETS] - labels[fields.OFFSET], axis=-1)
    total = tf.reduce_sum(weights * tf.cast(distances, tf.float64))
    return tf.stack([total, tf.reduce_sum(weights)])


def _boundary_counts(predictions: tf.Tensor, truth: tf.Tensor, tolerances: tf.Tensor) -> tf.Tensor:
    counts = tf.numpy_function(
        boundaries.boundary_counts, [predictions, truth, tolerances], tf.int64, stateful=False
    )
    counts.set_shape([boundaries.NUM_COUNTS])
    return counts


def _accumulate(name: str, counts: tf.Tensor) -> Metric:
    """Build the sum of a tensor over the batches of an evaluation."""
    total = _local_variable(name, counts.shape, counts.dtype)
    return total.read_value(), total.assign_add(counts)


def _local_variable(name: str, shape: Sequence[int], dtype: tf.DType) -> tf.Variable:
    return tf1.get_variable(
        f'metrics/{name}',
        shape,
        dtype,
        initializer=tf1.zeros_initializer(),
        trainable=False,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES],
    )
