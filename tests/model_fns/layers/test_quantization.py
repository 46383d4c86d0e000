"""Against what the published system did: recorded training steps, and the names of ranges."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import graph_state
from estimator_lib.optimization import moving_averages
from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection import detector
from model_fns.layers import forward_pass, quantization
from tests import initial_values
from tests.conftest import shared_folder

tf1 = tf.compat.v1

RECORDED = shared_folder() / 'golden' / 'quantization'
CASES = {
    'delay0': quantization.Quantization(),
    'delay2': quantization.Quantization(delay=2),
    'freeze2': quantization.Quantization(freeze_batch_norm_delay=2),
}
# What the published system counted steps with; here the global step does.
COUNTER = 'fake_quantization_step'
IMAGES = np.stack(
    [np.sin(0.7 * np.arange(192) + index + 0.1).reshape([8, 8, 3]) for index in range(4)]
).astype(np.float32)
TARGETS = (0.5 * np.sin(0.7 * np.arange(20) + 9).reshape([4, 5])).astype(np.float32)


@functools.cache
def recorded(name):
    return json.loads((RECORDED / f'{name}.json').read_text())


def network(images, settings, is_training=True):
    """The network that the recorded steps are of."""
    style = layers.LayerStyle(
        is_training=is_training,
        batch_norm=layers.BatchNorm(decay=0.9, epsilon=1e-3, scale=True),
        activation=tf.nn.relu6,
        quantization=settings,
    )
    first = layers.conv2d(images, 4, 3, style, 'a', stride=2)
    second = layers.depthwise_conv2d(first, 3, style, 'b')
    third = layers.conv2d(second, 4, 1, style.but(activation=None), 'c')
    pooled = layers.global_mean(layers.add(third, second, style))
    return tf.squeeze(layers.conv2d(pooled, 5, 1, style.linear(), 'logits'), [1, 2])


def loss_of(outputs):
    return tf.reduce_mean(tf.square(outputs - TARGETS))


class Trained:
    """The recorded network's training graph in a session of its own."""

    def __init__(self, settings, initial):
        with tf.Graph().as_default() as graph:
            step = tf1.train.create_global_step()
            self.loss = loss_of(network(tf.constant(IMAGES), settings))
            with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
                self.train = tf1.train.GradientDescentOptimizer(0.1).minimize(self.loss, step)
            self.variables = {one.op.name: one for one in tf1.global_variables()}
            self.session = tf1.Session(graph=graph)
            self.session.run(tf1.global_variables_initializer())
            self.session.run(
                [
                    self.variables[name].assign(np.resize(np.float32(value), shape))
                    for name, value in initial.items()
                    for shape in [self.variables[name].shape]
                ]
            )
            self.saver = tf1.train.Saver()

    def save(self, path):
        with self.session.graph.as_default():
            self.saver.save(self.session, path, write_meta_graph=False)

    def restore(self, path):
        with self.session.graph.as_default():
            self.saver.restore(self.session, path)

    def step(self):
        return self.session.run([self.loss, self.train])[0]

    def values(self):
        return self.session.run(self.variables)


@pytest.mark.parametrize('name', CASES)
def test_four_steps_are_the_recorded_ones(shared, name):
    case = recorded('recorded_case')['cases'][name]
    trained = Trained(CASES[name], case['initial'])
    for step in case['steps']:
        assert trained.step() == pytest.approx(step['loss'], abs=1e-6)
        values = trained.values()
        expected = step['variables']
        assert values.keys() - {'global_step'} == expected.keys() - {COUNTER}
        for key in expected.keys() & values.keys():
            np.testing.assert_allclose(values[key].ravel(), expected[key], atol=1e-5, err_msg=key)
    with tf.Graph().as_default(), tf1.Session() as session:
        # There is no global step in this graph: what it computes does not depend on one.
        outputs = network(tf.constant(IMAGES), CASES[name], is_training=False)
        assert tf1.train.get_global_step() is None
        for one in tf1.global_variables():
            session.run(one.initializer)
            session.run(one.assign(values[one.op.name]))
        loss, found = session.run([loss_of(outputs), outputs])
    assert loss == pytest.approx(case['eval']['loss'], abs=1e-5)
    np.testing.assert_allclose(found, case['eval']['y'], atol=1e-4)


def test_a_pass_without_a_graph_computes_the_same(shared):
    case = recorded('recorded_case')['cases']['delay2']
    store = forward_pass.VariableStore()

    def losses(step):
        with store.forward_pass(step) as one_pass, tf.GradientTape() as tape:
            loss = loss_of(network(tf.constant(IMAGES), CASES['delay2']))
            trained = [one for one in store.variables.values() if one.trainable]
        return loss, tape.gradient(loss, trained), trained, one_pass

    losses(0)
    for name, variable in store.variables.items():
        value = case['initial'].get(name, float(name.endswith('moving_variance')))
        variable.assign(np.resize(np.float32(value), variable.shape))
    for step, expected in enumerate(case['steps'][:3]):
        loss, gradients, trained, one_pass = losses(step)
        one_pass.apply_updates()
        for gradient, variable in zip(gradients, trained):
            variable.assign_sub(0.1 * gradient)
        assert float(loss) == pytest.approx(expected['loss'], abs=1e-6)
    for name, value in expected['variables'].items():
        if name != COUNTER:
            found = store.variables[name].numpy().ravel()
            np.testing.assert_allclose(found, value, atol=1e-5, err_msg=name)


def test_a_run_that_stops_before_the_delay_is_over_goes_on_as_though_it_had_not(shared, tmp_path):
    initial = recorded('recorded_case')['cases']['delay2']['initial']
    settings = quantization.Quantization(delay=4, freeze_batch_norm_delay=5)
    straight = Trained(settings, initial)
    for _ in range(2):
        straight.step()
    path = str(tmp_path / 'model')
    straight.save(path)
    losses = [straight.step() for _ in range(4)]
    second = Trained(settings, {})
    second.restore(path)
    assert [second.step() for _ in range(4)] == losses
    expected, found = straight.values(), second.values()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_symmetric_ranges():
    settings = quantization.Quantization(symmetric=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        values = tf.constant([-1.0, 0.5, 3.0])
        rounded = [
            quantization.quantize_weights(values, settings, True),
            quantization.quantize_outputs(values, settings, True, 'x/act_quant'),
        ]
        session.run(tf1.global_variables_initializer())
        weights, outputs = session.run(rounded)
        held = session.run({one.op.name: one for one in tf1.global_variables()})
    assert (held['weights_quant/min'], held['weights_quant/max']) == (-3.0, 3.0)
    # 3 is 127 steps above 0 of 256 values, of which 128 are below: the lower end is the farther.
    assert held['x/act_quant/min'] == pytest.approx(-3.0 * 256 / 254, rel=1e-4)
    assert held['x/act_quant/max'] == pytest.approx(3.0, rel=1e-4)
    np.testing.assert_allclose(weights, [-42 * 3 / 127, 21 * 3 / 127, 3.0], rtol=1e-5)
    np.testing.assert_allclose(outputs, [-42 * 3 / 127, 21 * 3 / 127, 3.0], rtol=1e-4)


def test_a_step_that_is_not_finite_leaves_the_averages():
    settings = quantization.Quantization()
    with tf.Graph().as_default(), tf1.Session() as session:
        fed = tf1.placeholder(tf.float32, [2])
        rounded = quantization.quantize_outputs(fed, settings, True, 'x/act_quant')
        session.run(tf1.global_variables_initializer())
        for values in ([-1.0, 3.0], [np.nan, np.nan], [0.0, np.inf], [-1.0, 3.0]):
            session.run(rounded, {fed: values})
        held = session.run({one.op.name: one for one in tf1.global_variables()})
    assert held['x/act_quant/min'] == pytest.approx(-2 / 3, rel=1e-3)  # of -1, 0 and -1
    assert held['x/act_quant/max'] == pytest.approx(3.0, rel=1e-4)
    assert held['x/act_quant/x/act_quant/min/local_step'] == 3.0
    assert held['x/act_quant/x/act_quant/max/local_step'] == 2.0


def test_ranges_are_saved_with_the_model_and_not_averaged():
    with tf.Graph().as_default() as graph:
        tf1.train.create_global_step()
        network(tf.constant(IMAGES), quantization.Quantization())
        ranges = graph_state.companions_by_kind(graph)[quantization.RANGES]
        assert len(ranges) == 5 * 6 + 4 * 2
        assert not ranges & {one.op.name for one in tf1.model_variables()}
        assert not ranges & {one.op.name for one in tf1.trainable_variables()}
        assert ranges < {one.op.name for one in tf1.global_variables()}
        averages = moving_averages.MovingAverages(0.9, of_model=True)
        averages.update(tf1.trainable_variables(), tf1.train.get_global_step())
        averaged = [one.op.name for one in tf1.global_variables() if 'Exponential' in one.op.name]
        assert averaged and not [name for name in averaged if 'quant' in name]


@initial_values.left_out()
def ranges_of(build):
    with tf.Graph().as_default() as graph:
        build()
        return graph_state.companions_by_kind(graph)[quantization.RANGES]


def published(rows):
    return {name for name, *_ in rows if name != COUNTER}


CLASSIFIERS = [
    'inception_v3',
    pytest.param('mobilenet_v1', marks=pytest.mark.published),
    'mobilenet_v1_025',
    pytest.param('mobilenet_v2', marks=pytest.mark.published),
    'mobilenet_v3_small',
    'resnet_v1_50',
]


@pytest.mark.parametrize('name', CLASSIFIERS)
def test_the_ranges_of_a_classifier_have_the_published_names(shared, name):
    described = registry.get_network(name)
    options = registry.Options(quantization=quantization.Quantization())
    size = 299 if name == 'inception_v3' else 64

    def build(is_training=False):
        style = options.apply_arithmetic(described.style(is_training, options))
        return described.build(tf.zeros([1, size, size, 3]), 3, style, options)

    expected = recorded(f'slim_{name}')
    assert ranges_of(build) == published(expected['eval']['variables'])
    if name == 'mobilenet_v1_025':
        found = ranges_of(functools.partial(build, is_training=True))
        averages = {one for one in found if one.endswith(('/biased', '/local_step'))}
        assert found - averages == published(expected['train']['variables'])
        # As published: the scope is in them twice.
        outputs = {one for one in found - averages if '/act_quant/' in one}
        assert averages == {
            f'{scope}/{scope}/{end}/{part}'
            for scope, end in (one.rsplit('/', 1) for one in outputs)
            for part in ('biased', 'local_step')
        }


@pytest.mark.parametrize(
    'name',
    [
        pytest.param('ssd_mobilenet_v1_quantized_300x300_coco14_sync', marks=pytest.mark.published),
        'ssd_mobilenet_v2_quantized_300x300_coco',
        'ssd_mobilenet_v2_fpnlite_quantized_shared_box_predictor_256x256_depthmultiplier_75_coco14'
        '_sync',
    ],
)
def test_the_ranges_of_a_detector_have_the_published_names(shared, name):
    path = shared_folder() / 'configs' / 'tf1' / f'{name}.config'
    config = config_lib.parse_pipeline_config(path.read_text(), name)
    model = detector.build_detector(config.model, quantization.from_config(config.graph_rewriter))
    size = model.resizer.static_size
    found = ranges_of(lambda: model.predict(tf.zeros([1, *size, 3]), None, None, False))
    assert found == published(recorded(name)['variables'])


def test_a_config_says_how():
    text = 'graph_rewriter { quantization { delay: 7 symmetric: true freeze_bn_delay: 9 } }'
    config = config_lib.parse_pipeline_config(text, 'text')
    assert quantization.from_config(config.graph_rewriter) == quantization.Quantization(7, 9, True)
    config = config_lib.parse_pipeline_config('graph_rewriter { quantization {} }', 'text')
    assert quantization.from_config(config.graph_rewriter) == quantization.Quantization(500000)
    config.ClearField('graph_rewriter')
    assert quantization.from_config(config.graph_rewriter) is None
