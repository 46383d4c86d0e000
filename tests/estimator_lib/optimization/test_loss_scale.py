"""Loss scaling: skipped steps, the scale after them, and what it changes of others: nothing."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.optimization import loss_scale
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.gradients import GradientPolicy
from estimator_lib.optimization.loss_scale import LossScale
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.optimize_loss import optimize_loss

tf1 = tf.compat.v1
FLOAT16_MOST = 65504.0


def variable(name, value):
    return tf1.get_variable(name, initializer=tf.constant(value, tf.float32), use_resource=True)


def in_float16(values):
    """The sum of squares, computed in float16: its gradient passes 2 * value * scale in that."""
    half = tf.cast(values, tf.float16)
    return tf.reduce_sum(tf.cast(half * half, tf.float32))


def step_of(loss, scale, optimizer=None, **options):
    finite = FiniteUpdates()
    train_op = optimize_loss(
        loss,
        global_step=tf1.train.get_or_create_global_step(),
        optimizer=optimizer or tf1.train.GradientDescentOptimizer(0.25),
        finite=finite,
        loss_scale=scale,
        **options,
    )
    return train_op, finite


def values_after_each(build, steps, names):
    """The values of variables after each step, a tuple for each."""
    with tf.Graph().as_default(), tf1.Session() as session:
        train_op = build()
        session.run(tf1.global_variables_initializer())
        found = {v.op.name: v for v in tf1.global_variables()}
        rows = []
        for _ in range(steps):
            session.run(train_op)
            row = session.run([found[name] for name in names])
            rows.append(tuple(value.item() for value in row))
        return rows


def test_a_step_that_overflows_changes_nothing_and_halves_the_scale():
    def build():
        weight, seen = variable('w', 1.0), variable('seen', 0.0)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, seen.assign_add(1.0))
        optimizer = tf1.train.MomentumOptimizer(0.25, 0.5)
        scale = LossScale(growth_steps=2)
        return step_of(in_float16(weight), scale, optimizer, averages=MovingAverages(0.5))[0]

    names = ['w', 'w/Momentum', 'w/ExponentialMovingAverage', 'seen', 'global_step']
    rows = values_after_each(build, 5, [*names, 'loss_scale/scale', 'loss_scale/finite_steps'])
    assert rows == [
        # 2 * 1 * 2^15 is no float16; its half is.
        (1.0, 0.0, 1.0, 0.0, 1, 2.0**14, 0),
        # Momentum 2 * 1, and w - 0.25 * 2.
        (0.5, 2.0, 0.75, 1.0, 2, 2.0**14, 1),
        # Two such steps in a row double it. Momentum 0.5 * 2 + 2 * 0.5.
        (0.0, 2.0, 0.375, 2.0, 3, 2.0**15, 0),
        # The gradient is 0, at any scale.
        (-0.25, 1.0, 0.0625, 3.0, 4, 2.0**15, 1),
        # 0.5 * 1 - 0.5 = 0; -0.5 * 2^15 was one.
        (-0.25, 0.0, -0.09375, 4.0, 5, 2.0**16, 0),
    ]


@pytest.mark.parametrize('scale, expected', [(0.0, 1e-6), (1024.0, 1e-6), (1.0, 0.0)])
def test_small_gradients_are_not_lost(scale, expected):
    """In float16 1e-8 is 0, and 2^15 or 2^10 times that is not."""

    def build():
        small = tf.constant(1e-8)

        @tf.custom_gradient
        def linear(value):
            half = tf.cast(small, tf.float32)
            return value, lambda upstream: tf.cast(tf.cast(half * upstream, tf.float16), tf.float32)

        optimizer = tf1.train.GradientDescentOptimizer(-100.0)
        return step_of(linear(variable('w', 0.0)), LossScale(scale), optimizer)[0]

    ((found,),) = values_after_each(build, 1, ['w'])
    assert found == pytest.approx(expected, rel=1e-2, abs=0.0)


def test_all_behind_the_gradients_sees_them_as_they_are(tmp_path):
    """Multipliers, the norm, and what TensorBoard gets."""
    policy = GradientPolicy(pattern_multipliers=(('b', 2.0),), clip_norm=1.0)
    with tf.Graph().as_default(), tf1.Session() as session:
        loss = 3.0 * variable('a', 0.0) + 2.0 * variable('b', 0.0)
        optimizer = tf1.train.GradientDescentOptimizer(1.0)
        train_op, _ = step_of(loss, LossScale(), optimizer, policy=policy, summarize_gradients=True)
        summary = tf1.summary.merge_all()
        session.run(tf1.global_variables_initializer())
        written = tf1.Summary.FromString(session.run(summary))
        session.run(train_op)
        found = {v.op.name: session.run(v) for v in tf1.trainable_variables()}
    assert found == {'a': pytest.approx(-0.6), 'b': pytest.approx(-0.8)}
    norms = {one.tag: one.simple_value for one in written.value if 'norm' in one.tag}
    assert norms == {
        'gradient_norm/a': 3.0,
        'gradient_norm/b': 4.0,
        'global_norm/gradient_norm': 5.0,
        'global_norm/clipped_gradient_norm': pytest.approx(1.0),
    }


def test_it_falls_to_its_least_value_and_then_a_step_is_not_as_expected():
    with tf.Graph().as_default(), tf1.Session() as session:
        weight, good = variable('w', 1.0), tf1.placeholder(tf.bool, [])
        gradient = tf.where(good, 1.0, np.inf)

        @tf.custom_gradient
        def broken(value):
            return value, lambda upstream: upstream * gradient

        scale = LossScale()
        train_op, finite = step_of(broken(weight), scale)
        expected = scale.is_expected(finite.is_finite)
        session.run(tf1.global_variables_initializer())
        found = [session.run([scale.value, expected, train_op], {good: False}) for _ in range(18)]
        assert [value for value, _, _ in found] == [2.0**n for n in range(15, -1, -1)] + [1.0, 1.0]
        assert [is_expected for _, is_expected, _ in found] == [True] * 15 + [False] * 3
        assert session.run([expected, train_op], {good: True})[0]
        assert session.run(weight) == 0.75


def test_a_fixed_scale_stays_and_has_no_variables():
    with tf.Graph().as_default(), tf1.Session() as session:
        weight, scale = variable('w', 1.0), LossScale(2.0**15)
        train_op, finite = step_of(in_float16(weight), scale)
        expected = scale.is_expected(finite.is_finite)
        names = [v.op.name for v in tf1.global_variables()]
        assert not any(map(loss_scale.is_of_loss_scale, names)), names
        session.run(tf1.global_variables_initializer())
        # Nothing will mend what overflows.
        assert not session.run([expected, train_op])[0]
        assert session.run([weight, scale.value]) == [1.0, 2.0**15]
        session.run(weight.assign(0.5))
        assert session.run([expected, train_op])[0]
        assert session.run(weight) == 0.25


def test_it_grows_to_a_bound():
    with tf.Graph().as_default(), tf1.Session() as session:
        scale = LossScale(growth_steps=1)
        train_op, _ = step_of(variable('w', 0.0) * 0.0, scale)
        session.run(tf1.global_variables_initializer())
        for _ in range(12):
            session.run(train_op)
        assert session.run(scale.value) == 2.0**24


def test_gathered_rows():
    with tf.Graph().as_default(), tf1.Session() as session:
        scale = LossScale(4.0)
        loss = scale.multiply(tf.constant(3.0))
        rows = tf.IndexedSlices(tf.constant([[8.0], [np.inf]]), tf.constant([0, 2]))
        ((divided, name),) = scale.divide([(rows, 'a')])
        assert name == 'a'
        values, indices, scaled = session.run([divided.values, divided.indices, loss])
        assert (values.tolist(), indices.tolist(), scaled) == ([[2.0], [np.inf]], [0, 2], 12.0)


def replicated(examples, **options):
    """Two replicas whose losses are (example * w)^2 in float16; steps of one pair each."""
    with tf.Graph().as_default():
        strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
        pair = tf1.placeholder(tf.float32, [2])

        def step():
            weight = tf1.get_variable('w', initializer=1.0)
            moved = tf1.get_variable(
                'moved',
                initializer=0.0,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
            )
            example = pair[tf.distribute.get_replica_context().replica_id_in_sync_group]
            optimizer = tf1.train.MomentumOptimizer(0.125, 0.5)
            scale = LossScale(growth_steps=2)
            update = moved.assign(example)
            train_op, _ = step_of(
                in_float16(example * weight),
                scale,
                optimizer,
                averages=MovingAverages(0.5),
                update_ops=[update],
                **options,
            )
            return train_op

        with strategy.scope():
            train_ops = strategy.extended.call_for_each_replica(step)
            known = {v.name.partition(':')[0]: v for v in tf1.global_variables()}
            config = tf1.ConfigProto(device_count={'CPU': 2})
            with tf1.Session(config=config) as session:
                session.run(tf1.global_variables_initializer())
                rows = []
                for one in examples:
                    session.run(strategy.group(train_ops), {pair: one})
                    rows.append({name: session.run(v).item() for name, v in known.items()})
                copies = session.run(strategy.experimental_local_results(known['w']))
                assert copies[0] == copies[1]
                return rows


@pytest.mark.parametrize('clip_norm', [0.0, 100.0])
def test_replicas_skip_a_step_together(clip_norm):
    """The second replica's example alone overflows at 2^15: 2 * 1 * 1 * 2^15."""
    rows = replicated([(0.5, 1.0)] * 2, policy=GradientPolicy(clip_norm=clip_norm))
    first, second = rows
    scale = 'loss_scale/scale'
    assert first == {
        'w': 1.0,
        'w/Momentum': 0.0,
        'w/ExponentialMovingAverage': 1.0,
        'moved': 0.0,
        'global_step': 1,
        scale: 2.0**14,
        'loss_scale/finite_steps': 0,
    }
    # The gradients 2 * 0.25 and 2 * 1 together (nothing halves them outside of an Estimator).
    assert second == {
        'w': pytest.approx(1.0 - 0.125 * 2.5),
        'w/Momentum': 2.5,
        'w/ExponentialMovingAverage': pytest.approx(1.0 - 0.5 * 0.125 * 2.5),
        'moved': 0.75,
        'global_step': 2,
        scale: 2.0**14,
        'loss_scale/finite_steps': 1,
    }
