"""Construction of single-shot detectors from a pipeline config."""

from __future__ import annotations

from typing import Optional

from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import (
    detector,
    generations,
)
from model_fns.detection.architectures.ssd.model import LossRules, RotatedSsdModel, SsdModel
from model_fns.detection.boxes import (
    anchors,
    axis_aligned,
    box_coders,
    matcher_builder,
    quadrilaterals,
    rotated,
    rotated_anchors,
    rotated_coder,
    similarities,
    targets,
)
from model_fns.detection.boxes.family import ModelBoxes
from model_fns.detection.config_rules import checks
from model_fns.detection.data import image_resizers
from model_fns.detection.detections import post_processing
from model_fns.detection.losses import losses, mining
from model_fns.detection.networks import box_predictors
from model_fns.detection.networks.feature_extractors import efficientnet, extractor
from protos import box_coding_pb2, ssd_pb2


@detector.DETECTORS.register('ssd')
def build_ssd(
    section: Section[ssd_pb2.Ssd], quantization: Optional[layers.Quantization] = None
) -> SsdModel:
    """Build the detector that a config describes.

    Args:
        section: configuration message of the model.
        quantization: how weights and outputs are rounded; None: they are not.

    Raises:
        errors.ConfigError: a part is missing or unknown, or a field is not supported.
    """
    config = section.message
    multiple = efficientnet.size_multiple(config.feature_extractor)
    checks.check_part(section, checks.size_problems(section, multiple))
    is_rotated = config.box_type == box_coding_pb2.ROTATED
    family: ModelBoxes = rotated if is_rotated else axis_aligned
    coder_module, anchor_module = (
        (rotated_coder, rotated_anchors) if is_rotated else (box_coders, anchors)
    )
    coder = coder_module.build_box_coder(section.child('box_coder'))

    def build_extractor(is_training: bool) -> extractor.FeatureExtractor:
        return extractor.build_feature_extractor(
            section.child('feature_extractor'),
            is_training,
            config.freeze_batchnorm,
            config.inplace_batchnorm_update,
            quantization=quantization,
        )

    def build_predictor(
        is_training: bool, code_size: int, class_columns: int
    ) -> box_predictors.BoxPredictor:
        return box_predictors.build_box_predictor(
            section.child('box_predictor'),
            code_size,
            class_columns,
            is_training,
            config.inplace_batchnorm_update,
            config.freeze_batchnorm,
            quantization=quantization,
            generation=generations.find_generation(config.feature_extractor.type),
        )

    return (RotatedSsdModel if is_rotated else SsdModel)(
        num_classes=config.num_classes,
        resizer=image_resizers.build_image_resizer(section.child('image_resizer')),
        build_extractor=build_extractor,
        build_predictor=build_predictor,
        anchor_generator=anchor_module.build_anchor_generator(section.child('anchor_generator')),
        assigner=_assigner(section, coder, family),
        box_coder=coder,
        post_processor=_post_processor(section, family),
        loss_rules=_loss_rules(section, family),
        background_column=config.add_background_class,
        background_is_zeros=config.encode_background_as_zeros,
        family=quadrilaterals if is_rotated else axis_aligned,
        where=section.path,
    )


def _assigner(
    section: Section[ssd_pb2.Ssd], coder: box_coders.BoxCoder, family: ModelBoxes
) -> targets.TargetAssigner:
    config = section.message
    return targets.TargetAssigner(
        similarities.build_similarity(section.child('similarity_calculator'), family),
        matcher_builder.build_matcher(section.child('matcher')),
        coder,
        config.negative_class_weight,
        family,
    )


def _post_processor(
    section: Section[ssd_pb2.Ssd], family: ModelBoxes
) -> post_processing.PostProcessor:
    # The model itself normalizes rotated boxes to the image.
    config = section.message
    changes = {'change_frame': False} if family is rotated else {}
    return post_processing.build_post_processing(
        section.child('post_processing'),
        config.num_classes,
        family,
        config.add_background_class,
        **changes,
    )


def _loss_rules(section: Section[ssd_pb2.Ssd], family: ModelBoxes) -> LossRules:
    config, loss_section = section.message, section.child('loss')
    loss = config.loss
    return LossRules(
        localization=losses.build_localization_loss(
            loss_section.child('localization_loss'), family
        ),
        classification=losses.build_classification_loss(
            loss_section.child('classification_loss'), config.num_classes
        ),
        scores_overlap=loss.classification_loss.HasField('quality_focal'),
        reduction=mining.build_reduction(loss_section),
        localization_weight=loss.localization_weight,
        classification_weight=loss.classification_weight,
        by_matches=config.normalize_loss_by_num_matches,
        by_code_size=config.normalize_loc_loss_by_codesize,
    )
