"""Training-time augmentation of detection examples.

The steps of `model_fns.augmentation`, which change images only, and those that also change boxes,
masks and keypoints.
"""

from __future__ import annotations

from typing import Sequence

from model_fns.augmentation import pipeline
from model_fns.augmentation.pipeline import Augmentation
from model_fns.detection.config_rules.kinds import SINGLE_SHOT
from model_fns.detection.data.augmentation import (
    autoaugment,
    box_steps,
    concatenation,
    cropping,
    flips,
    labels,
    mixtures,
    mosaics,
    padding,
    pasting,
    random_operations,
    resizing,
    rotation,
    squares,
)
from model_fns.detection.data.augmentation.steps import BUILDERS, MIXERS
from protos import augmentation_pb2

# The modules of the steps are imported because they register builders.
__all__ = [
    'Augmentation',
    'autoaugment',
    'box_steps',
    'build_augmentation',
    'concatenation',
    'cropping',
    'flips',
    'labels',
    'mixtures',
    'mosaics',
    'padding',
    'pasting',
    'random_operations',
    'resizing',
    'rotation',
    'squares',
]


def build_augmentation(
    options: Sequence[augmentation_pb2.PreprocessingStep], where: str = pipeline.WHERE
) -> Augmentation:
    """Build the augmentation of a config for examples of `inputs.Reader.decode`.

    Args:
        options: the steps, in order.
        where: their path in the config, for error messages.

    Raises:
        errors.ConfigError: as `pipeline.build`.
    """
    kinds = pipeline.Kinds(SINGLE_SHOT, BUILDERS, MIXERS)
    return pipeline.build(options, kinds, where)
