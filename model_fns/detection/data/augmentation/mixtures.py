"""Blends of two images."""

from __future__ import annotations

import functools
from typing import Sequence

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2

ALPHA = 1.5  # Zhang et al. (2019), section 3.1


def mixup(
    group: Sequence[Example], seed: tf.Tensor, alpha: float = ALPHA, probability: float = 1.0
) -> Example:
    """Blend two images, and keep the boxes of both with weights that are their shares.

    Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks" (2019), after
    Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018). Both images keep their scale
    and are at the top left of a black canvas that they fit in.

    Example:
        With a share of 0.75 pixels of 100 and 200 become 125. The boxes of the first image have
        the weight 0.75, those of the second 0.25.

    Args:
        group: two examples.
        seed: int64 [2].
        alpha: the first image's share has the distribution Beta(alpha, alpha).
        probability: probability of a blend; otherwise the first example is returned.

    Returns:
        The example, with a float32 image.
    """
    (happens,) = randomness.uniforms(seed, 1)
    share = randomness.beta(randomness.stream_seed(seed, 1), alpha)
    first = {**group[0], fields.IMAGE: frames.to_float(group[0][fields.IMAGE])}
    # Without the conditional, whose branches are functions of the graph.
    if probability >= 1.0:
        return _blended(first, group[1], share)
    return tf.cond(
        happens < probability, lambda: _blended(first, group[1], share), lambda: dict(first)
    )


@steps.MIXERS.register('mixup')
def _build(config: augmentation_pb2.MixUp, where: str) -> steps.Mixer:
    del where
    alpha = config.alpha if config.HasField('alpha') else ALPHA
    combine = functools.partial(mixup, alpha=alpha, probability=config.probability)
    return steps.Mixer(combine, num_examples=2)


def _blended(first: Example, second: Example, share: tf.Tensor) -> Example:
    size = tf.maximum(frames.image_size(first), frames.image_size(second))
    padded = []
    for example, weight in ((first, share), (second, 1.0 - share)):
        example = frames.pad(example, tf.zeros([2], tf.int32), size)
        example[fields.IMAGE] = frames.to_float(example[fields.IMAGE]) * weight
        example[fields.WEIGHTS] *= weight
        padded.append(example)
    image = padded[0][fields.IMAGE] + padded[1][fields.IMAGE]
    return {**examples.join_boxes(padded), fields.IMAGE: image}
