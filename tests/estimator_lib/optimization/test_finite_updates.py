"""Steps that are not finite and change nothing: compared with a run that never had them."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.cluster.local_processes import build_addresses
from estimator_lib.distribution import placement
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.optimization import finite_updates
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.optimize_loss import optimize_loss

tf1 = tf.compat.v1
GOOD = (1.0, 2.0, 3.0)


def _get(name, value):
    return tf1.get_variable(name, initializer=tf.constant(value, tf.float32), use_resource=True)


def _with_gradient(weight, gradient):
    """0, whose gradient by the weight is the given one, whatever that is."""

    @tf.custom_gradient
    def zero(value):
        return tf.zeros_like(value), lambda upstream: upstream * gradient

    return zero(weight)


def _build(optimizer):
    """Loss (v * x)^2, with a statistic and a counter that follow x by `UPDATE_OPS`."""
    x, scale = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.float32, [])
    weight, other = _get('w', 1.0), _get('v', 0.5)
    mean, total = _get('mean', 0.0), _get('total', 0.0)
    updates = [mean.assign(0.5 * mean.read_value() + 0.5 * x), tf.group(total.assign_add(x))]
    for update in updates:
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    # The gradient by w is `scale`, by which the loss is not changed.
    loss = tf.square(other * x) + _with_gradient(weight, scale)
    finite = finite_updates.FiniteUpdates()
    train_op = optimize_loss(
        loss,
        global_step=tf1.train.get_or_create_global_step(),
        optimizer=optimizer,
        variables=[weight, other],
        averages=MovingAverages(0.5),
        finite=finite,
    )
    return train_op, x, scale, finite


def _train(optimizer, steps):
    """The values of all variables after steps of (x, scale), and which of them were finite."""
    with tf.Graph().as_default(), tf1.Session() as session:
        train_op, x, scale, finite = _build(optimizer())
        session.run(tf1.global_variables_initializer())
        applied = [
            session.run([finite.is_finite, train_op], {x: one, scale: other})[0]
            for one, other in steps
        ]
        return {v.op.name: session.run(v) for v in tf1.global_variables()}, applied


@pytest.mark.parametrize(
    'optimizer',
    [
        lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf1.train.AdamOptimizer(0.1),
        lambda: tf1.train.RMSPropOptimizer(0.1, momentum=0.5),
    ],
    ids=['momentum', 'adam', 'rmsprop'],
)
def test_only_the_global_step_knows_of_the_step(optimizer):
    good = [(x, 1.0) for x in GOOD]
    # NaN in the loss and all it touches; infinite activations; an infinite gradient alone.
    bad = [(np.nan, 1.0), (np.inf, 1.0), (5.0, np.inf), (5.0, np.nan)]
    mixed = [bad[0], good[0], bad[1], bad[2], good[1], bad[3], good[2]]
    expected, all_applied = _train(optimizer, good)
    found, applied = _train(optimizer, mixed)
    assert all_applied == [True] * 3
    assert applied == [False, True, False, False, True, False, True]
    assert (expected.pop('global_step'), found.pop('global_step')) == (3, 7)
    assert found == expected
    assert found['mean'] == 0.5 * (0.5 * (0.5 * 1.0) + 0.5 * 2.0) + 0.5 * 3.0
    assert found['total'] == 6.0


def test_an_infinite_norm_of_finite_gradients_is_no_reason():
    large = 3e38  # its square is not a float32
    found, applied = _train(lambda: tf1.train.GradientDescentOptimizer(1e-37), [(1.0, large)])
    assert applied == [True]
    assert found['w'] == pytest.approx(1.0 - 30.0, rel=1e-6)


def test_variables_on_parameter_servers():
    addresses = build_addresses(num_workers=1, num_ps=2)
    servers = {
        f'{role}:{index}': tf1.train.Server(addresses, job_name=role, task_index=index)
        for role, tasks in addresses.items()
        for index in range(len(tasks))
    }
    task = Cluster({role: tuple(tasks) for role, tasks in addresses.items()}, 'worker', 0)
    with tf.Graph().as_default() as graph, graph.device(placement.device_fn(task)):
        train_op, x, scale, _ = _build(tf1.train.MomentumOptimizer(0.1, 0.9))
        variables = [v for v in tf1.global_variables() if v.op.name != 'global_step']
        assert {v.device for v in variables} >= {'/job:ps/task:0', '/job:ps/task:1'}
        with tf1.Session(servers['worker:0'].target) as session:
            session.run(tf1.global_variables_initializer())
            for value in (1.0, np.nan, 2.0, 3.0, np.nan):
                session.run(train_op, {x: value, scale: 1.0})
            found = {v.op.name: session.run(v) for v in variables}
    expected, _ = _train(lambda: tf1.train.MomentumOptimizer(0.1, 0.9), [(x, 1.0) for x in GOOD])
    for name, value in found.items():
        assert value == pytest.approx(expected[name], rel=1e-6), name
