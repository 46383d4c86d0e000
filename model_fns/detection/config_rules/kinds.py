"""Rules of the kinds of detectors, which select the rules in `protos/*.proto`."""

from __future__ import annotations

from typing import Any

from estimator_lib.config import support
from estimator_lib.config.rules import ConfigRules, PipelineConfig
from estimator_lib.config.section import Section
from protos import box_coding_pb2

# The reason why `graph_rewriter` is refused.
NO_QUANTIZED_TWO_STAGE = (
    'two-stage detectors are not quantized, as no published one is; train in float32, without '
    'graph_rewriter'
)

SINGLE_SHOT = ConfigRules(models=frozenset({'detection', 'ssd'}))
TWO_STAGE = ConfigRules(
    models=frozenset({'detection', 'faster_rcnn'}),
    unsupported={'TrainEvalPipelineConfig': {'graph_rewriter': NO_QUANTIZED_TWO_STAGE}},
)
CENTER_NET = ConfigRules(
    models=frozenset({'detection', 'center_net'}),
    unsupported={
        'TrainEvalPipelineConfig': {
            'graph_rewriter': (
                'CenterNets are not quantized, as no published one is; train in float32, without '
                'graph_rewriter'
            )
        },
        'ClassificationLoss': {
            'weighted_dice_classification_loss': (
                'the loss of heat maps is penalty_reduced_logistic_focal_loss'
            )
        },
    },
)


def refuse(section: Section[Any]) -> None:
    """Refuse a part of `model.ssd` that sets unsupported fields.

    Args:
        section: the part; the rest of the config is not needed.

    Raises:
        errors.ConfigError: there are such fields; the message lists all.
    """
    support.refuse(SINGLE_SHOT, section)


def is_rotated(pipeline: PipelineConfig) -> bool:
    """Return whether the model's boxes are rotated."""
    kind = pipeline.model.WhichOneof('model')
    box_type = getattr(getattr(pipeline.model, kind or 'ssd'), 'box_type', box_coding_pb2.UPRIGHT)
    return box_type == box_coding_pb2.ROTATED
