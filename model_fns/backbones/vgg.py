"""VGG (Simonyan and Zisserman 2014): 3x3 convolutions, with biases and without normalization.

The fully connected layers are convolutions, as in the published checkpoints.
"""

from __future__ import annotations

import functools
from typing import Dict, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry

tf1 = tf.compat.v1

# 3x3 convolutions before each of the five poolings: configurations A, D and E of the paper.
ARCHITECTURES: Dict[str, Tuple[int, ...]] = {
    'vgg_a': (1, 1, 2, 2, 2),
    'vgg_16': (2, 2, 3, 3, 3),
    'vgg_19': (2, 2, 4, 4, 4),
}
_DEPTHS = (64, 128, 256, 512, 512)


def vgg_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: Xavier initialization, biases without a regularizer."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.XAVIER,
        regularizer=layers.l2(options.get('weight_decay', 5e-4)),
    )


def vgg_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps of a VGG network.

    Args:
        images: float32 [batch, height, width, channels], in [0, 255] less the channels' means.
        style: of all layers.
        options: it has none that change feature maps.
        name: one of `ARCHITECTURES`, which is the variable scope too.

    Returns:
        Float32 [batch, height', width', channels'] by name: `<name>/conv<i>/conv<i>_<k>` and, of
        stride 2^i, `<name>/pool<i>`, for i from 1 to 5.
    """
    del options
    end_points: registry.EndPoints = {}
    outputs = images
    with tf1.variable_scope(name):
        for index, (count, depth) in enumerate(zip(ARCHITECTURES[name], _DEPTHS), start=1):
            for layer in range(1, count + 1):
                part = f'conv{index}/conv{index}_{layer}'
                outputs = layers.conv2d(outputs, depth, 3, style, part)
                end_points[f'{name}/{part}'] = outputs
            outputs = tf.nn.max_pool2d(outputs, 2, 2, 'VALID', name=f'pool{index}')
            end_points[f'{name}/pool{index}'] = outputs
    return end_points


def vgg(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    name: str,
) -> registry.EndPoints:
    """Return the classifier.

    Args:
        images: float32 [batch, height, width, channels], in [0, 255] less the channels' means; at
            least 224x224. Where they are so large that there are logits for several places, these
            are averaged (section 3.2 of the paper).
        num_classes: how many logits.
        style: of all layers.
        options: `dropout_keep_prob` counts.
        name: one of `ARCHITECTURES`.

    Returns:
        The feature maps, `<name>/fc6`, `<name>/fc7` [batch, height', width', 4096], and
        `<name>/fc8`, which is `registry.LOGITS`, [batch, num_classes].
    """
    end_points = vgg_features(images, style, options, name)
    keep_prob = options.get('dropout_keep_prob', 0.5)
    with tf1.variable_scope(name):
        # 7 is the side of pool5 of a 224x224 image; hence `min_size`.
        outputs = layers.conv2d(end_points[f'{name}/pool5'], 4096, 7, style, 'fc6', padding='VALID')
        end_points[f'{name}/fc6'] = outputs
        outputs = layers.dropout(outputs, keep_prob, style.is_training, 'dropout6')
        outputs = layers.conv2d(outputs, 4096, 1, style, 'fc7')
        end_points[f'{name}/fc7'] = outputs
        outputs = layers.dropout(outputs, keep_prob, style.is_training, 'dropout7')
        outputs = layers.conv2d(outputs, num_classes, 1, style.linear(), 'fc8')
        logits = tf.reduce_mean(outputs, [1, 2])
    end_points[f'{name}/fc8'] = logits
    end_points[registry.LOGITS] = logits
    return end_points


def _register(name: str) -> None:
    lasts = enumerate(ARCHITECTURES[name], start=1)
    maps = {2 ** (index - 1): f'{name}/conv{index}/conv{index}_{last}' for index, last in lasts}
    registry.add(
        registry.Network(
            name=name,
            scope=name,
            features=functools.partial(vgg_features, name=name),
            style=vgg_style,
            feature_maps={**maps, 32: f'{name}/pool5'},
            normalization=registry.IMAGENET_MEANS,
            honors=('dropout_keep_prob', 'weight_decay'),
            min_size=224,
            build=functools.partial(vgg, name=name),
            logits_scopes=(f'{name}/fc8',),
            preprocessing='vgg',
        )
    )


for _name in ARCHITECTURES:
    _register(_name)
