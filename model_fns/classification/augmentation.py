"""Augmentation steps of classification: those of images, mirroring, and mixtures of two images.

All images have the size of the network's input.
"""

from __future__ import annotations

import functools
from typing import Callable, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import registry
from estimator_lib.task import IMAGE, Example
from model_fns.augmentation import (
    IMAGE_STEPS,
    pipeline,
    pixels,
    rand_augment,
    randomness,
    steps,
)
from model_fns.classification.config_rules import RULES
from model_fns.classification.inputs import SHARES
from model_fns.structures import images
from protos import augmentation_pb2

MIXUP_ALPHA = 0.2  # Zhang et al. (2018), section 3.1: 0.1 to 0.4 on ImageNet

BUILDERS: steps.Builders = registry.Registry('augmentation')
for _kind in IMAGE_STEPS:
    BUILDERS.add(_kind, IMAGE_STEPS.get(_kind))
MIXERS: steps.MixerBuilders = registry.Registry('augmentation')
KINDS = pipeline.Kinds(RULES, BUILDERS, MIXERS)


def random_flip(example: Example, seed: tf.Tensor, axis: int, probability: float) -> Example:
    """Mirror an image at random.

    Args:
        example: any example.
        seed: int64 [2].
        axis: 0: top to bottom; 1: left to right.
        probability: probability of mirroring.
    """
    (uniform,) = randomness.uniforms(seed, 1)
    flips = tf.cast(uniform < probability, tf.int32)
    return {**example, IMAGE: images.reversed_where(flips, example[IMAGE], axis)}


def mixup(
    group: Sequence[Example], seed: tf.Tensor, alpha: float = MIXUP_ALPHA, probability: float = 1.0
) -> Example:
    """Blend two images and the shares of their labels.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018).

    Example:
        With a share of 0.75 pixels of 100 and 200 become 125, and the labels 2 and 0 of 4 classes
        become (0.25, 0, 0.75, 0).

    Args:
        group: two examples with `SHARES`.
        seed: int64 [2].
        alpha: the first image's share has the distribution Beta(alpha, alpha).
        probability: probability of a blend; otherwise the first example is returned.

    Returns:
        The example, with a float32 image.
    """
    share = _first_share(seed, alpha, probability)
    first, second = (pixels.to_float(example[IMAGE]) for example in group)
    return _mixed(group, share * first + (1.0 - share) * second, share)


def cutmix(
    group: Sequence[Example], seed: tf.Tensor, alpha: float = 1.0, probability: float = 1.0
) -> Example:
    """Replace a rectangle by that of another image, and blend the labels by its area.

    Yun et al., "CutMix" (2019), equations 1 and 2.

    Example:
        With a share of 0.75 the rectangle has half of each side: 6 x 8 pixels of 12 x 16. The
        labels 2 and 0 of 4 classes become (0.25, 0, 0.75, 0), if no edge cuts the rectangle.

    Args:
        group: two examples with `SHARES`, and images of one size and type.
        seed: int64 [2].
        alpha: the share of the first image, before the rectangle is cut at the edges, has the
            distribution Beta(alpha, alpha).
        probability: probability of a rectangle; otherwise the first example is returned.
    """
    first, second = (example[IMAGE] for example in group)
    height, width, _ = first.shape
    size = np.array([height, width])
    # The share has the seed itself and stream 1.
    (place,) = randomness.uniforms(randomness.stream_seed(seed, 2), 1, 2)
    # The share is one of the area, so a side has its root: equation 2 of the paper.
    ratio = tf.sqrt(1.0 - _first_share(seed, alpha, probability))
    cut = tf.cast(ratio * size.astype(np.float32), tf.int32)
    # The center is anywhere in the image, so that edges cut rectangles, as published.
    begin = randomness.integer(place, 0, size - 1) - cut // 2
    low, high = tf.maximum(begin, 0), tf.minimum(begin + cut, size)
    part = second[low[0] : high[0], low[1] : high[1]]
    # The area that is left in the image, not the drawn one: labels tell what is to be seen.
    area = tf.cast(tf.reduce_prod(high - low), tf.float32)
    return _mixed(group, pixels.replace_part(first, low, part), 1.0 - area / (height * width))


@BUILDERS.register('random_horizontal_flip')
def _build_horizontal(config: augmentation_pb2.RandomHorizontalFlip, where: str) -> steps.Step:
    return _build_flip(config, where, axis=1)


@BUILDERS.register('random_vertical_flip')
def _build_vertical(config: augmentation_pb2.RandomVerticalFlip, where: str) -> steps.Step:
    return _build_flip(config, where, axis=0)


@BUILDERS.register('rand_augment')
def _build_rand_augment(config: augmentation_pb2.RandAugment, where: str) -> steps.Step:
    return rand_augment.build(config, where, _transform)


@MIXERS.register('mixup')
def _build_mixup(config: augmentation_pb2.MixUp, where: str) -> steps.Mixer:
    del where
    alpha = config.alpha if config.HasField('alpha') else MIXUP_ALPHA
    return _build_mixer(mixup, alpha, config.probability)


@MIXERS.register('cutmix')
def _build_cutmix(config: augmentation_pb2.CutMix, where: str) -> steps.Mixer:
    del where
    return _build_mixer(cutmix, config.alpha, config.probability)


def _transform(example: Example, matrix: tf.Tensor, shift: tf.Tensor) -> Example:
    """Move the center of each pixel p of an image to matrix p + shift; the outside is gray."""
    # The kernel asks for the source of each pixel, the caller has the way of the points.
    back = tf.linalg.inv(matrix)
    image = example[IMAGE][tf.newaxis]
    moved = pixels.warp(image, back, -tf.linalg.matvec(back, shift), pixels.GRAY)
    return {**example, IMAGE: moved[0]}


def _build_flip(config, where: str, axis: int) -> steps.Step:
    field = 'keypoint_flip_permutation'
    steps.check(not getattr(config, field), where, config, field, 'none: images have no keypoints')
    return functools.partial(random_flip, axis=axis, probability=config.probability)


def _build_mixer(function: Callable[..., Example], alpha: float, probability: float) -> steps.Mixer:
    combine = functools.partial(function, alpha=alpha, probability=probability)
    return steps.Mixer(combine, num_examples=2)


def _first_share(seed: tf.Tensor, alpha: float, probability: float) -> tf.Tensor:
    """Draw the share of the first image: float32 scalar; 1 where nothing happens."""
    (happens,) = randomness.uniforms(seed, 1)
    share = randomness.beta(randomness.stream_seed(seed, 1), alpha)
    return tf.where(happens < probability, share, 1.0)


def _mixed(group: Sequence[Example], image: tf.Tensor, share: tf.Tensor) -> Example:
    """Return the first example with a mixed image, and the labels mixed by a share."""
    first, second = (example[SHARES] for example in group)
    # A label that is not known (NaN) stays so, unless its image has no share.
    parts = tf.math.multiply_no_nan(first, share), tf.math.multiply_no_nan(second, 1.0 - share)
    return {**group[0], IMAGE: image, SHARES: parts[0] + parts[1]}
