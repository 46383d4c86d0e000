"""Whole networks against published variable lists and recorded values."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.optimization import gradients
from model_fns.segmentation import losses
from model_fns.segmentation.networks import image_pyramid, network
from tests import rounding
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.segmentation import tiny_networks

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

SPECS = shared_folder() / 'spec' / 'variables' / 'segmentation'
CASES = shared_folder() / 'golden' / 'segmentation'

LISTED = sorted(path.stem for path in SPECS.glob('*.json'))
RECORDED = sorted(path.stem for path in CASES.glob('*.npz'))
# Parts of mobilenet_v2_aspp_decoder, and of xception_65.
SMALLER = ('mobilenet_v2', 'mobilenet_v2_os8', 'xception_41')


def test_something_was_recorded(shared):
    assert len(LISTED) >= 6 and len(RECORDED) >= 2


def _spec(name):
    return json.loads((SPECS / f'{name}.json').read_text())


def _network(spec, **changes):
    config = tiny_networks.recorded_config(spec)
    for field, value in changes.items():
        setattr(config, field, value)
    return network.SegmentationNetwork.from_config(config, spec['num_classes'])


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=pytest.mark.published if name in SMALLER else ()) for name in LISTED],
)
def test_variables_losses_and_updates_are_the_published_ones(name):
    spec = _spec(name)
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [spec['batch'], *spec['input'], 3])
        logits = _network(spec).logits(images, True)['semantic'][image_pyramid.MERGED_LOGITS]
        variables = {v.op.name: (v.shape.as_list(), v.trainable) for v in tf1.global_variables()}
        penalties = tf1.losses.get_regularization_losses()
        updates = graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
        trained = tf1.trainable_variables()
    published = {key: (shape, is_trained) for key, shape, is_trained in spec['variables']}
    assert set(variables) == set(published), sorted(set(variables) ^ set(published))
    assert variables == published
    assert logits.shape.as_list() == spec['logits_shape']
    assert len(penalties) == spec['n_regularization_losses']
    assert len(updates) == spec['n_update_ops']
    for contain_logits_only, key in (
        (False, 'gradient_multipliers_last_layer_10'),
        (True, 'gradient_multipliers_last_layer_10_logits_only'),
    ):
        scopes = _network(
            spec, last_layers_contain_logits_only=contain_logits_only
        ).last_layer_scopes()
        factors = gradients.multipliers(
            trained,
            bias_multiplier=2.0,
            last_layer_scopes=scopes,
            last_layer_multiplier=10.0,
        )
        # The published map also has the moving statistics, which have no gradient.
        names = {v.op.name for v in trained}
        assert factors == {k: f for k, f in spec[key].items() if k in names}


@pytest.fixture(scope='module', params=RECORDED)
def evaluated(request):
    """What a recorded model computes in inference, and the record."""
    spec = _spec(request.param)
    with np.load(CASES / f'{request.param}.npz') as arrays:
        case = {key: arrays[key] for key in arrays.files}
    model = _network(spec)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf.constant(case['input_image_uint8'], tf.float32)
        # The serving side: neither the batch nor the size is known to the graph.
        any_images = tf1.placeholder(tf.float32, [None, None, None, 3])
        any_logits = model.logits(any_images, False)
        logits = model.logits(images, False)
        fetches = {
            'infer': logits['semantic'][image_pyramid.MERGED_LOGITS],
            'train_no_bn_tuning': _network(spec, fine_tune_batch_norm=False).logits(images, True)[
                'semantic'
            ][image_pyramid.MERGED_LOGITS],
            'preprocessed': model.backbone.normalize(images),
            'outputs': model.outputs(logits, tuple(images.shape[1:3])),
            'any_logits': any_logits['semantic'][image_pyramid.MERGED_LOGITS],
            'any_outputs': model.outputs(any_logits, (161, 129)),
        }
        if 'infer/multi_scale_0.5_1.0_flip_predictions' in case:
            fetches['multi_scale'] = model.infer(images, scales=(0.5, 1.0), flip=True)
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        recorded_backbones.set_weights(session)
        values = session.run(fetches, {any_images: case['input_image_uint8_161x129']})
    return values, case, len(updates)


@pytest.fixture(scope='module', params=RECORDED)
def trained(request):
    """What a recorded model computes in training, and the record."""
    with np.load(CASES / f'{request.param}.npz') as arrays:
        case = {key: arrays[key] for key in arrays.files}
    prefix = 'train/bn_after_1_update/'
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf.constant(case['input_image_uint8'], tf.float32)
        logits = _network(_spec(request.param)).logits(images, True)['semantic']
        labels = tf.constant(case['labels'][..., 0], tf.int32)
        loss = losses.semantic_loss(
            logits, labels, 255, (), tiny_networks.config('').loss, global_step=None
        )
        regularization = tf1.losses.get_regularization_loss()
        total = tf.add_n(list(loss.values())) + regularization
        by_name = {v.op.name: v for v in tf1.global_variables()}
        weights = [by_name[str(name)] for name in case['train/grad_norm_names']]
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        recorded_backbones.set_weights(session)
        values, _ = session.run(
            [
                {
                    'logits': logits[image_pyramid.MERGED_LOGITS],
                    'regularization': regularization,
                    'total': total,
                    'norms': tf.stack([tf.norm(g) for g in tf.gradients(total, weights)]),
                },
                updates,
            ]
        )
        moved = {key: session.run(by_name[key[len(prefix) :]]) for key in case if prefix in key}
    return values, moved, case, request.param


def _assert_sampled(case, key, value):
    assert value.shape == tuple(case[f'{key}__shape'])
    sampled = value.ravel()[:: int(case[f'{key}__stride'])]
    recorded_backbones.assert_close(sampled, case[f'{key}__sub'], 1e-4, key)


def test_inference_is_the_recorded_one(evaluated):
    values, case, _ = evaluated
    _assert_sampled(case, 'infer/preprocessed', values['preprocessed'])
    recorded_backbones.assert_close(values['infer'], case['infer/logits'], 1e-4, 'logits')
    _assert_sampled(case, 'infer/probabilities', values['outputs']['SemanticProbabilities'])
    np.testing.assert_array_equal(
        values['outputs']['SemanticPredictions'], case['infer/predictions']
    )


def test_inference_of_unknown_size_is_the_recorded_one(evaluated):
    values, case, _ = evaluated
    recorded_backbones.assert_close(
        values['any_logits'], case['infer_161x129/logits'], 1e-4, 'logits'
    )
    outputs = values['any_outputs']
    _assert_sampled(case, 'infer_161x129/probabilities', outputs['SemanticProbabilities'])
    np.testing.assert_array_equal(outputs['SemanticPredictions'], case['infer_161x129/predictions'])


def test_inference_at_several_scales_is_the_recorded_one(evaluated):
    values, case, _ = evaluated
    if 'multi_scale' not in values:
        pytest.skip('not recorded for this model')
    outputs, key = values['multi_scale'], 'infer/multi_scale_0.5_1.0_flip_'
    _assert_sampled(case, f'{key}probabilities', outputs['SemanticProbabilities'])
    np.testing.assert_array_equal(outputs['SemanticPredictions'], case[f'{key}predictions'])


def test_training_with_frozen_batch_norm_is_the_recorded_one(evaluated):
    values, case, num_updates = evaluated
    expected = case['train_no_bn_tuning/logits']
    recorded_backbones.assert_close(values['train_no_bn_tuning'], expected, 1e-4, 'logits')
    assert num_updates == case['train_no_bn_tuning/n_update_ops'] == 0


def test_training_is_the_recorded_one(trained):
    values, moved, case, name = trained
    rounding.check_close(f'{name}: training logits', values['logits'], case['train/logits'])
    recorded_backbones.assert_close(
        values['regularization'], case['train/regularization_loss'], 1e-5, 'regularization'
    )
    rounding.check_close(f'{name}: total loss', values['total'], case['train/total_loss'])
    assert moved
    for key, value in moved.items():
        recorded_backbones.assert_close(value, case[key], 1e-4, key)


def test_gradients_are_the_recorded_ones(trained):
    values, _, case, name = trained
    rounding.check_gradient_norms(
        name, values['norms'], case['train/grad_norms'], case['train/grad_norm_names']
    )
