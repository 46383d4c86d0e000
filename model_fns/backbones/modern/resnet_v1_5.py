"""ResNet V1.5: the ResNets of torchvision, which stride in the 3x3 convolution of a first unit.

The networks are those of He et al. 2015 otherwise. `resnet_v1_*` have the strides of the published
TensorFlow checkpoints instead, in the last unit of a block, and do not fit weights of these.
Variables:

    resnet_v1_5_<size>/conv1                            the first convolution, with batch norm
    resnet_v1_5_<size>/block<i>/unit_<k>/<unit>/        conv1, conv2, shortcut; conv3 of bottlenecks
    resnet_v1_5_<size>/logits
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Mapping, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, resnet_blocks, resnet_v1

tf1 = tf.compat.v1

# Residual units in each block (table 1 of the paper), by the name of the network.
UNITS: Mapping[str, Tuple[int, ...]] = {
    'resnet_v1_5_18': (2, 2, 2, 2),
    'resnet_v1_5_34': (3, 4, 6, 3),
    'resnet_v1_5_50': (3, 4, 6, 3),
    'resnet_v1_5_101': (3, 4, 23, 3),
    'resnet_v1_5_152': (3, 8, 36, 3),
}
# Networks whose units are two 3x3 convolutions instead of a bottleneck.
_BASIC = ('resnet_v1_5_18', 'resnet_v1_5_34')


def bottleneck_v1_5(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build a bottleneck that strides in its 3x3 convolution.

    Returns:
        [batch, height', width', 4 * depth], and the end points within.
    """
    # The block strides in its first unit, and the unit in its 3x3: the former is the block's.
    unit = dataclasses.replace(unit, strides_first=False)
    return resnet_v1.bottleneck_v1(inputs, unit, style)


def basic_v1_5(
    inputs: tf.Tensor, unit: resnet_blocks.Unit, style: layers.LayerStyle
) -> Tuple[tf.Tensor, registry.EndPoints]:
    """Build two 3x3 convolutions, of which the first strides.

    Returns:
        [batch, height', width', depth], and the end points within.
    """
    return resnet_v1.lite_bottleneck_v1(inputs, unit, style)


def resnet_v1_5_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps of a network.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        style: of all layers.
        options: those of `resnet_blocks.HONORS` count, and `bounded`.
        name: one of `UNITS`.

    Returns:
        `<name>/conv1`, `<name>/block<i>` and what is within these, see
        `resnet_blocks.stack_blocks`: [batch, height', width', channels'].
    """
    style = style.but(activation=tf.nn.relu6) if options.bounded else style
    # Sums have the activation of the published network, and blocks never subsample at their end.
    options = options.but(strides_first=True, sum_activation=None, subsample_after=False)
    blocks = resnet_blocks.make_blocks(UNITS[name], options)
    with tf1.variable_scope(name):
        root = layers.conv2d(images, 64, 7, style, 'conv1', stride=2, padding='FIXED')
        end_points = resnet_blocks.stack_blocks(
            # torchvision pads with minus infinity; behind the root's ReLU zeros give the same.
            resnet_blocks.pool_root(root, 'FIXED'),
            blocks,
            basic_v1_5 if name in _BASIC else bottleneck_v1_5,
            style,
            name,
            options,
        )
    return {f'{name}/conv1': root, **end_points}


def resnet_v1_5(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> registry.EndPoints:
    """Return the classifier.

    Args:
        images: float32 [batch, height, width, channels], normalized.
        num_classes: how many logits.
        style: of all layers.
        options: those of `resnet_blocks.HONORS` count, and `bounded`.
        name: one of `UNITS`.

    Returns:
        The feature maps and what `resnet_blocks.classify` returns, by name.
    """
    end_points = resnet_v1_5_features(images, style, options, name)
    with tf1.variable_scope(name):
        last = end_points[f'{name}/block4']
        end_points.update(resnet_blocks.classify(last, num_classes, style, name))
    return end_points


def _segmentation(name: str) -> registry.Segmentation:
    """Describe a network for DeepLab, with the settings of the other ResNets."""
    maps = resnet_blocks.feature_maps(name)
    return registry.Segmentation(
        last_end_point=f'{name}/block4',
        decoder_taps={2: f'{name}/conv1', **{stride: maps[stride] for stride in (4, 8, 16)}},
        honors=resnet_blocks.HONORS,
        options=registry.Options(
            output_stride=16, weight_decay=1e-4, batch_norm_decay=0.95, batch_norm_epsilon=1e-5
        ),
        normalization=registry.IMAGENET_STANDARDS,
        mean_pixel=registry.IMAGENET_STANDARDS.means,
    )


for _name in UNITS:
    registry.add(
        registry.Network(
            name=_name,
            scope=_name,
            features=functools.partial(resnet_v1_5_features, name=_name),
            style=resnet_blocks.resnet_style,
            feature_maps=resnet_blocks.feature_maps(_name),
            normalization=registry.IMAGENET_STANDARDS,
            honors=resnet_blocks.HONORS,
            build=functools.partial(resnet_v1_5, name=_name),
            logits_scopes=(f'{_name}/logits',),
            segmentation=_segmentation(_name),
            preprocessing='efficientnet',
        )
    )
