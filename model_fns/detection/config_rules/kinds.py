"""The kinds of detectors that the rules in `protos/*.proto` are for."""

from __future__ import annotations

from google.protobuf import message as message_lib

from estimator_lib.config import support
from estimator_lib.config.rules import ConfigRules

# Why `graph_rewriter` is refused.
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


def refuse(message: message_lib.Message, where: str) -> None:
    """Raise an error for what is not supported in a part of `model.ssd`.

    Args:
        message: the part, whose config need not be at hand.
        where: its path in the config.

    Raises:
        errors.ConfigError: with every such field.
    """
    support.refuse(SINGLE_SHOT, message, where)
