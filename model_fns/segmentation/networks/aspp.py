"""Atrous spatial pyramid pooling: parallel branches of different reach (Chen et al. 2017).

Variables: `image_pooling`, `aspp0` (1x1), `aspp<i>` (plain) or `aspp<i>_{depthwise,pointwise}` for
the i-th atrous rate, and `concat_projection`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional, Tuple

import tensorflow as tf

from estimator_lib.config import schema
from model_fns import layers
from model_fns.segmentation.networks import head_layers, sizes
from protos import segmentation_pb2


@dataclasses.dataclass(frozen=True)
class Aspp:
    """Parameters of the pyramid on the backbone's features.

    Attributes:
        atrous_rates: of the 3x3 branches, at the output stride of the features.
        separable: whether those are a depthwise and a pointwise convolution.
        num_filters: channels of each branch and of the projection.
        image_level_feature: whether there is a branch with global pooling.
        pooling_crop: (height, width) in pixels of the input that one pool of that branch covers;
            None: the whole image.
        pooling_stride: (vertical, horizontal) stride of these pools, in features.
        concat_projection: whether a 1x1 convolution and dropout follow the branches.
        squeeze_and_excitation: whether that branch is a gate on the others instead of
            one of them (Howard et al. 2019, section 6.4).
        quantized_gate: whether the gate is relu6(x + 3) / 6 instead of the sigmoid.
        dropout_keep_prob: fraction of the projection's features that training keeps.
    """

    atrous_rates: Tuple[int, ...] = ()
    separable: bool = True
    num_filters: int = 256
    image_level_feature: bool = True
    pooling_crop: Optional[Tuple[int, int]] = None
    pooling_stride: Tuple[int, int] = (1, 1)
    concat_projection: bool = True
    squeeze_and_excitation: bool = False
    quantized_gate: bool = False
    # DeepLab's model.py has it as a constant.
    dropout_keep_prob: float = 0.9

    @classmethod
    def from_config(cls, config: segmentation_pb2.AtrousSpatialPyramidPooling) -> Aspp:
        """Build the pyramid of a config, which `network_checks` has checked."""
        crop = (config.image_pooling_crop_height, config.image_pooling_crop_width)
        return cls(
            atrous_rates=tuple(config.atrous_rates),
            separable=config.separable_convolution,
            num_filters=config.num_filters,
            image_level_feature=config.image_level_feature,
            pooling_crop=crop if all(crop) else None,
            pooling_stride=(config.image_pooling_stride_height, config.image_pooling_stride_width),
            concat_projection=config.concat_projection,
            squeeze_and_excitation=config.squeeze_and_excitation,
            quantized_gate=config.quantized_sigmoid_gate,
            dropout_keep_prob=schema.decimal_number(config.dropout_keep_prob),
        )


def pyramid(
    features: tf.Tensor, aspp: Aspp, style: layers.LayerStyle, output_stride: int
) -> tf.Tensor:
    """Build the features of all branches.

    Args:
        features: float32 [batch, height, width, channels] of the backbone.
        aspp: the branches, with rates for this output stride.
        style: of all layers.
        output_stride: of the features; `pooling_crop` is divided by it.

    Returns:
        float32 [batch, height, width, channels']: `num_filters` after a projection, else that many
        for each branch.
    """
    image = _image_level(features, aspp, style, output_stride) if aspp.image_level_feature else None
    gate = image if aspp.squeeze_and_excitation else None
    # The image-level branch is the first: the order is that of the input channels of
    # `concat_projection` in published checkpoints.
    branches = [] if image is None or gate is not None else [image]
    branches.append(layers.conv2d(features, aspp.num_filters, 1, style, 'aspp0'))
    for index, rate in enumerate(aspp.atrous_rates, 1):
        branches.append(
            head_layers.conv3x3(
                features,
                aspp.num_filters,
                style,
                f'aspp{index}',
                separable=aspp.separable,
                rate=rate,
            )
        )
    outputs = layers.concat(branches, style)
    if aspp.concat_projection:
        outputs = layers.conv2d(outputs, aspp.num_filters, 1, style, 'concat_projection')
        outputs = layers.dropout(
            outputs, aspp.dropout_keep_prob, style.is_training, 'concat_projection_dropout'
        )
    return outputs if gate is None else layers.multiply(outputs, gate, style, layers.GATED)


def _image_level(
    features: tf.Tensor, aspp: Aspp, style: layers.LayerStyle, output_stride: int
) -> tf.Tensor:
    """Build the branch with large pools, at the size of the features."""
    if aspp.pooling_crop is None:
        pooled = layers.global_mean(features)
    else:
        # DeepLab's scale_dimension(crop, 1 / output_stride).
        window = sizes.strided(aspp.pooling_crop, output_stride)
        pooled = _average_pool(features, window, aspp.pooling_stride)
    if aspp.squeeze_and_excitation:
        gate = layers.hard_sigmoid if aspp.quantized_gate else tf.sigmoid
        style = style.but(activation=gate)
    image = layers.conv2d(pooled, aspp.num_filters, 1, style, 'image_pooling')
    if aspp.squeeze_and_excitation and aspp.pooling_crop is None:
        return image  # The product broadcasts the one value of an image.
    # From 1x1 this repeats one value; the published graph has the same resize.
    return sizes.resize(image, sizes.spatial_size(features))


def _average_pool(
    features: tf.Tensor, window: Tuple[int, int], stride: Tuple[int, int]
) -> tf.Tensor:
    """Build the means of windows; a window larger than the features covers all of them.

    Args:
        features: float32 [batch, height, width, channels].
        window: height and width in features.
        stride: vertical and horizontal, in features.
    """
    size = sizes.spatial_size(features)
    if all(isinstance(side, int) for side in size):
        # A pooling kernel refuses windows larger than its input with VALID.
        window = (min(window[0], size[0]), min(window[1], size[1]))
        return tf.nn.avg_pool2d(features, window, stride, 'VALID')
    # The window's size is static. Smaller features are padded with zeros, and the mean is then
    # corrected to that of the covered part.
    missing = tf.maximum(tf.stack(window) - tf.stack(size), 0)
    paddings = tf.pad(tf.stack([tf.zeros_like(missing), missing], 1), [[1, 1], [0, 0]])
    padded = tf.pad(features, paddings)
    padded.set_shape([None, None, None, features.shape[-1]])
    means = tf.nn.avg_pool2d(padded, window, stride, 'VALID')
    covered = tf.reduce_prod(tf.stack(window) - missing)
    return means * (math.prod(window) / tf.cast(covered, means.dtype))
