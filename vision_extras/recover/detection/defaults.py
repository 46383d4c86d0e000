"""Configs that recoveries of single-shot detectors begin with."""

from __future__ import annotations

from protos import hyperparams_pb2, pipeline_pb2
from vision_extras.recover import bases

# What does not change what a detector computes.
_TRAINING = (
    'matcher',
    'similarity_calculator',
    'encode_background_as_zeros',
    'normalize_loss_by_num_matches',
    'normalize_loc_loss_by_codesize',
    'loss',
)
# Types of networks whose published configs override the hyperparameters of the backbone.
_OVERRIDING = ('inception', '_fpn', '_ppn')
_EFFICIENT = 'efficientnet'


def build(kind: str, head: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build a config without what an artifact tells.

    Args:
        kind: type of the feature extractor.
        head: field of the box predictor.
    """
    name = 'demo_efficientdet' if _EFFICIENT in kind else 'bccd_ssd'
    config = bases.load(name, 'detection')
    ssd = config.model.ssd
    shared = ssd.box_predictor.weight_shared_convolutional_box_predictor
    bias = shared.class_prediction_bias_init
    styles = [hyperparams_pb2.Hyperparams() for _ in range(2)]
    styles[0].CopyFrom(ssd.feature_extractor.conv_hyperparams)
    styles[1].CopyFrom(shared.conv_hyperparams)
    bases.keep(ssd, _TRAINING)
    ssd.feature_extractor.type = kind
    ssd.box_coder.faster_rcnn_box_coder.SetInParent()
    ssd.post_processing.batch_non_max_suppression.SetInParent()
    predictor = getattr(ssd.box_predictor, head)
    ssd.feature_extractor.conv_hyperparams.CopyFrom(styles[0])
    predictor.conv_hyperparams.CopyFrom(styles[1])
    if any(part in kind for part in _OVERRIDING):
        ssd.feature_extractor.override_base_feature_extractor_hyperparams = True
    predictor.use_dropout = False
    if '_fpn' in kind or _EFFICIENT in kind:
        predictor.class_prediction_bias_init = bias
    return config
