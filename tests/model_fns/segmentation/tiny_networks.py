"""Segmentation networks for tests: on a backbone of two layers, and those that were recorded."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from model_fns import layers
from model_fns.backbones import registry
from model_fns.segmentation.networks import backbones, heads, network, sizes
from protos import segmentation_pb2

tf1 = tf.compat.v1

NUM_CLASSES = 4


def _features(images, style, options):
    """Taps at 4 and 8 of 5 channels, features of 6 channels at the output stride."""
    size = sizes.spatial_size(images)
    with tf1.variable_scope('tiny'):
        first = layers.conv2d(images, 5, 3, style, 'conv1')
        last = layers.conv2d(first, 6, 1, style, 'conv2')
    return {
        'early': sizes.resize(first, sizes.strided(size, 4)),
        'middle': sizes.resize(first, sizes.strided(size, 8)),
        'last': sizes.resize(last, sizes.strided(size, options.output_stride)),
    }


def _style(is_training, options):
    del options
    return layers.LayerStyle(
        is_training=is_training,
        regularizer=layers.l2(1e-3),
        batch_norm=layers.BatchNorm(decay=0.9, scale=True),
    )


def backbone(honors=('output_stride', 'weight_decay')) -> backbones.SegmentationBackbone:
    """The backbone of two layers, which listens to those options of a config."""
    return backbones.SegmentationBackbone(
        registry.Network(
            name='tiny',
            scope='tiny',
            features=_features,
            style=_style,
            feature_maps={},
            segmentation=registry.Segmentation(
                last_end_point='last',
                decoder_taps={4: 'early', 8: 'middle'},
                honors=tuple(honors),
                options=registry.Options(output_stride=16, weight_decay=1e-3),
            ),
        )
    )


BACKBONE = backbone()


def tiny_network(**changes: Any) -> network.SegmentationNetwork:
    """A network on that backbone: only a semantic head, unless `heads` says more."""
    arguments = {
        'backbone': BACKBONE,
        'options': registry.Options(output_stride=16),
        'heads': (heads.Head('semantic', NUM_CLASSES),),
    }
    return network.SegmentationNetwork(**{**arguments, **changes})


ALL_HEADS = (
    heads.Head('semantic', NUM_CLASSES),
    heads.Head('instance_center', 1, 3),
    heads.Head('offset', 2, 3),
    heads.Head('edge', 2, 3),
)


def config(text: str) -> segmentation_pb2.Segmentation:
    """A config from its text."""
    return text_format.Parse(text, segmentation_pb2.Segmentation())


def recorded_config(spec: Dict[str, Any]) -> segmentation_pb2.Segmentation:
    """The config of a model of ../shared/spec/variables/segmentation, but without dropout."""
    options = spec['options']
    message = segmentation_pb2.Segmentation()
    message.backbone.name = options['model_variant']
    message.backbone.output_stride = options['output_stride']
    message.backbone.weight_decay = spec['weight_decay']
    if options['depth_multiplier'] != 1.0:
        message.backbone.depth_multiplier = options['depth_multiplier']
    message.backbone.multi_grid.extend(options['multi_grid'] or [])
    message.logits_kernel_size = options['logits_kernel_size']
    message.predict_with_upsampled_logits = options['prediction_with_upsampled_logits']
    message.use_bounded_activation = options['use_bounded_activation']
    _set_pyramid(message.aspp, options)
    if options['decoder_output_stride']:
        _set_decoder(message.decoder, options)
    return message


def _set_pyramid(pyramid, options):
    pyramid.SetInParent()
    pyramid.atrous_rates.extend(options['atrous_rates'] or [])
    if not options['aspp_with_batch_norm']:
        pyramid.batch_norm = False
        return
    pyramid.image_level_feature = options['add_image_level_feature']
    pyramid.separable_convolution = options['aspp_with_separable_conv']
    pyramid.num_filters = options['aspp_convs_filters']
    pyramid.concat_projection = options['aspp_with_concat_projection']
    pyramid.squeeze_and_excitation = options['aspp_with_squeeze_and_excitation']
    if options['image_se_uses_qsigmoid']:
        pyramid.quantized_sigmoid_gate = True
    if pyramid.concat_projection:
        pyramid.dropout_keep_prob = 1.0
    if options['image_pooling_crop_size']:
        height, width = options['image_pooling_crop_size']
        pyramid.image_pooling_crop_height, pyramid.image_pooling_crop_width = height, width
        stride = options['image_pooling_stride']
        pyramid.image_pooling_stride_height, pyramid.image_pooling_stride_width = stride


def _set_decoder(decoder, options):
    decoder.output_strides.extend(options['decoder_output_stride'])
    decoder.sum_merge = options['decoder_use_sum_merge']
    if options['decoder_output_is_logits']:
        decoder.output_is_logits = True
        return
    decoder.separable_convolution = options['decoder_use_separable_conv']
    decoder.num_filters = options['decoder_filters']


def lively(session: tf1.Session, seed: int = 0, deviation: float = 0.4) -> Dict[str, np.ndarray]:
    """Give the model's variables values by their names, and return these; initialize the others."""
    values, feed, initializers = {}, {}, []
    model = {one.op.name for one in session.graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES)}
    for variable in session.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES):
        initializers.append(variable.initializer)
        name, shape = variable.op.name, variable.shape.as_list()
        if name not in model:
            continue
        random = np.random.RandomState((seed + sum(map(ord, name))) % 2**31)
        value = random.normal(0.0, deviation, shape)
        if name.endswith(('gamma', 'moving_variance')):
            value = random.uniform(0.5, 1.5, shape)
        values[name] = value.astype(np.float32)
        feed[variable.initializer.inputs[1]] = values[name]
    session.run(initializers, feed)
    return values


def run(fetches: Any, seed: int = 0) -> Any:
    """Values in the default graph, with lively variables."""
    with tf1.Session() as session:
        lively(session, seed)
        return session.run(fetches)


def variable_names() -> list:
    """Names of the trained variables of the default graph, in order."""
    return [variable.op.name for variable in tf1.trainable_variables()]


def align_corners(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear resize of [batch, height, width, channels] with corners on corners."""
    result = np.zeros((image.shape[0], height, width, image.shape[3]))
    rows, columns = image.shape[1:3]
    for i in range(height):
        for j in range(width):
            y = i * (rows - 1) / (height - 1) if height > 1 else 0.0
            x = j * (columns - 1) / (width - 1) if width > 1 else 0.0
            top, left = min(int(y), max(rows - 2, 0)), min(int(x), max(columns - 2, 0))
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            down, across = y - top, x - left
            result[:, i, j] = (
                image[:, top, left] * (1 - down) * (1 - across)
                + image[:, top, right] * (1 - down) * across
                + image[:, bottom, left] * down * (1 - across)
                + image[:, bottom, right] * down * across
            )
    return result
