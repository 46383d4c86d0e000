"""Conversion of raw predictions to detections: scores, their calibration, suppression."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping, Optional

import tensorflow as tf

from estimator_lib.config.section import Section
from estimator_lib.task import Features, Tensors
from model_fns.detection import fields
from model_fns.detection.boxes.family import Boxes, BoxFamily
from model_fns.detection.config_rules import checks
from model_fns.detection.detections import calibration, masks, suppression
from model_fns.structures import label_map as label_maps
from protos import post_processing_pb2

_Config = post_processing_pb2.PostProcessing

_CONVERTERS = {
    _Config.IDENTITY: tf.identity,
    _Config.SIGMOID: tf.sigmoid,
    _Config.SOFTMAX: tf.nn.softmax,
}
_WHOLE = ((0.0, 0.0, 1.0, 1.0),)


@dataclasses.dataclass(frozen=True)
class ScoreConverter:
    """Conversion of logits to scores.

    Attributes:
        convert: function of logits [B, A, columns].
        logit_scale: divisor of logits.
        score_function: calibration of the scores; None: they stay.
    """

    convert: Callable[[tf.Tensor], tf.Tensor] = tf.identity
    logit_scale: float = 1.0
    score_function: Optional[Callable[[tf.Tensor], tf.Tensor]] = None

    def __call__(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert logits to scores [B, A, columns]."""
        # Before the conversion, as published; a temperature of calibration is part of the divisor.
        if self.logit_scale != 1.0:
            logits = logits / self.logit_scale
        scores = self.convert(logits)
        return scores if self.score_function is None else self.score_function(scores)


class PostProcessor:
    """Selection of the detections of a batch from its raw predictions.

    Args:
        converter: converts logits to scores.
        rules: rules of suppression.
        background_column: True: the first column of class logits is background.

    Attributes:
        converter: converts logits to scores.
        rules: rules of suppression.
    """

    def __init__(
        self,
        converter: ScoreConverter,
        rules: suppression.Rules,
        background_column: bool = True,
    ):
        self.converter = converter
        self.rules = rules
        self._background_columns = int(background_column)

    def with_rules(self, rules: suppression.Rules) -> PostProcessor:
        """Return the same with other rules of suppression."""
        return PostProcessor(self.converter, rules, bool(self._background_columns))

    def class_scores(self, class_logits: tf.Tensor) -> tf.Tensor:
        """Convert logits [B, A, C'] to the scores of classes [B, A, C]."""
        return self.converter(class_logits)[..., self._background_columns :]

    def apply(
        self,
        boxes: tf.Tensor,
        class_logits: tf.Tensor,
        windows: Optional[tf.Tensor] = None,
        counts: Optional[tf.Tensor] = None,
        masks: Optional[tf.Tensor] = None,
        per_anchor: Optional[Mapping[str, tf.Tensor]] = None,
    ) -> Dict[str, tf.Tensor]:
        """Compute detections from raw predictions.

        B is the batch size, A the number of anchors (or proposals), C that of classes, and K that
        of the values of a box. C' is C or, with a background column, C + 1. N is the largest number
        of detections.

        Args:
            boxes: float32 [B, A, q, K], decoded; q is 1, or C for boxes by class.
            class_logits: float32 [B, A, C'].
            windows: float32 [B, 4] or [1, 4], in the boxes' coordinates: the image without padding;
                None: the unit square.
            counts: int32 [B]: number of valid rows; None: all A.
            masks: float32 [B, A, q', height, width], q' is 1 or C; None: there are none.
            per_anchor: further values [B, A, ...] to return for each detection.

        Returns:
            Tensors by the names of `fields`: boxes [B, N, K], scores [B, N], classes [B, N]
            (float32, from 0), `NUM_DETECTIONS` float32 [B], `DETECTION_ANCHOR_INDICES` int32 [B,
            N], `DETECTION_MULTICLASS_SCORES` [B, N, C'], `RAW_DETECTION_BOXES` [B, A, K] (of the
            best class), `RAW_DETECTION_SCORES` [B, A, C'], and masks and further values if passed.
            Rows after the last detection of an image are zeros.
        """
        scores = self.converter(class_logits)
        class_scores = scores[..., self._background_columns :]
        kept = suppression.suppress(
            boxes,
            class_scores,
            self.rules,
            tf.constant(_WHOLE) if windows is None else windows,
            counts,
        )
        valid = tf.sequence_mask(kept.counts, self.rules.max_total)

        def picked(values: tf.Tensor) -> tf.Tensor:
            rows = tf.gather(values, kept.anchors, batch_dims=1)
            shape = tf.concat([tf.shape(valid), tf.ones([values.shape.rank - 2], tf.int32)], 0)
            return tf.where(tf.reshape(valid, shape), rows, tf.zeros([], rows.dtype))

        outputs = {
            fields.DETECTION_BOXES: kept.boxes,
            fields.DETECTION_SCORES: kept.scores,
            # float32 as published, and so are the counts: clients and frozen graphs expect it.
            fields.DETECTION_CLASSES: tf.cast(kept.classes, tf.float32),
            fields.NUM_DETECTIONS: tf.cast(kept.counts, tf.float32),
            fields.DETECTION_ANCHOR_INDICES: kept.anchors,
            fields.DETECTION_MULTICLASS_SCORES: picked(scores),
            fields.RAW_DETECTION_BOXES: _boxes_of_best_class(boxes, class_scores),
            fields.RAW_DETECTION_SCORES: scores,
        }
        if masks is not None:
            outputs[fields.DETECTION_MASKS] = suppression.select_by_class(
                picked(masks), kept.classes
            )
        outputs.update({name: picked(values) for name, values in (per_anchor or {}).items()})
        return outputs


def build_post_processing(
    section: Section[post_processing_pb2.PostProcessing],
    num_classes: int,
    family: Boxes,
    background_column: bool = True,
    **changes: Any,
) -> PostProcessor:
    """Build the post-processing that a config describes.

    Args:
        section: configuration message of scores and suppression.
        num_classes: C.
        family: family of the boxes.
        background_column: True: the first column of class logits is background.
        **changes: rules of suppression that do not depend on the config.

    Raises:
        errors.ConfigError: a value is outside its range, or two options exclude each other.
    """
    config = section.message
    checks.check_part(section)
    calibrated = calibration.Calibration()
    if config.HasField('calibration_config'):
        calibrated = calibration.build_calibration(
            section.child('calibration_config'),
            num_classes + int(background_column),
        )
    converter = ScoreConverter(
        _CONVERTERS[config.score_converter],
        config.logit_scale * calibrated.temperature,
        calibrated.score_function,
    )
    rules = build_rules(section.child('batch_non_max_suppression'), family)
    return PostProcessor(converter, dataclasses.replace(rules, **changes), background_column)


def build_rules(
    section: Section[post_processing_pb2.BatchNonMaxSuppression], family: Boxes
) -> suppression.Rules:
    """Build the rules of suppression that a config describes.

    `use_static_shapes` and `use_partitioned_nms` have no effect: shapes are always static, and
    partitions compute the same result. With `use_combined_nms` boxes outside of the window stay,
    without area.

    Args:
        section: configuration message of suppression.
        family: family of the boxes.

    Raises:
        errors.ConfigError: a value is outside its range, or two options exclude each other.
    """
    config = section.message
    checks.check_part(section)
    return suppression.Rules(
        score_threshold=config.score_threshold,
        iou_threshold=config.iou_threshold,
        max_per_class=config.max_detections_per_class,
        max_total=config.max_total_detections,
        soft_sigma=config.soft_nms_sigma,
        class_agnostic=config.use_class_agnostic_nms,
        max_classes_per_box=config.max_classes_per_detection,
        drop_empty=not config.use_combined_nms,
        change_frame=config.change_coordinate_frame,
        on_cpu=config.use_cpu_nms,
        family=family,
    )


def to_outputs(detections: Tensors, family: BoxFamily, features: Features) -> Tensors:
    """Convert the detections of a network to outputs of the task.

    Args:
        detections: detections with normalized boxes; classes are from 0.
        family: family of the boxes.
        features: features of the images. `SERVED_SHAPE` asks for masks of that size.

    Returns:
        Detections with class ids of the label map; rotated boxes are those of a record, with their
        corners.
    """
    classes = label_maps.to_id(detections[fields.DETECTION_CLASSES])
    outputs = {**detections, fields.DETECTION_CLASSES: classes}
    if family.IS_ROTATED:
        outputs = _add_corners(outputs, family, features[fields.ORIGINAL_SHAPE])
    if fields.SERVED_SHAPE in features:
        outputs[fields.REFRAMED_MASKS] = masks.binary_batch(
            detections[fields.DETECTION_MASKS],
            detections[fields.DETECTION_BOXES],
            features[fields.SERVED_SHAPE],
        )
    return outputs


def _add_corners(detections: Tensors, family: BoxFamily, shapes: tf.Tensor) -> Tensors:
    """Convert rotated boxes to the values of a record, and add their corners.

    Args:
        detections: detections with normalized boxes [B, N, 8].
        family: family of the boxes.
        shapes: int32 [B, 2]: height and width of the original images.
    """
    height, width = tf.split(tf.cast(shapes, tf.float32), 2, axis=1)
    boxes = {
        name: family.to_record(detections[name], height, width)
        for name in (fields.DETECTION_BOXES, fields.RAW_DETECTION_BOXES)
        if name in detections
    }
    return {**detections, **boxes, fields.DETECTION_CORNERS: detections[fields.DETECTION_BOXES]}


def _boxes_of_best_class(boxes: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Select boxes [B, A, K] of the best class from [B, A, q, K]."""
    if boxes.shape[2] == 1:
        return boxes[:, :, 0]
    return suppression.select_by_class(boxes, tf.argmax(scores, axis=-1, output_type=tf.int32))
