"""The decoder: refinement of features at the resolution of earlier layers (Chen et al. 2018).

Variables, in the scope `decoder`, for the first output stride; later ones add `_1`, `_2`, ...:

    feature_projection0                                of the earlier layer
    decoder_conv0_{depthwise,pointwise}, decoder_conv1_{...}   separable
    decoder_conv0/decoder_conv0_1, decoder_conv0/decoder_conv0_2   plain
    decoder_conv0_{depthwise,pointwise} or decoder_conv0   with `sum_merge`

A U-Net has no projection of the earlier layer, and `unet_conv0`, `unet_conv1`.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.segmentation.networks import head_layers, sizes
from protos import segmentation_pb2

tf1 = tf.compat.v1

# Few channels, so that the features of the early layer do not outweigh the refined ones (section
# 4.1 of the paper).
_PROJECTION_FILTERS = 48


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Parameters of the refinement.

    Attributes:
        output_strides: of the earlier layers, in descending order.
        separable: whether 3x3 convolutions are a depthwise and a pointwise one.
        num_filters: output channels.
        sum_merge: whether features and earlier features are projected to the same channels and
            summed, instead of concatenated.
        output_is_logits: whether the sums are logits of as many classes as there are filters: their
            terms are then 1x1 convolutions with biases, neither normalized nor activated.
        unet_filters: output channels at each stride of a U-Net (Ronneberger et al. 2015), in place
            of `num_filters`; empty: it is none.
    """

    output_strides: Tuple[int, ...] = (4,)
    separable: bool = True
    num_filters: int = 256
    sum_merge: bool = False
    output_is_logits: bool = False
    unet_filters: Tuple[int, ...] = ()

    @classmethod
    def from_config(cls, config: segmentation_pb2.SegmentationDecoder, num_classes: int) -> Decoder:
        """Build the decoder of a config, which `network_checks` has checked.

        Args:
            config: the config.
            num_classes: channels, where the output is logits.
        """
        return cls(
            output_strides=tuple(config.output_strides) or (4,),
            separable=config.separable_convolution,
            num_filters=num_classes if config.output_is_logits else config.num_filters,
            sum_merge=config.sum_merge,
            output_is_logits=config.output_is_logits,
            unet_filters=tuple(config.unet_filters),
        )

    @property
    def tapped_strides(self) -> Tuple[int, ...]:
        """Output strides of earlier layers; a U-Net has none of the image's size."""
        return tuple(stride for stride in self.output_strides if stride > 1)


def refine(
    features: tf.Tensor,
    earlier: Sequence[tf.Tensor],
    decoder: Decoder,
    style: layers.LayerStyle,
    image_size: sizes.Size,
) -> tf.Tensor:
    """Build the features at the last of the decoder's output strides.

    Args:
        features: float32 [batch, height, width, channels].
        earlier: features of an earlier layer for each of `decoder.tapped_strides`.
        decoder: the parameters.
        style: of all layers.
        image_size: of the network's input; `sizes.strided` gives the size of the result.

    Returns:
        float32 [batch, height', width', num_filters], or the last of `unet_filters`.
    """
    if decoder.unet_filters:
        return _unet(features, earlier, decoder, style, image_size)
    merge = _sum if decoder.sum_merge else _concatenate
    if decoder.output_is_logits:
        style = style.linear()
    with tf1.variable_scope('decoder'):
        for stage, (stride, early) in enumerate(zip(decoder.output_strides, earlier)):
            suffix = f'_{stage}' if stage else ''
            size = sizes.strided(image_size, stride)
            features = merge(features, early, decoder, style, size, suffix)
    return features


def _unet(
    features: tf.Tensor,
    earlier: Sequence[tf.Tensor],
    decoder: Decoder,
    style: layers.LayerStyle,
    image_size: sizes.Size,
) -> tf.Tensor:
    """Enlarge, concatenate and apply two 3x3 convolutions at each stride; see `refine`."""
    with tf1.variable_scope('decoder'):
        for stage, (stride, filters) in enumerate(
            zip(decoder.output_strides, decoder.unet_filters)
        ):
            suffix = f'_{stage}' if stage else ''
            size = sizes.strided(image_size, stride)
            features = sizes.resize(features, size)
            # A last stage at stride 1 has no earlier layer: the image itself is none.
            if stage < len(earlier):
                early = sizes.resize(earlier[stage], size)
                features = layers.concat([features, early], style)
            for index in (0, 1):
                scope = f'unet_conv{index}{suffix}'
                features = head_layers.conv3x3(
                    features, filters, style, scope, separable=decoder.separable
                )
    return features


def _concatenate(
    features: tf.Tensor,
    early: tf.Tensor,
    decoder: Decoder,
    style: layers.LayerStyle,
    size: sizes.Size,
    suffix: str,
) -> tf.Tensor:
    """Concatenate both and apply two 3x3 convolutions."""
    # `0` is the number of the earlier layer at this stride in DeepLab, which has one for each.
    early = layers.conv2d(early, _PROJECTION_FILTERS, 1, style, f'feature_projection0{suffix}')
    # The earlier features are resized too, as in DeepLab; at their own size no op is built.
    outputs = layers.concat([sizes.resize(features, size), sizes.resize(early, size)], style)
    if decoder.separable:
        scopes = [f'decoder_conv{index}{suffix}' for index in (0, 1)]
    else:
        # The scopes that slim.repeat makes.
        scopes = [f'decoder_conv0{suffix}/decoder_conv0{suffix}_{index}' for index in (1, 2)]
    for scope in scopes:
        outputs = head_layers.conv3x3(
            outputs, decoder.num_filters, style, scope, separable=decoder.separable
        )
    return outputs


def _sum(
    features: tf.Tensor,
    early: tf.Tensor,
    decoder: Decoder,
    style: layers.LayerStyle,
    size: sizes.Size,
    suffix: str,
) -> tf.Tensor:
    """Sum a convolution of each."""
    scope = f'decoder_conv0{suffix}'
    early = layers.conv2d(early, decoder.num_filters, 1, style, f'feature_projection0{suffix}')
    if decoder.output_is_logits:
        # A linear 1x1 convolution gives the same before the resize, at a lower cost.
        features = layers.conv2d(features, decoder.num_filters, 1, style, scope)
        features = sizes.resize(features, size)
    else:
        features = head_layers.conv3x3(
            sizes.resize(features, size),
            decoder.num_filters,
            style,
            scope,
            separable=decoder.separable,
        )
    resized = sizes.resize(early, size)
    return layers.add(features, resized, style, range_name=f'sum{suffix}/{layers.PLAIN_SUM}')
