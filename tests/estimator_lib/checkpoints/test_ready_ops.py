"""Questions of sessions whether variables have values."""

import pytest
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


@pytest.mark.parametrize(('job', 'expected'), [('ps', 5), ('local', None)])
def test_only_parameter_servers_with_values_are_live(job, expected):
    server = tf1.train.Server({job: ['localhost:0']}, job, 0)
    with tf.Graph().as_default() as graph:
        with tf.device(f'/job:{job}/task:0'):
            step = tf1.train.create_global_step()
        ready_op = tf.identity(tf1.report_uninitialized_variables())
        tf1.add_to_collection(tf1.GraphKeys.READY_OP, ready_op)
        with tf1.Session(server.target, graph) as session:
            assert ready_ops.live_step(session) is None
            session.run(step.initializer, {step.initializer.inputs[1]: 5})
            assert ready_ops.live_step(session) == expected
