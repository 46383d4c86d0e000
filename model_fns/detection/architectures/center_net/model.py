"""CenterNet detector, of objects as points (Zhou et al. 2019)."""

from __future__ import annotations

import copy
import dataclasses
from typing import Collection, Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from estimator_lib.task_interfaces.deployable import Deployable, DeploymentOptions, Ops
from model_fns.detection import detector, fields
from model_fns.detection.architectures.center_net import (
    extractors,
    grid,
    heads,
    keypoint_search,
    object_paths,
    objects,
)
from model_fns.detection.boxes import axis_aligned, targets
from model_fns.detection.data import image_resizers
from model_fns.detection.deployment import forms
from model_fns.detection.detections import post_processing


class CenterNetModel(detector.Detector):
    """CenterNet, without inputs, metrics and class ids.

    Args:
        num_classes: C.
        resizer: resizes images to inputs.
        extractor: computes feature maps of stride `grid.STRIDE` from images.
        object_task: losses and detection of all objects.
        searches: losses and search of keypoints, for each class with keypoints.
        separable_heads: True: the heads' convolutions are separable.
        post_processor: suppression of detections; None: all peaks are detections.
    """

    family = axis_aligned
    where = 'model.center_net'
    last_layer_scopes = (f'{heads.SCOPE}/',)

    def __init__(
        self,
        num_classes: int,
        resizer: image_resizers.ImageResizer,
        extractor: extractors.Extractor,
        object_task: objects.Objects,
        searches: Sequence[keypoint_search.Search] = (),
        separable_heads: bool = False,
        post_processor: Optional[post_processing.PostProcessor] = None,
    ):
        self.num_classes = num_classes
        last = heads.layer_scope(len(object_task.center_head.filters))
        name = f'{heads.SCOPE}/{object_task.center_head.name}/output_'
        self.class_axes = {rf'{name}\d+/{last}/': ClassAxis(num_classes)}
        self.resizer = resizer
        self._extractor = extractor
        self._objects = object_task
        self._searches = tuple(searches)
        self._separable_heads = separable_heads
        self._post_processor = post_processor
        self._tasks = (object_task, *(search.task for search in searches))
        self.loss_names = tuple(name for task in self._tasks for name in task.loss_names)
        if searches:
            self.outputs = frozenset([fields.DETECTION_KEYPOINTS])

    def preprocess(self, images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
        """Fill padding, then normalize images with their padding, as published.

        Returns:
            float32 [B, height, width, channels].
        """
        images = detector.fill_raw_padding(images, true_shapes, self.resizer.pad_values)
        return self.channels.normalize(images, self._extractor.preprocess)

    def predict(
        self,
        images: tf.Tensor,
        true_shapes: Optional[tf.Tensor],
        groundtruth: Optional[targets.Groundtruth],
        is_training: bool,
        side_inputs: Optional[Dict[str, tf.Tensor]] = None,
    ) -> Dict[str, tf.Tensor]:
        """Compute raw predictions, which depend neither on padding nor on groundtruth.

        Returns:
            float32 [B, H, W, channels] by the name of a head and the number of a feature map:
            `object_center/0`.
        """
        del true_shapes, groundtruth, side_inputs
        maps = self._extractor.extract(images, is_training)
        predictions = {}
        for task in self._tasks:
            for head in task.heads:
                values = heads.predict(head, maps, is_training, self._separable_heads)
                predictions.update(
                    {_key(head.name, index): value for index, value in enumerate(values)}
                )
        return predictions

    def losses(
        self,
        predictions: Dict[str, tf.Tensor],
        true_shapes: Optional[tf.Tensor],
        groundtruth: targets.Groundtruth,
    ) -> Dict[str, tf.Tensor]:
        """Compute the losses of all heads, scalars; heat maps ignore cells of padding."""
        # A Gaussian is drawn for each row, and most of max_number_of_boxes rows are padding.
        groundtruth = groundtruth.trimmed()
        by_head = self._group_by_head(predictions)
        values: Dict[str, tf.Tensor] = {}
        for task in self._tasks:
            values.update(task.losses(by_head, groundtruth, true_shapes))
        return values

    def postprocess(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> Dict[str, tf.Tensor]:
        """Convert raw predictions to detections."""
        by_head = self._group_by_head(predictions)
        # As published, earlier hourglasses are supervised, but only the last one detects.
        last = {name: maps[-1] for name, maps in by_head.items()}
        peaks = self._objects.peaks(last[objects.CENTER], true_shapes)
        boxes = self._objects.boxes(peaks, last[objects.SIZE], last[objects.OFFSET])
        sides = _image_sides(predictions[fields.PREPROCESSED], true_shapes)
        scores = peaks.scores
        outputs = {}
        if self._searches:
            places, keypoint_scores, scores = self._keypoints(by_head, peaks, boxes, sides)
            outputs[fields.DETECTION_KEYPOINTS] = places
            outputs[fields.DETECTION_KEYPOINT_SCORES] = keypoint_scores
        outputs[fields.DETECTION_BOXES_STRIDED] = boxes
        outputs[fields.DETECTION_MULTICLASS_SCORES] = peaks.class_scores
        # The grid includes padding, the sides do not: boxes may reach beyond the image.
        normalized = tf.clip_by_value(boxes / tf.tile(sides, [1, 1, 2]), 0.0, 1.0)
        if self._post_processor is not None:
            return self._suppressed(normalized, peaks.classes, scores, outputs)
        return {
            fields.DETECTION_BOXES: normalized,
            fields.DETECTION_SCORES: scores,
            fields.DETECTION_CLASSES: tf.cast(peaks.classes, tf.float32),
            fields.NUM_DETECTIONS: tf.reduce_sum(tf.cast(scores > 0.0, tf.float32), axis=1),
            **outputs,
        }

    def deployable(self, ops: Ops, options: DeploymentOptions) -> Deployable:
        """Build the deployable form of the detector; without suppression, peaks are rows."""
        model = copy.copy(self)
        if self._post_processor is not None:
            rules = forms.change_rules(self._post_processor.rules, options)
            model._post_processor = self._post_processor.with_rules(rules)
            return forms.build(model, ops, options, rules)
        if options.max_detections:
            most = options.max_detections
            model._objects = dataclasses.replace(self._objects, max_detections=most)
        return forms.build(model, ops, options, None)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Map names of a checkpoint to the feature extractor's variables."""
        if checkpoint_type == 'classification':
            scope = f'{extractors.SCOPE}/{self._extractor.base_scope}'
            variables = [
                variable
                for variable in variables
                if variable_name(variable).startswith(f'{scope}/')
            ]
        return detector.strip_scope(variables, extractors.SCOPE, checkpoint_type)

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Map paths of an object-based checkpoint to variables."""
        all_heads = [head for task in self._tasks for head in task.heads]
        return object_paths.map_model_paths(variables, self._extractor, all_heads, checkpoint_type)

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe a TensorFlow 1 checkpoint whose residual network differs; empty for others."""
        is_ours = any(name.startswith(f'{heads.SCOPE}/') for name in names)
        if is_ours or not self._extractor.kind.is_resnet:
            return ''
        return (
            'names variables by scope and is of no CenterNet; its residual networks compute '
            'something else with the same weights. Expected a checkpoint of a CenterNet, or an '
            'object-based one of TensorFlow 2.'
        )

    def _group_by_head(self, predictions: Mapping[str, tf.Tensor]) -> Dict[str, List[tf.Tensor]]:
        """Group predictions by head, in order of feature maps."""
        groups: Dict[str, List[tf.Tensor]] = {}
        for task in self._tasks:
            for head in task.heads:
                maps: List[tf.Tensor] = []
                while _key(head.name, len(maps)) in predictions:
                    maps.append(predictions[_key(head.name, len(maps))])
                groups[head.name] = maps
        return groups

    def _keypoints(
        self,
        by_head: Mapping[str, objects.Maps],
        peaks: objects.Peaks,
        boxes: tf.Tensor,
        sides: tf.Tensor,
    ) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Compute keypoints [B, N, total, 2], their scores, and rescored detections."""
        total = sum(len(search.task.keypoints) for search in self._searches)
        scores = peaks.scores
        all_places, all_scores = [], []
        for search in self._searches:
            found = search.finished(
                search.find(by_head, peaks.cells, boxes), sides[:, :, tf.newaxis]
            )
            rescored = search.rescored(scores, found.scores)
            has_class = tf.equal(peaks.classes, search.task.class_index)
            scores = tf.where(has_class, rescored, scores)
            spread = keypoint_search.scatter_keypoints(found, search.task, peaks.classes, total)
            all_places.append(spread[0])
            all_scores.append(spread[1])
        return tf.add_n(all_places), tf.add_n(all_scores), scores

    def _suppressed(
        self,
        boxes: tf.Tensor,
        classes: tf.Tensor,
        scores: tf.Tensor,
        further: Mapping[str, tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Suppress detections; a peak only has a score for its own class."""
        class_scores = tf.one_hot(classes, self.num_classes) * scores[..., tf.newaxis]
        kept = self._post_processor.apply(
            boxes[:, :, tf.newaxis], class_scores, per_anchor={**further}
        )
        names = (
            fields.DETECTION_BOXES,
            fields.DETECTION_SCORES,
            fields.DETECTION_CLASSES,
            fields.NUM_DETECTIONS,
            *further,
        )
        return {name: kept[name] for name in names}


def _key(name: str, index: int) -> str:
    """Name a head's values on the feature map of that index."""
    return f'{name}/{index}'


def _image_sides(images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
    """Compute the sides of images without padding in cells: float32 [B, 1, 2] or [1, 1, 2]."""
    if true_shapes is None:
        sides = tf.shape(images)[tf.newaxis, 1:3]
    else:
        sides = true_shapes[:, :2]
    return tf.cast(sides, tf.float32)[:, tf.newaxis] / float(grid.STRIDE)
