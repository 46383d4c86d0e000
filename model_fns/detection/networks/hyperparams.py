"""Conversion of a config's `Hyperparams` to the style of a network's layers."""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection.config_rules import kinds
from model_fns.layers import weights
from protos import hyperparams_pb2

_Hyperparams = hyperparams_pb2.Hyperparams

_ACTIVATIONS = {
    _Hyperparams.NONE: None,
    _Hyperparams.RELU: tf.nn.relu,
    _Hyperparams.RELU_6: tf.nn.relu6,
    _Hyperparams.SWISH: tf.nn.swish,
}
_FANS = {
    hyperparams_pb2.VarianceScalingInitializer.FAN_IN: 'in',
    hyperparams_pb2.VarianceScalingInitializer.FAN_OUT: 'out',
    hyperparams_pb2.VarianceScalingInitializer.FAN_AVG: 'avg',
}


def build_layer_style(
    section: Section[hyperparams_pb2.Hyperparams],
    is_training: bool,
    inplace_batch_norm_update: bool = False,
) -> layers.LayerStyle:
    """Build the style that a config describes.

    Args:
        section: initializer, regularizer, normalization, activation.
        is_training: True: batch norm uses the batch's statistics (if `batch_norm.train` is set).
        inplace_batch_norm_update: True: moving statistics are updated when the layer is computed.

    Raises:
        errors.ConfigError: it has no initializer, an empty regularizer, or a field that is not
            honored.
    """
    config = section.message
    kinds.refuse(section)
    return layers.LayerStyle(
        is_training=is_training,
        initializer=_initializer(section),
        regularizer=_regularizer(section),
        # The published networks regularize depthwise weights whatever `regularize_depthwise` says:
        # their regularization losses include them, although the field is false in each config.
        regularize_depthwise=True,
        activation=activation(config),
        batch_norm=_batch_norm(config, inplace_batch_norm_update),
        # EfficientDet's published configs set it: biases beside the betas of batch norm are in
        # checkpoints.
        force_bias=config.force_use_bias,
    )


def activation(
    config: hyperparams_pb2.Hyperparams,
) -> Optional[Callable[[tf.Tensor], tf.Tensor]]:
    """Return the activation after a layer; None for no activation."""
    return _ACTIVATIONS[config.activation]


def _regularizer(section: Section[hyperparams_pb2.Hyperparams]) -> Optional[layers.Regularizer]:
    config = section.message
    kind = config.regularizer.WhichOneof('regularizer_oneof')
    if kind == 'l1_regularizer':
        weight = config.regularizer.l1_regularizer.weight
        # A weight of 0 would add an op for each layer to the losses.
        return layers.Regularizer('l1', weight) if weight else None
    if kind == 'l2_regularizer':
        return layers.l2(config.regularizer.l2_regularizer.weight)
    if not config.HasField('regularizer'):
        return None
    raise section.error('regularizer', 'empty; expected l1_regularizer or l2_regularizer.')


def _initializer(section: Section[hyperparams_pb2.Hyperparams]) -> layers.Initializer:
    config = section.message
    kind = config.initializer.WhichOneof('initializer_oneof')
    if kind == 'truncated_normal_initializer':
        normal = config.initializer.truncated_normal_initializer
        return layers.truncated_normal(normal.stddev, normal.mean)
    if kind == 'random_normal_initializer':
        normal = config.initializer.random_normal_initializer
        return layers.Initializer('normal', normal.stddev, normal.mean, fan=None)
    if kind == 'variance_scaling_initializer':
        scaling = config.initializer.variance_scaling_initializer
        shape = 'uniform' if scaling.uniform else 'truncated_normal'
        return layers.Initializer(shape, scaling.factor, fan=_FANS[scaling.mode])
    if kind == 'keras_initializer_by_name':
        return _named_initializer(section)
    raise section.error(
        'initializer',
        'empty; expected truncated_normal_initializer, random_normal_initializer, '
        'variance_scaling_initializer or keras_initializer_by_name.',
    )


def _named_initializer(section: Section[hyperparams_pb2.Hyperparams]) -> layers.Initializer:
    # Glorot and Bengio 2010, He et al. 2015, LeCun et al. 1998. The half width of a uniform
    # distribution is sqrt(3 f / n). With f = 1 and the mean of both fans this is Glorot's
    # sqrt(6 / (in + out)).
    known = {
        'glorot_uniform': layers.Initializer('uniform', 1.0, fan='avg'),
        'glorot_normal': weights.scaled_normal(1.0, 'avg'),
        'he_uniform': layers.Initializer('uniform', 2.0, fan='in'),
        'he_normal': layers.HE_NORMAL,
        'lecun_uniform': layers.Initializer('uniform', 1.0, fan='in'),
        'lecun_normal': weights.scaled_normal(1.0, 'in'),
        'zeros': layers.ZEROS,
        'ones': layers.ONES,
    }
    name = section.message.initializer.keras_initializer_by_name
    if name not in known:
        raise section.error(
            'initializer.keras_initializer_by_name',
            f'unknown initializer {name!r}{errors.did_you_mean(name, known)}',
        )
    return known[name]


def _batch_norm(
    config: hyperparams_pb2.Hyperparams, inplace_update: bool
) -> Optional[layers.BatchNorm]:
    kind = config.WhichOneof('normalizer_oneof')
    if kind not in ('batch_norm', 'sync_batch_norm'):
        return None
    norm = getattr(config, kind)
    return layers.BatchNorm(
        decay=norm.decay,
        epsilon=norm.epsilon,
        center=norm.center,
        scale=norm.scale,
        train=norm.train,
        inplace_update=inplace_update,
        synchronized=kind == 'sync_batch_norm',
    )
