"""Questions of sessions whether variables have values."""

import tensorflow as tf

from estimator_lib.checkpoints import ready_ops

tf1 = tf.compat.v1


def test_variables_of_a_process_on_its_own_are_ready():
    with tf.Graph().as_default(), tf1.Session() as session:
        found = session.run(ready_ops.always_ready())
    assert {name: value.tolist() for name, value in found.items()} == {
        'ready_op': [],
        'ready_for_local_init_op': [],
    }


def test_only_parameter_servers_with_values_are_live():
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf1.train.create_global_step()
        session.run(tf1.global_variables_initializer())
        assert ready_ops.live_step(session) is None
