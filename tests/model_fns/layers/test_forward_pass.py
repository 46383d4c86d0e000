"""One detector in a TF1 graph, eagerly and in a `tf.function`; and what passes leave behind."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import graph_state, tf_estimator
from model_fns import build_task, layers
from model_fns.detection import fields
from model_fns.layers import forward_pass, weights
from protos import pipeline_pb2

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
TRAIN = tf_estimator.ModeKeys.TRAIN

HYPERPARAMS = """
activation: RELU_6
regularizer { l2_regularizer { weight: 0.01 } }
initializer { truncated_normal_initializer { stddev: 0.1 } }
batch_norm { decay: 0.9 epsilon: 0.001 scale: true }
"""
SSD = """
model { ssd {
  num_classes: 3
  image_resizer { fixed_shape_resizer { height: 64 width: 64 } }
  feature_extractor {
    type: "ssd_mobilenet_v1" depth_multiplier: 0.1 min_depth: 4 num_layers: 3
    conv_hyperparams { %(style)s }
  }
  box_coder { faster_rcnn_box_coder {} }
  matcher { argmax_matcher { matched_threshold: 0.5 force_match_for_each_row: true } }
  similarity_calculator { iou_similarity {} }
  box_predictor { convolutional_box_predictor {
    use_dropout: true dropout_keep_probability: 0.8 kernel_size: 1 conv_hyperparams { %(style)s }
  } }
  anchor_generator { ssd_anchor_generator { num_layers: 3 aspect_ratios: 1.0 } }
  post_processing { score_converter: SIGMOID }
  loss {
    localization_loss { weighted_smooth_l1 {} }
    classification_loss { weighted_sigmoid {} }
    random_example_sampler { positive_sample_fraction: 0.4 }
  }
} }
"""
SEED = 5


def ssd_task():
    text = SSD % {'style': HYPERPARAMS}
    return build_task(text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()))


def batch():
    images = np.random.RandomState(0).uniform(0.0, 255.0, [2, 64, 64, 3]).astype(np.float32)
    features = {
        fields.IMAGE: tf.constant(images),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[64, 64, 3]] * 2),
    }
    labels = {
        fields.BOXES: tf.constant([[[0.1, 0.1, 0.6, 0.7]], [[0.3, 0.2, 0.9, 0.8]]]),
        fields.CLASSES: tf.one_hot([[0], [2]], 3),
        fields.WEIGHTS: tf.ones([2, 1]),
        fields.NUM_BOXES: tf.constant([1, 1]),
    }
    return features, labels


class Graph:
    """The detector in a TF1 graph, as the Estimator builds it."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf1.set_random_seed(SEED)
            self.step = tf1.train.create_global_step()
            task, (features, labels) = ssd_task(), batch()
            losses = dict(task.losses(task.predict(features, TRAIN), features, labels))
            penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
            losses['regularization'] = tf.add_n(penalties)
            variables = tf1.trainable_variables()
            gradients = tf.gradients(tf.add_n(list(losses.values())), variables)
            self.fetches = losses, {v.op.name: g for v, g in zip(variables, gradients)}
            self.updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
            self.variables = {v.op.name: v for v in tf1.model_variables()}
            self.session = tf1.Session()
            self.session.run(tf1.global_variables_initializer())

    def __call__(self, step):
        initializer = self.step.initializer
        self.session.run(initializer, {initializer.inputs[1]: step})
        values = self.session.run(self.fetches)
        self.session.run(self.updates)
        return values, self.session.run(self.variables)


class Eager:
    """The detector on a store; compiled: in a `tf.function`."""

    def __init__(self, compiled):
        self.store = forward_pass.VariableStore(SEED)
        self.task, self.batch = ssd_task(), batch()
        self.traces = 0
        self.run = tf.function(self._run, autograph=False) if compiled else self._run

    def _run(self, step):
        self.traces += 1
        features, labels = self.batch
        with tf.GradientTape() as tape, self.store.forward_pass(step) as one_pass:
            predictions = self.task.predict(features, TRAIN)
            losses = dict(self.task.losses(predictions, features, labels))
            losses['regularization'] = tf.add_n(list(one_pass.regularization_losses.values()))
            total = tf.add_n(list(losses.values()))
        variables = {n: v for n, v in self.store.variables.items() if v.trainable}
        gradients = tape.gradient(total, variables)
        one_pass.apply_updates()
        return losses, gradients

    def __call__(self, step):
        values = self.run(tf.constant(step, tf.int64))
        values = tf.nest.map_structure(lambda value: value.numpy(), values)
        return values, {name: v.numpy() for name, v in self.store.variables.items()}


@pytest.fixture(scope='module')
def modes():
    """Losses, gradients and variables of steps 0, 0 and 7 in each mode."""
    made = {'graph': Graph(), 'eager': Eager(False), 'function': Eager(True)}
    results = {name: [mode(step) for step in (0, 0, 7)] for name, mode in made.items()}
    return made, results


@pytest.mark.parametrize('mode', ['eager', 'function'])
@pytest.mark.parametrize('call', [0, 1, 2])
def test_ssd_computes_the_same_in_every_mode(mode, call, modes):
    results = modes[1]
    (losses, gradients), variables = results['graph'][call]
    (our_losses, our_gradients), our_variables = results[mode][call]
    assert our_losses.keys() == losses.keys()
    for name, value in losses.items():
        np.testing.assert_allclose(our_losses[name], value, rtol=1e-5, err_msg=name)
    assert our_gradients.keys() == gradients.keys()
    assert our_variables.keys() == variables.keys()
    # Gradients of the first layers sum what graph rewriting has rounded in another order.
    for ours, theirs, bound in (
        (our_variables, variables, 1e-5),
        (our_gradients, gradients, 5e-5),
    ):
        for name, value in theirs.items():
            scale = max(np.abs(value).max(), 1e-3)
            np.testing.assert_allclose(ours[name], value, atol=bound * scale, rtol=0, err_msg=name)


def test_the_same_step_draws_the_same_and_another_step_does_not(modes):
    for first, again, later in modes[1].values():
        (losses, _), (same, _), (other, _) = (result[0] for result in (first, again, later))
        # Batch statistics normalize in training, so that moved ones change nothing.
        assert same['classification_loss'] == pytest.approx(losses['classification_loss'], rel=1e-5)
        assert abs(other['classification_loss'] / losses['classification_loss'] - 1.0) > 1e-3
        assert other['regularization'] == pytest.approx(losses['regularization'], rel=1e-6)


def test_nothing_is_left_in_the_collections_of_the_eager_graph(modes):
    made, _ = modes
    traces = made['function'].traces
    made['function'](8)
    assert made['function'].traces == traces
    for key in (tf1.GraphKeys.UPDATE_OPS, tf1.GraphKeys.REGULARIZATION_LOSSES):
        assert not tf1.get_collection(key)


def _layer(images, style):
    with tf1.variable_scope('net', reuse=tf1.AUTO_REUSE):
        return layers.conv2d(images, 2, 1, style, 'layer')


STYLE = layers.LayerStyle(
    is_training=True,
    activation=None,
    regularizer=layers.l2(0.5),
    batch_norm=layers.BatchNorm(decay=0.5),
)


class TestPasses:
    def test_updates_of_a_statistic_are_summed_and_then_done(self):
        store = forward_pass.VariableStore()
        inputs = tf.ones([1, 2, 2, 1])
        with store.forward_pass(0) as one_pass:
            for factor in (1.0, 3.0):
                _layer(inputs * factor, STYLE)
        weight = store.variables['net/layer/weights'].numpy().ravel()
        mean = store.variables['net/layer/BatchNorm/moving_mean']
        np.testing.assert_array_equal(mean.numpy(), [0.0, 0.0])
        one_pass.apply_updates()
        # Halfway from 0 to the means w and 3 w: the sum of both changes.
        np.testing.assert_allclose(mean.numpy(), 0.5 * weight + 1.5 * weight, rtol=1e-6)
        with store.forward_pass(1) as one_pass:
            _layer(inputs, STYLE)
        assert len(one_pass.updates) == 2

    def test_regularization_is_that_of_the_current_weights_once_a_pass(self):
        store = forward_pass.VariableStore()
        found = []
        for value in (2.0, 4.0):
            with store.forward_pass(0) as one_pass:
                for _ in range(2):
                    _layer(tf.ones([1, 2, 2, 1]), STYLE)
                store.variables['net/layer/weights'].assign(tf.fill([1, 1, 1, 2], value))
            with store.forward_pass(0) as one_pass:
                _layer(tf.ones([1, 2, 2, 1]), STYLE)
            found.append([loss.numpy() for loss in one_pass.regularization_losses.values()])
        # Two weights: 0.5 * 2 * 4 / 2, then 0.5 * 2 * 16 / 2.
        assert found == [[2.0], [8.0]]

    def test_updates_in_place_are_done_at_once(self):
        store = forward_pass.VariableStore()
        style = STYLE.with_batch_norm(inplace_update=True)
        with store.forward_pass(0) as one_pass:
            _layer(tf.ones([1, 2, 2, 1]), style)
        weight = store.variables['net/layer/weights'].numpy().ravel()
        mean = store.variables['net/layer/BatchNorm/moving_mean'].numpy()
        np.testing.assert_allclose(mean, 0.5 * weight, rtol=1e-6)
        assert not one_pass.updates

    def test_passes_nest_and_end(self):
        outer, inner = forward_pass.VariableStore(1), forward_pass.VariableStore(2)
        assert forward_pass.current() is None
        with outer.forward_pass(0):
            with inner.forward_pass(0):
                assert forward_pass.current().store is inner
            assert forward_pass.current().store is outer
        assert forward_pass.current() is None

    def test_a_variable_of_another_shape_is_refused(self):
        with forward_pass.VariableStore().forward_pass(0):
            weights.variable('a', [2], weights.ZEROS)
            with pytest.raises(ValueError, match=r'a has the shape \(2,\); expected \[3\]'):
                weights.variable('a', [3], weights.ZEROS)

    def test_variables_have_their_names_and_kinds(self):
        store = forward_pass.VariableStore()
        with store.forward_pass(0), tf1.variable_scope('a'), tf1.name_scope('other'):
            weights.variable('b', [1], weights.ONES)
            weights.variable('c', [1], weights.ONES, trainable=False)
        kinds = {name: (v.name, v.trainable) for name, v in store.variables.items()}
        assert kinds == {'a/b': ('a/b:0', True), 'a/c': ('a/c:0', False)}


def test_first_values_are_those_of_a_graph_with_the_same_seed():
    store = forward_pass.VariableStore(SEED)
    with store.forward_pass(0), tf1.variable_scope('net'):
        eager = weights.variable('w', [3, 4], weights.XAVIER).numpy()
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(SEED)
        with tf1.variable_scope('net'):
            variable = weights.variable('w', [3, 4], weights.XAVIER)
        session.run(tf1.global_variables_initializer())
        np.testing.assert_array_equal(eager, session.run(variable))


def test_eager_layers_outside_of_a_pass_are_refused():
    with pytest.raises(ValueError, match='outside of a forward pass; expected'):
        weights.variable('a', [2], weights.ZEROS)
    with pytest.raises(ValueError, match='outside of a forward pass; expected'):
        layers.dropout(tf.ones([2]), 0.5, True, 'drop')


class TestDraws:
    def test_draws_of_one_name_differ_in_a_pass_and_repeat_in_the_next(self):
        store = forward_pass.VariableStore(SEED)
        drawn = []
        for _ in range(2):
            with store.forward_pass(3), tf1.variable_scope('net'):
                drawn.append([forward_pass.step_seed('drop').numpy().tolist() for _ in range(2)])
        assert drawn[0] == drawn[1]
        assert drawn[0][0] != drawn[0][1]
        assert [seed[1] for seed in drawn[0]] == [3, 3]

    def test_they_are_those_of_a_graph(self):
        def drawn():
            with tf1.variable_scope('net'):
                return [forward_pass.step_seed('drop') for _ in range(2)]

        with forward_pass.VariableStore(SEED).forward_pass(0):
            eager = [seed.numpy().tolist() for seed in drawn()]
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.set_random_seed(SEED)
            seeds = drawn()
            session.run(tf1.global_variables_initializer())
            assert [seed.tolist() for seed in session.run(seeds)] == eager

    def test_the_step_of_a_graph_is_its_global_step(self):
        with tf.Graph().as_default(), tf1.Session() as session:
            assert session.run(forward_pass.global_step()) == 0
            step = tf1.train.create_global_step()
            session.run(step.initializer, {step.initializer.inputs[1]: 7})
            assert session.run(forward_pass.step_seed('drop'))[1] == 7

    def test_replicas_of_a_strategy_draw_for_themselves(self):
        def seed():
            with forward_pass.VariableStore(SEED).forward_pass(3):
                return forward_pass.step_seed('drop')

        with tf.Graph().as_default():
            strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
            with strategy.scope():
                found = strategy.extended.call_for_each_replica(seed)
            # The first replica draws what a single one does.
            seeds = [seed(), *strategy.experimental_local_results(found)]
            with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
                alone, first, second = session.run(seeds)
        assert first.tolist() == alone.tolist() and second[1] == alone[1] == 3
        assert second[0] != alone[0]

    def test_workers_of_parameter_servers_drop_other_values(self):
        def dropped(worker):
            with tf.Graph().as_default(), tf1.Session() as session:
                tf1.set_random_seed(SEED)
                if worker is not None:
                    graph_state.remember_worker(worker)
                return session.run(layers.dropout(tf.ones([64]), 0.5, True, 'drop')).tolist()

        alone, chief, first, second = map(dropped, (None, 0, 1, 2))
        assert alone == chief and len({tuple(one) for one in (chief, first, second)}) == 3
