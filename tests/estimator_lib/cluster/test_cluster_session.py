"""What a session reports to the other tasks, and that it ends when it should."""

import tensorflow as tf

from estimator_lib.cluster.cluster_session import ClusterSessionHook

tf1 = tf.compat.v1


def train(hook, first_step=0, most=10):
    """Make steps in one session until it is to stop; return how many there were."""
    with tf.Graph().as_default():
        step = tf1.train.create_global_step()
        with tf.control_dependencies([step.assign_add(1)]):
            train_op = tf.constant(0)
        scaffold = tf1.train.Scaffold(init_op=step.assign(first_step))
        count = 0
        creator = tf1.train.ChiefSessionCreator(scaffold)
        with tf1.train.MonitoredSession(creator, hooks=[hook]) as session:
            while count < most and not session.should_stop():
                session.run(train_op)
                count += 1
        return count


def test_the_steps_of_a_session_are_reported():
    opened, done = [], []
    hook = ClusterSessionHook(opened.append, done.append, should_end=lambda: False)
    assert train(hook, first_step=5, most=3) == 3
    assert opened == [5] and done == [6, 7, 8]
    assert train(hook, first_step=2, most=1) == 1  # another session, at an older step
    assert opened == [5, 2] and done[3:] == [3]


def test_a_session_ends_when_it_is_told_to():
    done = []
    hook = ClusterSessionHook(lambda step: None, done.append, should_end=lambda: len(done) == 2)
    assert train(hook) == 2
