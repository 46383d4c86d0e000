"""The single-shot meta-architecture: one network pass from an image to boxes (Liu et al. 2016)."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, Optional

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection import config_rules_fields, fields
from model_fns.detection.boxes import (
    anchors,
    box_coders,
    matchers,
    similarities,
    targets,
)
from model_fns.detection.detections import post_processing
from model_fns.detection.losses import losses, mining
from model_fns.detection.networks import box_predictors
from model_fns.detection.networks.feature_extractors import extractor
from protos import ssd_pb2

# Where the config of the model is, for error messages.
WHERE = 'model.ssd'

CLASSIFICATION_LOSS = 'classification_loss'
LOCALIZATION_LOSS = 'localization_loss'


@dataclasses.dataclass(frozen=True)
class LossRules:
    """How the losses of anchors become the losses of a batch.

    Attributes:
        localization: of each anchor.
        classification: of each anchor.
        reduction: which anchors count; see `mining`.
        localization_weight: factor of the sum.
        classification_weight: factor of the sum.
        by_matches: divide both by the sum of the matched anchors' weights.
        by_code_size: divide localisation by the length of the box code too.
    """

    localization: losses.LocalizationLoss
    classification: losses.ClassificationLoss
    reduction: mining.Reduction
    localization_weight: float = 1.0
    classification_weight: float = 1.0
    by_matches: bool = True
    by_code_size: bool = False


class SsdModel:
    """A single-shot detector, without what surrounds it (inputs, metrics, class ids).

    Args:
        num_classes: C, without background.
        extractor_for: is_training -> feature extractor.
        predictor_for: (is_training, code size, class columns) -> head.
        anchor_generator: the anchors' sizes and places.
        assigner: what each anchor should predict.
        box_coder: the code that boxes are predicted in.
        post_processor: raw predictions to detections.
        loss_rules: see there.
        background_column: whether the first column of class logits is background.
        background_is_zeros: whether an unmatched anchor's class target is all zeros.
    """

    def __init__(
        self,
        num_classes: int,
        extractor_for: Callable[[bool], extractor.FeatureExtractor],
        predictor_for: Callable[[bool, int, int], box_predictors.BoxPredictor],
        anchor_generator: anchors.AnchorGenerator,
        assigner: targets.TargetAssigner,
        box_coder: box_coders.BoxCoder,
        post_processor: post_processing.PostProcessor,
        loss_rules: LossRules,
        background_column: bool = True,
        background_is_zeros: bool = False,
    ):
        self.num_classes = num_classes
        self.class_columns = num_classes + int(background_column)
        self._extractor_for = extractor_for
        self._predictor_for = predictor_for
        self._anchor_generator = anchor_generator
        self._assigner = assigner
        self._box_coder = box_coder
        self._post_processor = post_processor
        self._rules = loss_rules
        self._background = np.zeros(self.class_columns, np.float32)
        if background_column and not background_is_zeros:
            self._background[0] = 1.0

    @property
    def backbone_scope(self) -> str:
        """The scope of the backbone's variables inside the feature extractor's."""
        return self._extractor_for(False).backbone_scope

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Images float32 [B, height, width, 3] in [0, 255], as the backbone was trained on."""
        return self._extractor_for(False).preprocess(images)

    def predict(self, preprocessed: tf.Tensor, is_training: bool) -> Dict[str, tf.Tensor]:
        """Raw predictions.

        Args:
            preprocessed: float32 [B, height, width, 3] from `preprocess`.
            is_training: batch statistics and dropout.

        Returns:
            `BOX_ENCODINGS` [B, A, K], `CLASS_LOGITS` [B, A, C'] and `ANCHORS` [A, 4].

        Raises:
            errors.ConfigError: the anchors do not fit the feature maps, or the input has no static
                size.
        """
        maps = self._extractor_for(is_training).extract(preprocessed)
        counts = self._anchor_generator.anchors_per_location()
        if len(counts) != len(maps):
            raise errors.ConfigError(
                f'{WHERE}.anchor_generator: anchors for {len(counts)} feature maps, and the '
                f'feature extractor makes {len(maps)}; expected as many.'
            )
        predictor = self._predictor_for(is_training, self._box_coder.code_size, self.class_columns)
        codes, logits = predictor.predict(maps, counts)
        return {
            fields.BOX_ENCODINGS: codes,
            fields.CLASS_LOGITS: logits,
            fields.ANCHORS: self._anchors(maps, preprocessed),
        }

    def _anchors(self, maps: list, preprocessed: tf.Tensor) -> tf.Tensor:
        """Constants: a static input size is what makes them so."""
        grids = [tuple(features.shape.as_list()[1:3]) for features in maps]
        size = tuple(preprocessed.shape.as_list()[1:3])
        if any(None in one for one in [*grids, size]):
            raise errors.ConfigError(
                'model.ssd.image_resizer: a single-shot detector needs a static input size; use '
                'fixed_shape_resizer, or keep_aspect_ratio_resizer with pad_to_max_dimension: true.'
            )
        return tf.constant(self._anchor_generator.generate(grids, size).boxes)

    def targets(
        self, predictions: Dict[str, tf.Tensor], groundtruth: targets.Groundtruth
    ) -> targets.Targets:
        """What each anchor should have predicted."""
        return self._assigner.assign(
            predictions[fields.ANCHORS], groundtruth, background=self._background
        )

    def losses(
        self, predictions: Dict[str, tf.Tensor], groundtruth: targets.Groundtruth
    ) -> Dict[str, tf.Tensor]:
        """`CLASSIFICATION_LOSS` and `LOCALIZATION_LOSS`, scalars."""
        rules = self._rules
        assigned = self.targets(predictions, groundtruth)
        logits = predictions[fields.CLASS_LOGITS]
        of_classes = rules.classification(logits, assigned.class_targets, assigned.class_weights)
        of_boxes = self._localization(predictions, assigned)
        classification, localization = rules.reduction.reduce(
            mining.AnchorLosses(of_classes, of_boxes),
            assigned,
            lambda: self._decoded(predictions),
        )
        normalizer = tf.constant(1.0)
        if rules.by_matches:
            normalizer = tf.maximum(tf.reduce_sum(assigned.box_weights), 1.0)
        of_code = self._box_coder.code_size if rules.by_code_size else 1
        return {
            LOCALIZATION_LOSS: localization * (rules.localization_weight / (normalizer * of_code)),
            CLASSIFICATION_LOSS: classification * (rules.classification_weight / normalizer),
        }

    def _localization(
        self, predictions: Dict[str, tf.Tensor], assigned: targets.Targets
    ) -> tf.Tensor:
        loss = self._rules.localization
        codes, expected = predictions[fields.BOX_ENCODINGS], assigned.box_targets
        if loss in losses.ON_DECODED_BOXES:
            boxes = predictions[fields.ANCHORS]
            codes = self._box_coder.decode(codes, boxes)
            expected = self._box_coder.decode(expected, boxes)
        return loss(codes, expected, assigned.box_weights)

    def _decoded(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Predicted boxes [B, A, 4]."""
        return self._box_coder.decode(
            predictions[fields.BOX_ENCODINGS], predictions[fields.ANCHORS]
        )[..., :4]

    def postprocess(
        self, predictions: Dict[str, tf.Tensor], windows: Optional[tf.Tensor]
    ) -> Dict[str, tf.Tensor]:
        """Detections, with classes from 0.

        Args:
            predictions: from `predict`.
            windows: float32 [B, 4]: what of each input is image, not padding; None: all.
        """
        return self._post_processor.apply(
            self._decoded(predictions)[:, :, tf.newaxis, :],
            predictions[fields.CLASS_LOGITS],
            windows,
        )


def build_ssd(config: ssd_pb2.Ssd) -> SsdModel:
    """The detector that a config describes.

    Raises:
        errors.ConfigError: a part is missing or unknown, or a field is not honoured.
    """
    config_rules_fields.refuse(config, WHERE)
    coder = box_coders.build_box_coder(config.box_coder)
    background_column = config.add_background_class

    def extractor_for(is_training: bool) -> extractor.FeatureExtractor:
        return extractor.build_feature_extractor(
            config.feature_extractor,
            is_training,
            config.freeze_batchnorm,
            config.inplace_batchnorm_update,
        )

    def predictor_for(
        is_training: bool, code_size: int, class_columns: int
    ) -> box_predictors.BoxPredictor:
        return box_predictors.build_box_predictor(
            config.box_predictor,
            code_size,
            class_columns,
            is_training,
            config.inplace_batchnorm_update,
            config.freeze_batchnorm,
        )

    return SsdModel(
        num_classes=config.num_classes,
        extractor_for=extractor_for,
        predictor_for=predictor_for,
        anchor_generator=anchors.build_anchor_generator(config.anchor_generator),
        assigner=targets.TargetAssigner(
            similarities.build_similarity(config.similarity_calculator),
            matchers.build_matcher(config.matcher),
            coder,
            config.negative_class_weight,
        ),
        box_coder=coder,
        post_processor=post_processing.build_post_processing(
            config.post_processing,
            f'{WHERE}.post_processing',
            config.num_classes,
            background_column,
        ),
        loss_rules=_loss_rules(config),
        background_column=background_column,
        background_is_zeros=config.encode_background_as_zeros,
    )


def _loss_rules(config: ssd_pb2.Ssd) -> LossRules:
    return LossRules(
        localization=losses.build_localization_loss(config.loss.localization_loss),
        classification=losses.build_classification_loss(config.loss.classification_loss),
        reduction=mining.build_reduction(config.loss, f'{WHERE}.loss'),
        localization_weight=config.loss.localization_weight,
        classification_weight=config.loss.classification_weight,
        by_matches=config.normalize_loss_by_num_matches,
        by_code_size=config.normalize_loc_loss_by_codesize,
    )
