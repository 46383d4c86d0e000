from __future__ import annotations

import math

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection.networks import hyperparams
from model_fns.layers.weights import Initializer, Regularizer
from protos import hyperparams_pb2

WHERE = 'model.ssd.x.conv_hyperparams'
INITIALIZER = 'initializer { truncated_normal_initializer { stddev: 0.5 } }'


def build(text, is_training=True, **arguments):
    config = text_format.Parse(text, hyperparams_pb2.Hyperparams())
    return hyperparams.build_layer_style(Section(config, WHERE), is_training, **arguments)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('truncated_normal_initializer {}', Initializer('truncated_normal', 1.0, 0.0, None)),
        (
            'truncated_normal_initializer { mean: 2 stddev: 0.5 }',
            Initializer('truncated_normal', 0.5, 2.0, None),
        ),
        ('random_normal_initializer {}', Initializer('normal', 1.0, 0.0, None)),
        (
            'random_normal_initializer { mean: -1 stddev: 0.25 }',
            Initializer('normal', 0.25, -1.0, None),
        ),
        ('variance_scaling_initializer {}', Initializer('truncated_normal', 2.0, fan='in')),
        (
            'variance_scaling_initializer { factor: 1 uniform: true mode: FAN_AVG }',
            Initializer('uniform', 1.0, fan='avg'),
        ),
        (
            'variance_scaling_initializer { factor: 0.5 mode: FAN_OUT }',
            Initializer('truncated_normal', 0.5, fan='out'),
        ),
    ],
)
def test_initializers(text, expected):
    assert build(f'initializer {{ {text} }}').initializer == expected


@pytest.mark.parametrize(
    'name, deviation, kind',
    [
        # A 3x3 kernel from 20 to 60 channels: 180 inputs, 540 outputs, 360 on average.
        ('glorot_uniform', 1 / math.sqrt(360), 'uniform'),
        ('glorot_normal', 1 / math.sqrt(360), 'truncated_normal'),
        ('he_uniform', math.sqrt(2 / 180), 'uniform'),
        ('he_normal', math.sqrt(2 / 180), 'truncated_normal'),
        ('lecun_uniform', 1 / math.sqrt(180), 'uniform'),
        ('lecun_normal', 1 / math.sqrt(180), 'truncated_normal'),
        ('zeros', 0.0, 'constant'),
        ('ones', 0.0, 'constant'),
    ],
)
def test_initializers_by_name(name, deviation, kind):
    initializer = build(f"initializer {{ keras_initializer_by_name: '{name}' }}").initializer
    assert initializer.kind == kind
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        value = session.run(initializer([3, 3, 20, 60], (1, 2)))
    assert value.std() == pytest.approx(deviation, rel=0.02)
    assert value.mean() == pytest.approx(float(name == 'ones'), abs=0.01)


@pytest.mark.parametrize('name, near', [('he_norma', "did you mean 'he_normal'"), ('x', 'Known: ')])
def test_an_unknown_initializer(name, near):
    with pytest.raises(errors.ConfigError, match=rf'keras_initializer_by_name: unknown.*{near}'):
        build(f"initializer {{ keras_initializer_by_name: '{name}' }}")


@pytest.mark.parametrize('text', ['', 'initializer {}'])
def test_no_initializer(text):
    with pytest.raises(errors.ConfigError, match=rf'{WHERE}\.initializer: empty; expected trunc'):
        build(text)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('', None),
        ('regularizer { l2_regularizer { weight: 0.25 } }', Regularizer('l2', 0.25)),
        ('regularizer { l1_regularizer { weight: 0.5 } }', Regularizer('l1', 0.5)),
        ('regularizer { l2_regularizer {} }', Regularizer('l2', 1.0)),
        ('regularizer { l2_regularizer { weight: 0 } }', None),
    ],
)
def test_penalties(text, expected):
    style = build(f'{INITIALIZER} {text}')
    assert style.regularizer == expected
    assert style.regularize_depthwise


def test_an_empty_regularizer():
    with pytest.raises(errors.ConfigError, match=rf'{WHERE}\.regularizer: empty; expected l1'):
        build(f'{INITIALIZER} regularizer {{}}')


@pytest.mark.parametrize(
    'text, at_minus_one, at_ten',
    [
        ('', 0.0, 10.0),
        ('activation: RELU', 0.0, 10.0),
        ('activation: RELU_6', 0.0, 6.0),
        ('activation: SWISH', -1 / (1 + math.e), 10 / (1 + math.exp(-10))),
    ],
)
def test_activations(text, at_minus_one, at_ten):
    activation = build(f'{INITIALIZER} {text}').activation
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = session.run(activation(tf.constant([-1.0, 10.0])))
    assert list(values) == pytest.approx([at_minus_one, at_ten])


def test_no_activation():
    assert build(f'{INITIALIZER} activation: NONE').activation is None


def test_no_normalization_means_biases():
    style = build(INITIALIZER)
    assert style.batch_norm is None and not style.force_bias
    assert build(f'{INITIALIZER} force_use_bias: true').force_bias


@pytest.mark.parametrize('kind', ['batch_norm', 'sync_batch_norm'])
@pytest.mark.parametrize('inplace', [False, True])
def test_batch_norm(kind, inplace):
    style = build(f'{INITIALIZER} {kind} {{}}', inplace_batch_norm_update=inplace)
    assert style.batch_norm == layers.BatchNorm(
        decay=pytest.approx(0.999),
        epsilon=pytest.approx(0.001),
        center=True,
        scale=False,
        train=True,
        inplace_update=inplace,
        synchronized=kind == 'sync_batch_norm',
    )
    text = f'{kind} {{ decay: 0.5 center: false scale: true epsilon: 0.25 train: false }}'
    assert build(f'{INITIALIZER} {text}').batch_norm == layers.BatchNorm(
        decay=0.5,
        epsilon=0.25,
        center=False,
        scale=True,
        train=False,
        synchronized=kind == 'sync_batch_norm',
    )
