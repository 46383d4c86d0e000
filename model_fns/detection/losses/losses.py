"""Losses of anchors: functions of predictions, targets and weights.

B is the batch size, A the number of anchors, K the box code's size and C' the number of class
columns. Localization losses return [B, A]. Classification losses return [B, A, C'], or [B, A] if
classes exclude each other (softmax).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import gaussians, rotated
from model_fns.detection.boxes.family import Boxes
from protos import losses_pb2

# (predictions, targets, weights) -> losses.
LocalizationLoss = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
# `QualityFocalLoss` takes overlaps too.
ClassificationLoss = Callable[..., tf.Tensor]


def l2(predictions: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Compute half the squared error of the weighted difference, summed over the code.

    The weight is inside the square: 1/2 sum(((p - t) w)^2).

    Args:
        predictions: float32 [B, A, K].
        targets: float32 [B, A, K].
        weights: float32 [B, A].
    """
    # The weight is squared too, as in the Object Detection API: an anchor of weight 0.5 counts as
    # 0.25.
    difference = (predictions - targets) * weights[..., tf.newaxis]
    return 0.5 * tf.reduce_sum(tf.square(difference), axis=-1)


def smooth_l1(delta: float = 1.0) -> LocalizationLoss:
    """Build Huber's loss (1964), summed over the code: quadratic up to `delta`, then linear.

    Args:
        delta: error above which the loss is linear.
    """

    def loss(predictions: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        error = tf.abs(predictions - targets)
        # Minima, as in tf.compat.v1.losses.huber_loss. tf.where would compute the unused branch
        # too, and its infinities would make the gradient NaN.
        quadratic = tf.minimum(error, delta)
        huber = 0.5 * quadratic * quadratic + delta * (error - quadratic)
        return tf.reduce_sum(huber, axis=-1) * weights

    return loss


def l1(predictions: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Compute the absolute error of codes [B, A, K], summed over the code: [B, A]."""
    return tf.reduce_sum(tf.abs(predictions - targets), axis=-1) * weights


@dataclasses.dataclass(frozen=True)
class OverlapLoss:
    """Loss of decoded predictions and targets: 1 minus their overlap.

    Attributes:
        overlap: overlap of boxes at the same index: IoU, GIoU, or closeness as Gaussians.
    """

    overlap: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

    def __call__(self, predictions: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of decoded boxes; see `LocalizationLoss`."""
        return (1.0 - self.overlap(predictions, targets)) * weights


def sigmoid(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Compute the binary cross entropy of each class.

    Args:
        logits: float32 [B, A, C'].
        targets: float32 [B, A, C'], in [0, 1].
        weights: float32 [B, A, C'].
    """
    return weights * tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)


def sigmoid_focal(gamma: float = 2.0, alpha: Optional[float] = None) -> ClassificationLoss:
    """Build focal loss (Lin et al. 2017): (1 - p_t)^gamma * alpha_t * binary cross entropy.

    Args:
        gamma: exponent that reduces the loss of easy examples.
        alpha: weight of positives; negatives have 1 - alpha; None: both have 1.
    """

    def loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        probabilities = tf.sigmoid(logits)
        # 1 - p_t, with p_t = t p + (1 - t) (1 - p).
        miss = targets + probabilities - 2.0 * targets * probabilities
        factors = weights
        # The value of the paper, section 4.1, and of the published RetinaNets. A square has a
        # gradient without a power, which would need the bound below.
        if gamma == 2.0:
            factors *= tf.square(miss)
        elif gamma != 0.0:
            # The gradient of a power below 1 is infinite at 0.
            factors *= tf.pow(tf.maximum(miss, np.finfo(np.float32).tiny), gamma)
        # The published builder passes None for an unset field, although the class that it builds
        # has a default of 0.25.
        if alpha is not None:
            factors *= (1.0 - alpha) + (2.0 * alpha - 1.0) * targets
        return factors * entropy

    return loss


@dataclasses.dataclass(frozen=True)
class QualityFocalLoss:
    """Focal loss whose target is an overlap: |y - p|^beta * binary cross entropy.

    Li et al. 2020, "Generalized Focal Loss", arXiv 2006.04388, equation 5. With y = 0.5, p = 0.75
    and beta = 2 it is 0.0625 * 0.8370 = 0.0523.

    Attributes:
        beta: exponent that reduces the loss of easy examples.
    """

    beta: float = 2.0

    def __call__(
        self, logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor, overlaps: tf.Tensor
    ) -> tf.Tensor:
        """Compute the loss of each class: float32 [B, A, C'].

        Args:
            logits: float32 [B, A, C'].
            targets: float32 [B, A, C'], in [0, 1].
            weights: float32 [B, A, C'].
            overlaps: float32 [B, A]: factor on the targets, the IoU of the predicted box with that
                of the object; 1 without an object.
        """
        # Without the stop, a box with a negative logit would lower this loss by leaving its object.
        targets = tf.stop_gradient(targets * overlaps[..., tf.newaxis])
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        miss = tf.abs(targets - tf.sigmoid(logits))
        # The gradient of a power below 1 is infinite at 0.
        return weights * entropy * tf.pow(tf.maximum(miss, np.finfo(np.float32).tiny), self.beta)


def softmax(logit_scale: float = 1.0) -> ClassificationLoss:
    """Build the cross entropy of classes that exclude each other, [B, A].

    An anchor's weight is the mean of its classes' weights.

    Args:
        logit_scale: divisor of logits.
    """

    def loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        # The op of TensorFlow 1, with which the published loss was written, passes no gradient to
        # labels. This one does.
        entropy = tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.stop_gradient(targets), logits=logits / logit_scale
        )
        return entropy * tf.reduce_mean(weights, axis=-1)

    return loss


def softmax_against_logits(logit_scale: float = 1.0) -> ClassificationLoss:
    """Build the cross entropy with targets that are logits too, [B, A] (distillation).

    Args:
        logit_scale: divisor of both kinds of logits.
    """
    against_probabilities = softmax(logit_scale)

    def loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return against_probabilities(logits, tf.nn.softmax(targets / logit_scale), weights)

    return loss


def bootstrapped_sigmoid(alpha: float, hard: bool = False) -> ClassificationLoss:
    """Build binary cross entropy with targets corrected by the prediction (Reed et al. 2014).

    Args:
        alpha: weight of the original target, in [0, 1]; the prediction has the rest.
        hard: True: the prediction counts as 0 or 1, not as a probability.
    """

    def loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        predicted = tf.sigmoid(logits)
        if hard:
            predicted = tf.cast(predicted > 0.5, tf.float32)
        # As published, nothing stops the gradient of the soft form through its own target.
        mixed = alpha * targets + (1.0 - alpha) * predicted
        return sigmoid(logits, mixed, weights)

    return loss


# Losses of codes; overlaps of decoded boxes by function of their family, and as Gaussians.
_CODE_LOSSES = {'weighted_l2': l2, 'l1_localization_loss': l1}
_OVERLAPS = {'weighted_iou': 'elementwise_iou', 'weighted_giou': 'elementwise_giou'}
_GAUSSIAN_DISTANCES = {
    'gaussian_wasserstein': gaussians.normalized_wasserstein,
    'gaussian_kullback_leibler': gaussians.kullback_leibler,
}


def build_localization_loss(
    section: Section[losses_pb2.LocalizationLoss], family: Boxes
) -> LocalizationLoss:
    """Build the localization loss that a config describes.

    `anchorwise_output` has no effect because every loss is computed per anchor.

    Args:
        section: configuration message.
        family: family of the boxes.

    Raises:
        errors.ConfigError: the message is empty, or its loss does not support these boxes.
    """
    config = section.message
    kind = config.WhichOneof('localization_loss')
    if kind == 'weighted_smooth_l1':
        return smooth_l1(config.weighted_smooth_l1.delta)
    if kind in _CODE_LOSSES:
        return _CODE_LOSSES[kind]
    if kind in _OVERLAPS and hasattr(family, _OVERLAPS[kind]):
        return OverlapLoss(getattr(family, _OVERLAPS[kind]))
    if kind in _GAUSSIAN_DISTANCES and family.SIZE == rotated.SIZE:
        gaussian = getattr(config, kind)
        root = gaussian.function == losses_pb2.GaussianLocalizationLoss.SQRT
        return OverlapLoss(gaussians.closeness(_GAUSSIAN_DISTANCES[kind], gaussian.tau, root))
    if kind is not None:
        raise section.error(
            kind,
            'not for these boxes; gaussian losses are for rotated boxes only, weighted_iou and '
            'weighted_giou for axis-aligned boxes only.',
        )
    known = ', '.join(sorted(field.name for field in config.DESCRIPTOR.fields))
    raise section.error('', f'empty; expected one of {known}.')


def weight_classes(loss: ClassificationLoss, class_weights: Sequence[float]) -> ClassificationLoss:
    """Multiply the loss of the anchors that are matched to a class by the weight of the class.

    The loss of background does not change.

    Args:
        loss: a classification loss.
        class_weights: one for each class without background; empty: 1.
    """
    if not class_weights:
        return loss
    # Weights minus 1: the target row of background is all zeros here and keeps its factor of 1.
    excess = np.array(class_weights, np.float32) - 1.0

    def weighted(
        predictions: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor, *overlaps: tf.Tensor
    ) -> tf.Tensor:
        classes = targets[..., -len(class_weights) :]  # without a column of background
        factors = 1.0 + tf.reduce_sum(classes * excess, axis=-1, keepdims=True)
        return loss(predictions, targets, weights * factors, *overlaps)

    return weighted


def build_classification_loss(
    section: Section[losses_pb2.ClassificationLoss], num_classes: int
) -> ClassificationLoss:
    """Build the classification loss that a config describes.

    Args:
        section: configuration message.
        num_classes: number of classes without background.

    Raises:
        errors.ConfigError: the message is empty, its loss is not for anchors, or it has not one
            weight for each class.
    """
    weights = list(section.message.class_weights)
    if len(weights) not in (0, num_classes):
        raise section.error(
            'class_weights',
            f'{len(weights)} numbers; expected one for each of the {num_classes} classes, without '
            'background.',
        )
    return weight_classes(_build_unweighted(section), weights)


def _build_unweighted(section: Section[losses_pb2.ClassificationLoss]) -> ClassificationLoss:
    config = section.message
    kind = config.WhichOneof('classification_loss')
    if kind == 'weighted_sigmoid':
        return sigmoid
    if kind == 'weighted_softmax':
        return softmax(_logit_scale(section.child(kind)))
    if kind == 'weighted_logits_softmax':
        return softmax_against_logits(_logit_scale(section.child(kind)))
    if kind == 'bootstrapped_sigmoid':
        bootstrapped = config.bootstrapped_sigmoid
        return bootstrapped_sigmoid(bootstrapped.alpha, bootstrapped.hard_bootstrap)
    if kind == 'weighted_sigmoid_focal':
        focal = config.weighted_sigmoid_focal
        return sigmoid_focal(focal.gamma, focal.alpha if focal.HasField('alpha') else None)
    if kind == 'quality_focal':
        return QualityFocalLoss(config.quality_focal.beta)
    raise section.error(
        '',
        f'{kind or "empty"}; expected weighted_sigmoid, weighted_sigmoid_focal, quality_focal, '
        'weighted_softmax, weighted_logits_softmax or bootstrapped_sigmoid.',
    )


def _logit_scale(section: Section[Any]) -> float:
    if section.message.logit_scale <= 0:
        raise section.error('logit_scale', expected='a positive number')
    return section.message.logit_scale
