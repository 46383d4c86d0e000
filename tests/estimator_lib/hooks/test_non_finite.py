"""What happens at a NaN: the message, and which checkpoints there are afterwards."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.hooks import non_finite
from protos import train_pb2

tf1 = tf.compat.v1


def model_fn(features, labels, mode, params, config):
    """Build a model of one weight, whose loss is what the feature of the step says."""
    del labels
    weight = tf1.get_variable('weight', initializer=1.0)
    statistic = tf1.get_variable('statistic', initializer=0.0, trainable=False)
    tf1.get_variable('smallest', initializer=[np.inf, 1.0], trainable=False)
    losses = {'classification': weight * features['factor'], 'regularization': tf.constant(0.5)}
    losses['total_loss'] = tf.add_n(list(losses.values()))
    train_op = tf1.train.GradientDescentOptimizer(0.001).minimize(
        losses['total_loss'], tf1.train.get_global_step()
    )
    with tf.control_dependencies([train_op]):
        train_op = tf.group(statistic.assign(features['statistic']))
    saver = tf1.train.Scaffold(saver=tf1.train.Saver(max_to_keep=1))
    hook = non_finite.NonFiniteLossHook(
        losses, tf.constant(0.01), features['names'], params['policy'], warn_every_n_steps=3
    )
    return tf_estimator.EstimatorSpec(
        mode,
        loss=non_finite.reported_loss(losses['total_loss']),
        train_op=train_op,
        scaffold=saver,
        training_hooks=[hook],
        training_chief_hooks=non_finite.saver_hooks(config, losses, saver),
    )


def train(model_dir, factors, save_steps, statistics=None, policy=train_pb2.STOP_TRAINING):
    """Train one step for each factor, of which some are not finite."""
    statistics = statistics or [0.0] * len(factors)

    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(
            {
                'factor': tf.constant(factors, tf.float32),
                'statistic': tf.constant(statistics, tf.float32),
                'names': [[f'a{i}.jpg', f'b{i}.jpg'] for i in range(1, len(factors) + 1)],
            }
        )
        return tf1.data.make_one_shot_iterator(dataset).get_next()

    config = tf_estimator.RunConfig(
        str(model_dir), save_checkpoints_steps=save_steps, log_step_count_steps=None
    )
    estimator = tf_estimator.Estimator(model_fn, config=config, params={'policy': policy})
    estimator.train(input_fn, max_steps=len(factors))


def saved_step(model_dir):
    return int(tf.train.latest_checkpoint(str(model_dir)).rsplit('-', 1)[1])


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_stop_names_everything_and_keeps_the_last_good_checkpoint(tmp_path, value):
    # Step 4 breaks, and is one after which a checkpoint is due; only one is kept.
    with pytest.raises(non_finite.NonFiniteLossError) as caught:
        train(tmp_path, [1.0, 1.0, 1.0, value, 1.0], save_steps=2)
    message = str(caught.value)
    assert f'step 4: the loss classification is {value}' in message
    assert "learning rate 0.01; images 'a4.jpg', 'b4.jpg'" in message
    assert 'total_loss' not in message and 'regularization' not in message
    assert saved_step(tmp_path) == 2
    assert np.isfinite(tf.train.load_variable(str(tmp_path), 'weight'))


def test_a_broken_step_between_two_checkpoints(tmp_path):
    with pytest.raises(non_finite.NonFiniteLossError, match='step 3'):
        train(tmp_path, [1.0, 1.0, np.nan, 1.0], save_steps=2)
    assert saved_step(tmp_path) == 2


def test_a_break_in_the_last_step_is_not_saved_at_the_end(tmp_path):
    with pytest.raises(non_finite.NonFiniteLossError, match='step 3'):
        train(tmp_path, [1.0, 1.0, np.nan], save_steps=100)
    assert saved_step(tmp_path) == 0


def test_a_broken_variable_is_not_saved_though_the_losses_are_finite(tmp_path, caplog):
    statistics = [0.0, 0.0, 0.0, np.nan, np.nan]
    with pytest.raises(non_finite.NonFiniteLossError, match='step 5 is not saved: the variable st'):
        train(tmp_path, [1.0] * 5, save_steps=2, statistics=statistics)
    assert saved_step(tmp_path) == 2
    assert 'step 4 is not saved: the variable statistic is not finite' in caplog.text
    # A later run starts from the last good state.
    train(tmp_path, [1.0] * 5, save_steps=2)
    assert saved_step(tmp_path) == 5


@pytest.mark.parametrize('value', [np.inf, -np.inf])
def test_a_variable_that_becomes_infinite_ends_the_run_with_an_error(tmp_path, value):
    with pytest.raises(non_finite.NonFiniteLossError, match='step 3 is not saved'):
        train(tmp_path, [1.0] * 3, save_steps=1, statistics=[0.0, value, value])
    assert saved_step(tmp_path) == 1


def test_warning_goes_on_and_says_so_now_and_then(tmp_path, caplog):
    factors = [1.0, np.inf, 1.0, 1.0, np.inf, np.inf]
    with (
        caplog.at_level(logging.WARNING, 'estimator_lib'),
        pytest.raises(non_finite.NonFiniteLossError, match='step 6 is not saved'),
    ):
        train(tmp_path, factors, save_steps=100, policy=train_pb2.WARN)
    warned = [m for m in caplog.messages if 'training continues' in m]
    assert [m.split(':')[0] for m in warned] == ['step 2', 'step 5']


def test_whole_training_saves_what_was_infinite_from_the_start(tmp_path):
    for steps in (5, 8):  # the second run resumes
        train(tmp_path, [1.0] * steps, save_steps=2)
        assert saved_step(tmp_path) == steps
        assert tf.train.load_variable(str(tmp_path), 'smallest').tolist() == [np.inf, 1.0]


def test_reported_loss():
    with tf1.Session() as session:
        values = [
            session.run(non_finite.reported_loss(tf.constant(value)))
            for value in (1.5, np.inf, -np.inf, np.nan)
        ]
    assert values == [1.5, np.inf, -np.inf, np.inf]


def test_describe_lists_many_images_briefly():
    names = [b'%d' % i for i in range(100)]
    text = non_finite.describe(7, {'total_loss': float('inf')}, 0.25, names)
    assert text.startswith("step 7: the loss total_loss is inf (learning rate 0.25; images '0'")
    assert text.endswith("'63' and 36 more)")
    both = non_finite.describe(7, {'a': float('nan'), 'b': float('-inf')}, 1.0, [b'\xff'])
    assert 'the loss a is nan and the loss b is -inf' in both


def test_variables_are_read_in_groups(monkeypatch):
    monkeypatch.setattr(non_finite, '_GROUP_BYTES', 100)
    with tf.Graph().as_default(), tf1.Session() as session:
        good = [
            tf1.get_variable(f'v{i}', [10], initializer=tf.ones_initializer()) for i in range(7)
        ]
        tf1.get_variable('integer', initializer=3)
        session.run(tf1.global_variables_initializer())
        assert not list(non_finite.non_finite_variables(session))
        session.run(good[5].assign([1.0] * 9 + [np.nan]))
        ((variable, value),) = non_finite.non_finite_variables(session)
    assert variable is good[5] and np.isnan(value).tolist() == [False] * 9 + [True]
