"""Training-time augmentation of detection examples.

Each kind of `PreprocessingStep` is a function (example, seed, parameters) -> example. A function in
the same file builds it from the config. Randomness depends only on the seed of the example. Images
stay uint8 until a step needs floats. From then on they are float32, in the same range.
"""

from __future__ import annotations

from typing import Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.detection.config_rules import checks
from model_fns.detection.data.augmentation import (
    autoaugment,
    box_steps,
    color,
    concatenation,
    cropping,
    flips,
    labels,
    padding,
    patches,
    randomness,
    resizing,
    rotation,
    squares,
)
from model_fns.detection.data.augmentation.steps import BUILDERS
from model_fns.detection.data.augmentation.steps import Step as Augmentation
from protos import augmentation_pb2

# The modules of the steps are imported because they register builders.
__all__ = [
    'Augmentation',
    'autoaugment',
    'box_steps',
    'build_augmentation',
    'color',
    'concatenation',
    'cropping',
    'flips',
    'labels',
    'padding',
    'patches',
    'resizing',
    'rotation',
    'squares',
]


def build_augmentation(
    options: Sequence[augmentation_pb2.PreprocessingStep],
    where: str = 'train_config.data_augmentation_options',
) -> Augmentation:
    """Build a function that applies all steps of a config in order.

    Args:
        options: the steps, in order.
        where: their path in the config, for error messages.

    Returns:
        (example, int64 [2] seed) -> example, with the tensors of `inputs.Reader.decode`. It raises
        `errors.ConfigError` if a step does not support the content of examples.

    Raises:
        errors.ConfigError: a step is empty, or one of its fields is out of range.
    """
    built = [_build(option, f'{where}[{index}]') for index, option in enumerate(options)]

    def augment(example: Example, seed: tf.Tensor) -> Example:
        for index, (path, step) in enumerate(built):
            try:
                example = step(example, randomness.step_seed(seed, index))
            except errors.ConfigError as error:
                raise errors.ConfigError(f'{path}: {error}') from None
        return example

    return augment


def _build(option: augmentation_pb2.PreprocessingStep, where: str) -> Tuple[str, Augmentation]:
    """Build a step, and return it after its path."""
    kind = option.WhichOneof('preprocessing_step')
    if kind is None:
        raise errors.ConfigError(f'{where}: empty; expected one of {", ".join(BUILDERS)}.')
    checks.check_part(option, where)
    path = f'{where}.{kind}'
    return path, BUILDERS.get(kind, where)(getattr(option, kind), path)
