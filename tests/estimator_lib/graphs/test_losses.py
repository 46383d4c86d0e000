"""The losses of a task, the regularization loss and their sum."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import distribution, errors
from estimator_lib.graphs import losses
from estimator_lib.task import IMAGE
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line, batch

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def test_regularization_is_left_out_when_asked(config):
    def names(add):
        config.train_config.add_regularization_loss = add
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            features, labels = batch()
            predictions = Line().predict(features, 'train')
            return list(losses.compute_losses(Line(), config, predictions, features, labels))

    assert names(True) == ['squared', 'regularization_loss', 'total_loss']
    assert names(False) == ['squared', 'total_loss']


def test_losses_that_an_evaluation_reports():
    assert losses.loss_metric_names(Line()) == [
        'loss',
        'Loss/squared',
        'Loss/regularization_loss',
        'Loss/total_loss',
    ]


class Plain(Line):
    """Uses TensorFlow's own variables, and adds them to no collection."""

    def predict(self, features, mode, labels=None):
        slope = tf1.get_variable('slope', initializer=1.0, regularizer=lambda one: 0.5 * one)
        return {'y': slope * tf.reshape(features[IMAGE], [-1])}


@pytest.mark.parametrize('clones', [1, 2])
def test_variables_and_regularization_are_found(config, clones):
    plan = distribution.Plan(distribution.Mode.CLONES, devices=('/device:CPU:0',) * clones)
    with tf.Graph().as_default(), tf1.Session() as session:
        found, metrics, _, _ = losses.compute_training_losses(Plain(), config, plan, *batch())
        model = tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        session.run(tf1.global_variables_initializer())
        values = session.run(found)
    assert [one.op.name for one in model] == ['slope']
    assert list(metrics) == ['error']
    # ((1 - 3)^2 + (2 - 6)^2) / 2, and half the slope.
    assert values == {'squared': 10.0, 'regularization_loss': 0.5, 'total_loss': 10.5}


class Twice(Line):
    """Adds a regularization loss in each pass."""

    def predict(self, features, mode, labels=None):
        slope = tf1.get_variable('slope', initializer=1.0)
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, 0.5 * slope)
        return {'y': slope * tf.reshape(features[IMAGE], [-1])}


def test_regularization_counts_once_for_all_clones(config):
    plan = distribution.Plan(distribution.Mode.CLONES, devices=('/device:CPU:0',) * 2)
    with tf.Graph().as_default(), tf1.Session() as session:
        found = losses.compute_training_losses(Twice(), config, plan, *batch()).losses
        session.run(tf1.global_variables_initializer())
        assert session.run(found['regularization_loss']) == 0.5


@pytest.mark.parametrize('draws', [False, True])
def test_examples_to_draw_are_those_of_the_first_clone(config, draws):
    config.train_config.progress.draw_predictions = draws
    plan = distribution.Plan(distribution.Mode.CLONES, devices=('/device:CPU:0',) * 2)
    with tf.Graph().as_default(), tf1.Session() as session:
        examples = losses.compute_training_losses(Plain(), config, plan, *batch()).examples
        session.run(tf1.global_variables_initializer())
        features, outputs, labels = session.run(examples)
    assert features[IMAGE].shape[0] == 1 and labels['y'].tolist() == [3.0]
    assert {name: values.tolist() for name, values in outputs.items()} == (
        {'y': [1.0]} if draws else {}
    )


def test_a_loss_that_the_task_does_not_tell_is_refused(config):
    class Untold(Line):
        def loss_names(self):
            return ('other',)

    with tf.Graph().as_default(), pytest.raises(errors.UserError, match="losses.. returned 'squ"):
        losses.compute_training_losses(Untold(), config, distribution.alone(config), *batch())


FIRST, SECOND = np.float32([0.8, 0.9, 0.2, 0.6]), np.float32([0.9, 0.5, 0.4, 0.1])


class Pair(Line):
    """Two losses of an example, each a number of its own."""

    def loss_names(self):
        return ('first', 'second')

    def losses(self, predictions, features, labels):
        return {
            'first': tf.reduce_sum(features[IMAGE]) + 0.0 * predictions['y'][0],
            'second': tf.reduce_sum(labels['y']),
        }


def test_the_total_of_micro_batches_is_the_sum_of_the_reported_losses(config):
    """The mean of the four totals is 1.0999999, and the sum of the two means is 1.1."""
    config.train_config.accumulate_steps = 4
    config.train_config.add_regularization_loss = False
    plan = distribution.alone(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        features, _ = batch(FIRST)
        training = losses.compute_training_losses(
            Pair(), config, plan, features, {'y': tf.constant(SECOND)}
        )
        training.micro_batches.average([])
        session.run(tf1.global_variables_initializer())
        values = session.run(training.losses)
    assert values['total_loss'] == values['first'] + values['second'] == np.float32(1.1)
