"""From raw predictions to detections: scores, their calibration, suppression."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping, Optional

import tensorflow as tf

from estimator_lib import errors
from model_fns.detection import fields
from model_fns.detection.boxes.family import Boxes
from model_fns.detection.config_rules import checks
from model_fns.detection.detections import calibration, suppression
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
    """From logits to scores.

    Attributes:
        convert: of logits [B, A, columns].
        logit_scale: logits are divided by it first.
        of_scores: calibration of the scores; None: they stay.
    """

    convert: Callable[[tf.Tensor], tf.Tensor] = tf.identity
    logit_scale: float = 1.0
    of_scores: Optional[Callable[[tf.Tensor], tf.Tensor]] = None

    def __call__(self, logits: tf.Tensor) -> tf.Tensor:
        """Return scores [B, A, columns]."""
        if self.logit_scale != 1.0:
            logits = logits / self.logit_scale
        scores = self.convert(logits)
        return scores if self.of_scores is None else self.of_scores(scores)


class PostProcessor:
    """Chooses the detections of a batch from its raw predictions.

    Args:
        converter: from logits to scores.
        rules: which boxes are kept.
        background_column: whether the first column of class logits is background, and so no class.

    Attributes:
        converter: as given.
        rules: as given.
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

    def apply(
        self,
        boxes: tf.Tensor,
        class_logits: tf.Tensor,
        windows: Optional[tf.Tensor] = None,
        counts: Optional[tf.Tensor] = None,
        masks: Optional[tf.Tensor] = None,
        of_anchors: Optional[Mapping[str, tf.Tensor]] = None,
    ) -> Dict[str, tf.Tensor]:
        """Return detections.

        B is the batch size, A the number of anchors (or proposals), C that of classes, C' = C or,
        with a background column, C + 1, K that of the numbers of a box, N that of the detections
        that there is room for.

        Args:
            boxes: float32 [B, A, q, K], decoded; q is 1, or C where boxes are by class.
            class_logits: float32 [B, A, C'].
            windows: float32 [B, 4] or [1, 4], in the boxes' coordinates: what is image, not
                padding; None: the unit square.
            counts: int32 [B]: how many rows are valid; None: all A.
            masks: float32 [B, A, q', height, width], q' 1 or C; None: there are none.
            of_anchors: further values [B, A, ...] to give for each detection.

        Returns:
            by the names of `fields`: boxes [B, N, K], scores [B, N], classes [B, N] (float32, from
            0), `NUM_DETECTIONS` float32 [B], `DETECTION_ANCHOR_INDICES` int32 [B, N],
            `DETECTION_MULTICLASS_SCORES` [B, N, C'], `RAW_DETECTION_BOXES` [B, A, K] (of the best
            class), `RAW_DETECTION_SCORES` [B, A, C'], and masks and further values where given.
            Behind the last detection of an image are zeros.
        """
        scores = self.converter(class_logits)
        of_classes = scores[..., self._background_columns :]
        found = suppression.suppress(
            boxes,
            of_classes,
            self.rules,
            tf.constant(_WHOLE) if windows is None else windows,
            counts,
        )
        valid = tf.sequence_mask(found.counts, self.rules.max_total)

        def picked(values: tf.Tensor) -> tf.Tensor:
            rows = tf.gather(values, found.anchors, batch_dims=1)
            shape = tf.concat([tf.shape(valid), tf.ones([values.shape.rank - 2], tf.int32)], 0)
            return tf.where(tf.reshape(valid, shape), rows, tf.zeros([], rows.dtype))

        outputs = {
            fields.DETECTION_BOXES: found.boxes,
            fields.DETECTION_SCORES: found.scores,
            fields.DETECTION_CLASSES: tf.cast(found.classes, tf.float32),
            fields.NUM_DETECTIONS: tf.cast(found.counts, tf.float32),
            fields.DETECTION_ANCHOR_INDICES: found.anchors,
            fields.DETECTION_MULTICLASS_SCORES: picked(scores),
            fields.RAW_DETECTION_BOXES: _of_best_class(boxes, of_classes),
            fields.RAW_DETECTION_SCORES: scores,
        }
        if masks is not None:
            outputs[fields.DETECTION_MASKS] = suppression.of_class(picked(masks), found.classes)
        outputs.update({name: picked(values) for name, values in (of_anchors or {}).items()})
        return outputs


def build_post_processing(
    config: post_processing_pb2.PostProcessing,
    where: str,
    num_classes: int,
    family: Boxes,
    background_column: bool = True,
    **changes: Any,
) -> PostProcessor:
    """Return the post-processing that a config describes.

    Args:
        config: scores and suppression.
        where: its path, for error messages.
        num_classes: C.
        family: of the boxes.
        background_column: whether class logits have a column of background before the classes.
        **changes: rules of suppression that do not depend on the config.

    Raises:
        errors.ConfigError: a value is outside its range, or two options exclude each other.
    """
    if not config.logit_scale > 0:
        raise errors.ConfigError(
            f'{where}.logit_scale: {config.logit_scale:g}; expected more than 0.'
        )
    calibrated = calibration.Calibration()
    if config.HasField('calibration_config'):
        calibrated = calibration.build_calibration(
            config.calibration_config,
            f'{where}.calibration_config',
            num_classes + int(background_column),
        )
    converter = ScoreConverter(
        _CONVERTERS[config.score_converter],
        config.logit_scale * calibrated.temperature,
        calibrated.of_scores,
    )
    rules = build_rules(
        config.batch_non_max_suppression, f'{where}.batch_non_max_suppression', family
    )
    return PostProcessor(converter, dataclasses.replace(rules, **changes), background_column)


def build_rules(
    config: post_processing_pb2.BatchNonMaxSuppression, where: str, family: Boxes
) -> suppression.Rules:
    """Return the rules of suppression that a config describes.

    `use_static_shapes` and `use_partitioned_nms` have no effect: shapes are always static, and
    partitions are another way to the same result. `use_combined_nms` says what is done with boxes
    outside of the window: they stay, without area.

    Args:
        config: of suppression.
        where: its path, for error messages.
        family: of the boxes.

    Raises:
        errors.ConfigError: a value is outside its range, or two options exclude each other.
    """
    checks.check_part(config, where, checks.suppression_problems(where, config))
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


def _of_best_class(boxes: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Return boxes [B, A, K] of [B, A, q, K]."""
    if boxes.shape[2] == 1:
        return boxes[:, :, 0]
    return suppression.of_class(boxes, tf.argmax(scores, axis=-1, output_type=tf.int32))
