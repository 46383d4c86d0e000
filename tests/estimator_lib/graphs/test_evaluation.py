"""The graph of an evaluation, for sessions and as an EstimatorSpec."""

import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, model_fn
from estimator_lib.checkpoints import savers
from estimator_lib.graphs import evaluation
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line, batch

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


class Counting(Line):
    """Measures with an array, of which Python makes scalars."""

    def metrics(self, outputs, features, labels):
        total = tf1.get_variable(
            'errors', [2], initializer=tf1.zeros_initializer(), collections=['local_variables']
        )
        return {'errors': (total.read_value(), total.assign_add(outputs['y'] - labels['y']))}

    def finish_metrics(self, values):
        first, second = values['errors']
        return {'first': first, 'ratio': first / second}

    def metric_names(self):
        return ('first', 'never', 'ratio')


def run(spec, passes=2):
    """Return the metrics of a spec after some batches."""
    with tf1.Session() as session:
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        for _ in range(passes):
            session.run([update for _, update in spec.eval_metric_ops.values()])
        return session.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})


def test_a_spec_has_the_metrics_of_the_task_and_losses(config):
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        spec = model_fn.create_model_fn(Line(), config)(*batch(), 'eval')
        found = run(spec, passes=1)
        assert spec.predictions['y'].shape == [2]
    assert found == {
        'error': pytest.approx(4.5),
        'Loss/squared': pytest.approx((9 + 36) / 2),
        'Loss/regularization_loss': 0.0,
        'Loss/total_loss': pytest.approx((9 + 36) / 2),
        'learning_rate': pytest.approx(0.05),
    }


def test_the_learning_rate_is_that_of_the_step(config):
    schedule = config.train_config.optimizer.sgd_optimizer.learning_rate.manual_step_learning_rate
    schedule.initial_learning_rate = 0.5
    schedule.schedule.add(step=3, learning_rate=0.25)
    for step, rate in ((2, 0.5), (3, 0.25)):
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            spec = model_fn.create_model_fn(Line(), config)(*batch(), 'eval')
            with tf1.Session() as session:
                session.run([tf1.global_variables_initializer()])
                session.run(tf1.train.get_global_step().assign(step))
                assert session.run(spec.eval_metric_ops['learning_rate'][0]) == rate
    config.train_config.ClearField('optimizer')
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        spec = model_fn.create_model_fn(Line(), config)(*batch(), 'eval')
    assert 'learning_rate' not in spec.eval_metric_ops


def test_what_python_makes_of_metrics_is_in_the_graph(config):
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        spec = model_fn.create_model_fn(Counting(), config)(*batch(), 'eval')
        updates = {spec.eval_metric_ops[name][1] for name in Counting().metric_names()}
        assert len(updates) == 1
        found = run(spec)
    # The slope is 0: errors of -3 and -6, twice.
    assert found['first'] == -6.0 and found['ratio'] == 0.5 and math.isnan(found['never'])


def test_the_engine_has_the_metrics_as_the_task_made_them(config):
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        graph = evaluation.create_evaluation_fn(Counting(), config)(*batch())
    assert list(graph.metrics) == ['errors']
    assert 'Loss/total_loss' in graph.loss_metrics and 'y' in graph.outputs


def test_a_metric_that_the_task_does_not_tell_is_refused(config):
    class Untold(Counting):
        def metric_names(self):
            return ('first',)

    with tf.Graph().as_default():
        tf1.train.create_global_step()
        spec = model_fn.create_model_fn(Untold(), config)(*batch(), 'eval')
        with pytest.raises(tf.errors.OpError, match='finish_metrics.. returned ratio; expected'):
            run(spec)


def test_only_a_saver_of_averages_is_the_scaffolds_own_before_a_session(config):
    for use_averages in (False, True):
        config.eval_config.use_moving_averages = use_averages
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            spec = model_fn.create_model_fn(Line(), config)(*batch(), 'eval')
            assert (spec.scaffold.saver is not None) is use_averages
            assert isinstance(spec.scaffold.finalize().saver, savers._InferenceSaver)


def test_graph_is_saved_without_a_warning(config):
    """TensorFlow reports each part of a graph that it cannot save, or cannot read again."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    tf.get_logger().addHandler(handler)
    try:
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            model_fn.create_model_fn(Line(), config)(*batch(), 'eval')
            saved = tf1.train.export_meta_graph()
        with tf.Graph().as_default():
            tf1.train.import_meta_graph(saved)
    finally:
        tf.get_logger().removeHandler(handler)
    assert [text for text in messages if 'serializing' in text or 'collection' in text] == []


def test_outputs_without_a_batch_are_refused(config):
    class Scalar(Line):
        def postprocess(self, predictions, features):
            return {'y': tf.reduce_sum(predictions['y'])}

    with tf.Graph().as_default(), pytest.raises(errors.UserError, match='a leading batch dim'):
        tf1.train.create_global_step()
        model_fn.create_model_fn(Scalar(), config)(*batch(), 'eval')


def test_passes_of_one_session_start_from_zero(config):
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        graph = evaluation.create_evaluation_fn(Counting(), config)(*batch())
        value, update = graph.metrics['errors']
        session.run(tf1.global_variables_initializer())
        for _ in range(2):
            session.run(tf1.local_variables_initializer())
            session.run(update)
            np.testing.assert_array_equal(session.run(value), [-3.0, -6.0])
