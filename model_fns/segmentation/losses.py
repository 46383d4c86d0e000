"""Losses of a segmentation network.

B is the batch, H x W the crop, h x w the size of the logits, C the number of classes. Each head has
logits for each scale of the image pyramid, and merged logits. There is a loss for each of them.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.layers import forward_pass
from model_fns.segmentation import fields
from model_fns.segmentation.data import targets
from model_fns.segmentation.networks import sizes
from model_fns.segmentation.networks.image_pyramid import MERGED_LOGITS
from protos import segmentation_pb2

LogitsByScale = Mapping[str, tf.Tensor]

# Prefix of the logits of one scale: `logits_0.50`.
_SCALE_PREFIX = 'logits_'

# Name of the Dice loss of the semantic head.
DICE = f'{fields.SEMANTIC_HEAD}_dice'

# Least denominator of a mean, for no pixels.
# DeepLab's number, in train_utils.py.
_LEAST_COUNT = 1e-5


def loss_name(head: str, scale: str = MERGED_LOGITS) -> str:
    """Return `semantic_loss`, or `semantic_loss_0.50` for the logits `logits_0.50`."""
    name = f'{head}_loss'
    return name if scale == MERGED_LOGITS else f'{name}_{scale[len(_SCALE_PREFIX) :]}'


def loss_names(heads: Sequence[str], scales: Sequence[str] = (MERGED_LOGITS,)) -> List[str]:
    """Return the names of the losses of heads, each at all scales."""
    return [loss_name(head, scale) for head in heads for scale in scales]


def create_losses(
    predictions: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    model: segmentation_pb2.Segmentation,
    ignore_label: int,
    class_weights: Sequence[float],
) -> Dict[str, tf.Tensor]:
    """Build the losses of all heads of a model, at all scales.

    Args:
        predictions: logits by `<head>/<scale>`.
        labels: of the batch, with the targets of the heads.
        model: has the heads and their losses.
        ignore_label: pixels with it are ignored.
        class_weights: of the semantic head.

    Returns:
        float32 scalars by the names of `loss_names`.
    """
    semantic = labels[fields.SEMANTIC]
    logits = _group_by_scale(predictions, fields.SEMANTIC_HEAD)
    named = semantic_loss(
        logits,
        semantic,
        ignore_label,
        class_weights,
        model.loss,
        forward_pass.global_step() if model.loss.hard_example_mining_step else None,
    )
    if model.loss.dice_weight:
        named.update(dice_loss(logits, semantic, ignore_label, model.loss))
    if model.HasField('instance_center'):
        logits = _group_by_scale(predictions, fields.INSTANCE_CENTER_HEAD)
        counted = tf.not_equal(semantic, ignore_label)
        named.update(center_loss(logits, labels[fields.CENTER], counted, model.instance_center))
    if model.HasField('offset'):
        logits = _group_by_scale(predictions, fields.OFFSET_HEAD)
        weights = labels[fields.OFFSET_WEIGHTS]
        named.update(offset_loss(logits, labels[fields.OFFSET], weights, model.offset))
    if model.HasField('edge'):
        logits = _group_by_scale(predictions, fields.EDGE_HEAD)
        named.update(edge_loss(logits, labels[fields.EDGE], model.edge))
    return named


def _group_by_scale(predictions: Mapping[str, tf.Tensor], head: str) -> Dict[str, tf.Tensor]:
    """Return the logits of a head by scale."""
    prefix = f'{head}/'
    return {
        name[len(prefix) :]: value for name, value in predictions.items() if name.startswith(prefix)
    }


def semantic_loss(
    logits_by_scale: LogitsByScale,
    labels: tf.Tensor,
    ignore_label: int,
    class_weights: Sequence[float],
    config: segmentation_pb2.SegmentationLoss,
    global_step: Optional[tf.Tensor] = None,
) -> Dict[str, tf.Tensor]:
    """Build the softmax cross entropy of all pixels, or of the hard ones.

    For all pixels: the sum of weight * cross entropy, divided by the number of pixels that are not
    ignored. Class weights are not in the denominator (as in DeepLab).

    Args:
        logits_by_scale: float32 [B, h, w, C] by the name of the scale.
        labels: int32 [B, H, W].
        ignore_label: pixels with it are ignored.
        class_weights: one for each class, or one for all; empty: 1.
        config: has the selection of hard pixels, the resolution and the loss's weight.
        global_step: int64 scalar; read with `hard_example_mining_step`.

    Returns:
        float32 scalars by `loss_name`.

    Raises:
        errors.ConfigError: there is neither one class weight nor one for each class.
    """

    def loss(logits: tf.Tensor) -> tf.Tensor:
        if config.upsample_logits:
            at_labels, at_logits = labels, resize_like(logits, labels)
        else:
            at_labels, at_logits = labels_at_logits(labels, logits), logits
        counted = tf.not_equal(at_labels, ignore_label)
        pixels = _cross_entropy(at_logits, at_labels, counted)
        # As in DeepLab, weighted before hard pixels are chosen: a large weight makes them hard.
        pixels *= _pixel_weights(at_labels, counted, class_weights, logits.shape[-1])
        if config.top_k_percent_pixels < 1.0:
            # Ignored pixels count here, though their losses are 0: DeepLab takes the share of all
            # pixels, and then divides by the number of losses that are not 0.
            num_pixels = tf.cast(tf.size(pixels), tf.float32)
            share = _hard_pixel_fraction(config, global_step)
            num_hard = tf.cast(share * num_pixels, tf.int32)
            return mean_of_largest(tf.reshape(pixels, [-1]), num_hard)
        num_counted = tf.reduce_sum(tf.cast(counted, tf.float32))
        return tf.reduce_sum(pixels) / tf.maximum(num_counted, _LEAST_COUNT)

    return _each_scale(fields.SEMANTIC_HEAD, logits_by_scale, loss, config.weight)


def dice_loss(
    logits_by_scale: LogitsByScale,
    labels: tf.Tensor,
    ignore_label: int,
    config: segmentation_pb2.SegmentationLoss,
) -> Dict[str, tf.Tensor]:
    """Build the Dice loss of the classes (Milletari et al. 2016).

    The loss of a class is 1 - 2 sum(p y) / (sum p + sum y), over the pixels of the batch that are
    not ignored. The result is the mean over the classes that have such pixels.

    Args:
        logits_by_scale: float32 [B, h, w, C] by the name of the scale.
        labels: int32 [B, H, W].
        ignore_label: pixels with it are ignored.
        config: has the weight and the resolution.

    Returns:
        float32 scalars by `loss_name`, in [0, weight].
    """

    def loss(logits: tf.Tensor) -> tf.Tensor:
        if config.upsample_logits:
            at_labels, at_logits = labels, resize_like(logits, labels)
        else:
            at_labels, at_logits = labels_at_logits(labels, logits), logits
        counted = tf.cast(tf.not_equal(at_labels, ignore_label), tf.float32)[..., tf.newaxis]
        truth = tf.one_hot(at_labels, logits.shape[-1]) * counted
        # Ignored pixels leave both sums: else padding would count as predictions of each class.
        probabilities = tf.nn.softmax(at_logits) * counted
        overlap, predicted, labeled = (
            tf.reduce_sum(values, axis=[0, 1, 2])
            for values in (truth * probabilities, probabilities, truth)
        )
        # Without a smoothing constant: a class without pixels has weight 0 below.
        lost = 1.0 - 2.0 * tf.math.divide_no_nan(overlap, predicted + labeled)
        return _weighted_mean(lost, tf.cast(labeled > 0, tf.float32))

    return _each_scale(DICE, logits_by_scale, loss, config.dice_weight)


def center_loss(
    logits_by_scale: LogitsByScale,
    heatmap: tf.Tensor,
    counted: tf.Tensor,
    config: segmentation_pb2.InstanceCenterHead,
) -> Dict[str, tf.Tensor]:
    """Build the mean squared error of the heat map of centers (Panoptic-DeepLab, section 3.2).

    Args:
        logits_by_scale: float32 [B, h, w, 1] by the name of the scale.
        heatmap: float32 [B, H, W] in [0, 1].
        counted: bool [B, H, W]: False in padding and where the label is unknown.
        config: has the weight.

    Returns:
        float32 scalars by `loss_name`: means over the pixels that count.
    """
    weights = tf.cast(counted, tf.float32)

    def loss(logits: tf.Tensor) -> tf.Tensor:
        # Logits are enlarged, targets not reduced: a peak between two features would be lost.
        difference = resize_like(logits, heatmap)[..., 0] - heatmap
        return _weighted_mean(tf.square(difference), weights)

    return _each_scale(fields.INSTANCE_CENTER_HEAD, logits_by_scale, loss, config.weight)


def offset_loss(
    logits_by_scale: LogitsByScale,
    offsets: tf.Tensor,
    weights: tf.Tensor,
    config: segmentation_pb2.OffsetHead,
) -> Dict[str, tf.Tensor]:
    """Build the L1 loss of the offsets to the center, rows plus columns, in pixels of the crop.

    Args:
        logits_by_scale: float32 [B, h, w, 2] by the name of the scale.
        offsets: float32 [B, H, W, 2].
        weights: float32 [B, H, W]: 1 in instances, else 0.
        config: has the weight.

    Returns:
        float32 scalars by `loss_name`: means over the pixels of instances.
    """

    def loss(logits: tf.Tensor) -> tf.Tensor:
        error = tf.reduce_sum(tf.abs(resize_like(logits, offsets) - offsets), axis=-1)
        return _weighted_mean(error, weights)

    return _each_scale(fields.OFFSET_HEAD, logits_by_scale, loss, config.weight)


def edge_loss(
    logits_by_scale: LogitsByScale, edges: tf.Tensor, config: segmentation_pb2.EdgeHead
) -> Dict[str, tf.Tensor]:
    """Build the softmax cross entropy of edges, with larger weights for the few edge pixels.

    Args:
        logits_by_scale: float32 [B, h, w, K] by the name of the scale.
        edges: int32 [B, H, W]: see `targets.edge_targets`.
        config: has the weights.

    Returns:
        float32 scalars by `loss_name`: weighted means over the pixels that count.
    """
    is_edge = tf.cast(edges > targets.NO_EDGE, tf.float32)
    is_none = tf.cast(tf.equal(edges, targets.NO_EDGE), tf.float32)
    # A weight of 0 means that edges and other pixels have the same sum of weights in the batch.
    edge_weight = config.edge_pixel_weight or tf.math.divide_no_nan(
        tf.reduce_sum(is_none), tf.reduce_sum(is_edge)
    )
    weights = is_none + edge_weight * is_edge
    counted = tf.not_equal(edges, targets.IGNORED_EDGE)

    def loss(logits: tf.Tensor) -> tf.Tensor:
        return _weighted_mean(_cross_entropy(resize_like(logits, edges), edges, counted), weights)

    return _each_scale(fields.EDGE_HEAD, logits_by_scale, loss, config.weight)


def mean_of_largest(losses: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return the mean of the largest losses, without those that are 0.

    For example, [5, 0, 1, 2] gives 3.5 for a count of 2, and 8 / 3 for a count of 4.

    Selection finds the smallest of the largest losses in a tenth of the time and memory of a sort.
    Losses equal to it share their weight, where sorting would take some of them.

    Args:
        losses: float32 [n], not negative, n at least 1.
        count: int32 scalar in [0, n]: number of the largest losses.

    Returns:
        float32 scalar; 0 where no loss is left, NaN where a loss is NaN.
    """
    # Selection needs an order, and NaN has none.
    # The weights below are constants: only their product with the losses has a gradient.
    ordered = tf.stop_gradient(
        tf.where(tf.math.is_nan(losses), tf.constant(np.inf, losses.dtype), losses)
    )
    # Cut at 0, because the kernel refuses -1; with a count of 0 `missing` makes all weights 0.
    threshold = tf.raw_ops.NthElement(input=ordered, n=tf.maximum(count - 1, 0), reverse=True)
    above = tf.cast(ordered > threshold, tf.float32)
    equal = tf.cast(tf.equal(ordered, threshold), tf.float32)
    # Never negative: at most count - 1 losses are above the count-th largest.
    missing = tf.cast(count, tf.float32) - tf.reduce_sum(above)
    weights = above + equal * missing / tf.reduce_sum(equal)
    # As in DeepLab: while all pixels are hard, the zeros of ignored ones must not make the mean
    # small.
    num_not_zero = tf.reduce_sum(weights * tf.cast(ordered > 0.0, tf.float32))
    return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), num_not_zero)


def resize_like(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Resize logits to the size of labels: float32 [B, H, W, channels]."""
    return sizes.resize(logits, sizes.spatial_size(labels))


def labels_at_logits(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Resize labels to the size of logits, from the nearest pixels: int32 [B, h, w]."""
    return sizes.resize(labels[..., tf.newaxis], sizes.spatial_size(logits), 'nearest')[..., 0]


def _each_scale(
    head: str,
    logits_by_scale: LogitsByScale,
    loss: Callable[[tf.Tensor], tf.Tensor],
    weight: float,
) -> Dict[str, tf.Tensor]:
    losses = {}
    for scale, logits in logits_by_scale.items():
        name = loss_name(head, scale)
        with tf.name_scope(name):
            losses[name] = weight * loss(logits)
    return losses


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Build the cross entropy of each pixel: float32 [B, H, W].

    Ignored pixels get that of class 0; the caller gives them the weight 0.
    """
    # A label outside of the classes is an error on CPUs and NaN on GPUs, which no weight removes.
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.where(counted, labels, 0), logits=logits
    )


def _pixel_weights(
    labels: tf.Tensor, counted: tf.Tensor, class_weights: Sequence[float], num_classes: int
) -> tf.Tensor:
    """Build the weight of each pixel: that of its class, 0 if ignored: float32 [B, H, W]."""
    weights = tf.cast(counted, tf.float32)
    if len(class_weights) not in (0, 1, num_classes):
        raise errors.ConfigError(
            f'model.segmentation.loss.class_weights: {len(class_weights)} weights; '
            f'expected one for each of the {num_classes} classes, or one for all.'
        )
    if len(class_weights) == 1:
        return weights * float(class_weights[0])
    if len(class_weights):
        # A table and not one_hot: one number a pixel instead of one for each class.
        table = tf.constant(np.asarray(class_weights, np.float32))
        return weights * tf.gather(table, tf.where(counted, labels, 0))
    return weights


def _hard_pixel_fraction(
    config: segmentation_pb2.SegmentationLoss, global_step: Optional[tf.Tensor]
) -> tf.Tensor:
    """Build the fraction of the pixels that are used at a step: float32 scalar."""
    share = tf.constant(config.top_k_percent_pixels, tf.float32)
    if not config.hard_example_mining_step:
        return share
    if global_step is None:
        raise ValueError(
            f'hard_example_mining_step is {config.hard_example_mining_step} and needs global_step, '
            'which is None.'
        )
    progress = tf.cast(global_step, tf.float32) / float(config.hard_example_mining_step)
    progress = tf.minimum(progress, 1.0)
    # DeepLab's schedule: from all pixels at the first step to the share at the last one.
    return progress * share + (1.0 - progress)


def _weighted_mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return the weighted mean; 0 where all weights are 0."""
    return tf.math.divide_no_nan(tf.reduce_sum(values * weights), tf.reduce_sum(weights))
