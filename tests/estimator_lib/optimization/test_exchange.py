"""What a train op asks of an exchange: means before the update, and the whole step after it."""

import tensorflow as tf

from estimator_lib.optimization.gradients import GradientPolicy
from estimator_lib.optimization.optimize_loss import optimize_loss

tf1 = tf.compat.v1


class Exchange:
    """Another replica's gradient is always 8; counts its steps."""

    def __init__(self):
        self.steps = tf1.get_variable('steps', initializer=0, trainable=False)

    def average(self, pairs):
        return [((gradient + 8.0) / 2.0, variable) for gradient, variable in pairs]

    def finish(self, update):
        with tf.control_dependencies([update]):
            return self.steps.assign_add(1).op


def test_the_mean_is_what_is_clipped_and_applied():
    with tf.Graph().as_default(), tf1.Session() as session:
        weight = tf1.get_variable('w', initializer=0.0)
        exchange = Exchange()
        step = tf1.train.create_global_step()
        train_op = optimize_loss(
            4.0 * weight,
            global_step=step,
            optimizer=tf1.train.GradientDescentOptimizer(1.0),
            policy=GradientPolicy(clip_norm=5.0),  # 6, their mean, is too long; 4 would not be
            exchange=exchange,
        )
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        assert session.run([weight, step, exchange.steps]) == [-5.0, 1, 1]
