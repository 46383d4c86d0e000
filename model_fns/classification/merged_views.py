"""Test-time augmentation of classifiers: the mean of the scores of several views of an image."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones.registry import Network
from model_fns.structures import views as views_lib
from model_fns.structures.views import Views
from protos import eval_pb2


def build_views(
    config: eval_pb2.EvalConfig, network: Network, size: Tuple[int, int]
) -> Optional[Views]:
    """Return the views of evaluations and predictions; None: the image as it is.

    Args:
        config: how a checkpoint is evaluated.
        network: the classifier.
        size: its input (height, width) in pixels.

    Raises:
        errors.ConfigError: the network does not take images of a scale, or a scale is out of
            range.
    """
    views = views_lib.from_config(config)
    for scale in views.scaled if views else ():
        where = f'{views_lib.WHERE}.scales: {scale:g}'
        if network.fixed_size:
            raise errors.ConfigError(
                f'{where}; {network.name} takes only images of the size that it is trained with; '
                'expected 1.'
            )
        height, width = (views_lib.scale_side(side, scale) for side in size)
        if min(height, width) < network.min_size:
            raise errors.ConfigError(
                f'{where}; it gives images of {height} x {width} pixels, and {network.name} takes '
                f'at least {network.min_size} x {network.min_size}.'
            )
    return views


def view_logits(
    images: tf.Tensor, views: Views, logits: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Build the logits of all views.

    Args:
        images: float32 [batch, height, width, channels] of static height and width, normalized.
        views: the views.
        logits: the network: images [n, ...] -> float32 [n, num_classes].

    Returns:
        float32 [views, batch, num_classes].
    """
    height, width = images.shape[1:3]
    by_scale: List[tf.Tensor] = []
    for scale in views.scales:
        sides = (views_lib.scale_side(side, scale) for side in (height, width))
        # Both directions are one batch, so that the graph has each layer once for a scale.
        found = logits(views.with_mirrored(views_lib.resize(images, *sides)))
        by_scale += tf.split(found, 2) if views.mirrors else [found]
    return tf.stack(by_scale)


def merge_exclusive(logits: tf.Tensor) -> tf.Tensor:
    """Return logits [batch, num_classes] whose softmax is the mean of the softmax of views.

    Args:
        logits: float32 [views, batch, num_classes].
    """
    return _log_mean(tf.nn.log_softmax(logits))


def merge_independent(logits: tf.Tensor) -> tf.Tensor:
    """Return logits [batch, num_classes] whose sigmoid is the mean of the sigmoids of views.

    The logit of a probability is log(p) - log(1 - p), and both means are exact for scores near 0
    and near 1.

    Args:
        logits: float32 [views, batch, num_classes].
    """
    return _log_mean(tf.math.log_sigmoid(logits)) - _log_mean(tf.math.log_sigmoid(-logits))


def _log_mean(logarithms: tf.Tensor) -> tf.Tensor:
    """Compute the logarithm of the mean over views of numbers that are given as logarithms."""
    count = tf.cast(tf.shape(logarithms)[0], logarithms.dtype)
    # In logarithms: probabilities of 1e-40 would become 0, and their logits infinite.
    return tf.reduce_logsumexp(logarithms, 0) - tf.math.log(count)
