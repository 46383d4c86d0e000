"""The training loop of TF-Slim programs: gradients by hand; runs of a line fitted to a point."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.slim_compat import training_loop

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def variable(name, value):
    return tf1.get_variable(name, initializer=tf.constant(value, tf.float32))


def evaluate(tensors):
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return session.run(tensors)


def sgd(rate=1.0):
    return tf1.train.GradientDescentOptimizer(rate)


def test_each_gradient_is_clipped_by_its_own_norm():
    a, b, c = (variable(name, [0.0, 0.0]) for name in 'abc')
    sparse = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([0]))
    pairs = [(tf.constant([6.0, 8.0]), a), (tf.constant([0.3, 0.4]), b), (None, c), (sparse, c)]
    clipped = training_loop.clip_gradient_norms(pairs, 5.0)
    assert clipped[2] == (None, c)
    found = evaluate([clipped[0][0], clipped[1][0], clipped[3][0].values])
    np.testing.assert_allclose(found[0], [3.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(found[2], [[3.0, 4.0]], rtol=1e-6)


def test_gradients_are_multiplied_by_variable_or_name():
    a, b, c, d = (variable(name, 0.0) for name in 'abcd')
    pairs = [(tf.constant(1.0), a), (tf.constant(2.0), b), (tf.constant(3.0), c), (None, d)]
    multiplied = training_loop.multiply_gradients(pairs, {a: 10.0, 'b': tf.constant(0.5)})
    assert evaluate([gradient for gradient, _ in multiplied[:3]]) == [10.0, 1.0, 3.0]
    assert multiplied[3] == (None, d)


NOT_MULTIPLIED = {
    'no list': (lambda a: (((1.0, a),), {a: 2.0}), 'expected a list'),
    'no gradients': (lambda a: ([], {a: 2.0}), 'expected a list'),
    'no dict': (lambda a: ([(1.0, a)], 2.0), 'expected a dict'),
    'no factors': (lambda a: ([(1.0, a)], {}), 'expected a dict'),
    'no gradient': (lambda a: ([(None, a)], {a: 2.0}), "factor for 'a'"),
}


@pytest.mark.parametrize('case', sorted(NOT_MULTIPLIED))
def test_what_cannot_be_multiplied(case):
    arguments, message = NOT_MULTIPLIED[case]
    with pytest.raises(ValueError, match=message):
        training_loop.multiply_gradients(*arguments(variable('a', 0.0)))


def step(**options):
    """One step of loss 3 a + 4 b: the loss and the variables after it."""
    a, b = variable('a', 0.0), variable('b', 1.0)
    train_op = training_loop.create_train_op(3.0 * a + 4.0 * b, sgd(), **options)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        loss = session.run(train_op)
        return loss, *session.run([a, b])


def test_a_step():
    assert step() == (4.0, -3.0, -3.0)
    assert tf1.get_collection(tf1.GraphKeys.TRAIN_OP)[-1].op.name == 'train_op'
    assert tf1.train.get_global_step() is not None


def test_multiplied_then_clipped():
    _, a, b = step(gradient_multipliers={'a': 10.0, 'b': 0.5}, clip_gradient_norm=6.0)
    assert (a, b) == (pytest.approx(-6.0), -1.0)


@pytest.mark.parametrize('by_name', [False, True])
def test_a_factor_for_a_variable_without_gradient(by_name):
    idle = variable('idle', 1.0)
    with pytest.raises(ValueError, match="a factor for 'idle', of which there is no gradient"):
        step(gradient_multipliers={'idle' if by_name else idle: 2.0})


def test_only_some_variables_and_no_step():
    a = variable('a', 0.0)
    train_op = training_loop.create_train_op(
        2.0 * a + variable('b', 1.0), sgd(), global_step=None, variables_to_train=[a]
    )
    assert tf1.train.get_global_step() is None
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        assert session.run(tf1.global_variables()) == [-2.0, 1.0]


def test_updates_run_first_and_missing_ones_are_warned_of(caplog):
    a, seen = variable('a', 1.0), tf1.get_variable('seen', initializer=0.0, trainable=False)
    update = seen.assign(a)
    tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    train_op = training_loop.create_train_op(2.0 * a, sgd())
    assert not caplog.records
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        session.run(train_op)
        assert session.run([a, seen]) == [-1.0, 1.0]
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        training_loop.create_train_op(2.0 * a, sgd(), update_ops=[])
    assert 'update_ops lacks' in caplog.text


@pytest.mark.parametrize('check', [True, False])
def test_a_loss_that_is_no_number(check):
    a = variable('a', -1.0)
    train_op = training_loop.create_train_op(tf.math.log(a), sgd(), check_numerics=check)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        if check:
            with pytest.raises(tf.errors.InvalidArgumentError, match='loss is NaN'):
                session.run(train_op)
            assert session.run(a) == -1.0  # the step has not been made
        else:
            assert np.isnan(session.run(train_op))


def point():
    """A variable drawn to 3: the train op and it."""
    a = variable('a', 0.0)
    loss = (a - 3.0) ** 2
    tf1.summary.scalar('loss', loss)
    return training_loop.create_train_op(loss, sgd(0.25)), a


def test_training_ends_at_its_step_and_resumes(tmp_path, caplog):
    train_op, _ = point()
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        loss = training_loop.train(
            train_op, str(tmp_path), number_of_steps=3, log_every_n_steps=2, trace_every_n_steps=2
        )
    assert loss == pytest.approx(9.0 / 16.0)  # the third step begins from 3 - 3/4
    assert caplog.text.count('loss') == 1 and 'step 2: loss' in caplog.text
    trace = json.loads(next(tmp_path.glob('tf_trace-*.json')).read_text())
    assert trace['traceEvents']
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith('-3')
    with tf.Graph().as_default() as another:
        train_op, _ = point()
    loss = training_loop.train(train_op, str(tmp_path), number_of_steps=4, graph=another)
    assert loss == pytest.approx(9.0 / 64.0)


def test_a_worker_writes_nothing(tmp_path):
    train_op, _ = point()
    server = tf1.train.Server.create_local_server()
    with tf1.Session(server.target) as chief:
        chief.run(tf1.global_variables_initializer())
    loss = training_loop.train(
        train_op,
        str(tmp_path),
        master=server.target,
        is_chief=False,
        number_of_steps=1,
        trace_every_n_steps=1,
    )
    assert loss == 9.0
    assert not list(tmp_path.iterdir())  # checkpoints and traces are the chief's


def test_a_step_of_a_program_that_asks_whether_to_stop():
    """Without `number_of_steps` too, as slim's own step options have it."""
    train_op, _ = point()
    answers = []

    def step_fn(session, train_op, global_step, options):
        answers.append(bool(session.run(options['should_stop'])))
        loss, _ = training_loop.train_step(session, train_op, global_step, options)
        return loss, len(answers) == 2

    assert training_loop.train(train_op, None, train_step_fn=step_fn) == pytest.approx(9.0 / 4.0)
    assert answers == [False, False]


def test_a_trace_needs_a_folder():
    train_op, _ = point()
    options = {'should_trace': tf.constant(True)}
    with pytest.raises(ValueError, match='should_trace, but no logdir'):
        training_loop.train(train_op, None, train_step_kwargs=options)


def test_without_a_folder():
    train_op, _ = point()
    assert training_loop.train(train_op, None, number_of_steps=1) == 9.0


def test_initial_values_from_a_function():
    train_op, a = point()
    load = a.assign(2.0)
    loss = training_loop.train(
        train_op, None, number_of_steps=1, init_fn=lambda session: session.run(load)
    )
    assert loss == 1.0


def test_training_ends_with_its_input(tmp_path):
    dataset = tf1.data.make_initializable_iterator(tf.data.Dataset.range(5))
    a = variable('a', 0.0)
    loss = a * tf.cast(dataset.get_next(), tf.float32)
    train_op = training_loop.create_train_op(loss, sgd())
    local = tf.group(tf1.local_variables_initializer(), dataset.initializer)
    training_loop.train(train_op, str(tmp_path), local_init_op=local)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith('-5')


def test_a_session_that_is_aborted_is_opened_anew(tmp_path):
    train_op, _ = point()
    wrapped, steps = [], []

    def step_fn(session, train_op, global_step, options):
        steps.append(session.run(global_step))
        if len(steps) == 2:
            raise tf.errors.AbortedError(None, None, 'a server was started again')
        return training_loop.train_step(session, train_op, global_step, options)

    training_loop.train(
        train_op,
        str(tmp_path),
        train_step_fn=step_fn,
        number_of_steps=3,
        session_wrapper=lambda session: wrapped.append(session) or session,
        saver=tf1.train.Saver(),
    )
    assert len(wrapped) == 2
    assert steps == [0, 1, 1, 2]  # the first step had been saved


def test_synchronised_replicas_end_at_once(tmp_path):
    a = variable('a', 0.0)
    optimizer = tf1.train.SyncReplicasOptimizer(
        sgd(0.25), replicas_to_aggregate=1, total_num_replicas=1
    )
    train_op = training_loop.create_train_op((a - 3.0) ** 2, optimizer)
    # Without the session closed, two minutes would pass before this returns.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf1.train.Coordinator, 'join', _join_within_20_seconds)
        loss = training_loop.train(
            train_op, str(tmp_path), number_of_steps=3, sync_optimizer=optimizer
        )
    assert loss < 9.0
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith('-3')


_join = tf1.train.Coordinator.join


def _join_within_20_seconds(self, threads=None, stop_grace_period_secs=120, **options):
    return _join(self, threads, min(20, stop_grace_period_secs), **options)


REFUSED = {
    'no op': ({'train_op': None}, 'train_op is None'),
    'a summary without folder': ({'logdir': None, 'summary_op': 'x'}, 'summary_op is given'),
    'a saver without folder': ({'logdir': None, 'saver': 'x'}, 'saver is given'),
    'a trace without folder': ({'logdir': None, 'trace_every_n_steps': 1}, 'trace_every_n_steps'),
    'a delay in step': (
        {
            'startup_delay_steps': 10,
            'sync_optimizer': tf1.train.SyncReplicasOptimizer(sgd(), replicas_to_aggregate=1),
        },
        'begin together',
    ),
    'another optimizer': ({'sync_optimizer': [sgd()]}, 'sync_optimizer is a GradientDescent'),
    'no steps': ({'number_of_steps': 0}, 'number_of_steps is 0'),
}


@pytest.mark.parametrize('case', sorted(REFUSED))
def test_arguments_that_do_not_fit(case, tmp_path):
    options, message = REFUSED[case]
    arguments = {'train_op': tf.constant(1.0), 'logdir': str(tmp_path), **options}
    with pytest.raises(ValueError, match=message):
        training_loop.train(**arguments)
