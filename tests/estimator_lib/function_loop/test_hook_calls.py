"""What hooks are told of calls of several steps."""

import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.function_loop import hook_calls, step_graphs
from estimator_lib.hooks import global_steps

tf1 = tf.compat.v1


class Watching(global_steps.GlobalStepHook):
    """Notes what it is told."""

    def __init__(self, tensor, sees_each_step, stop_at=None):
        self.sees_each_step = sees_each_step
        self._tensor = tensor
        self._stop_at = stop_at
        self.told = []
        self.ended_at = None

    def fetches(self):
        return {'value': self._tensor}

    def step_done(self, run_context, run_values):
        read = self.read_step(run_context.session)
        self.told.append((self.step, read, run_values.results['value']))
        if self.step == self._stop_at:
            run_context.request_stop()

    def end(self, session):
        self.ended_at = self.read_step(session)


@pytest.fixture
def run():
    """Hooks of all steps and of last ones only, and a run of a call of 3 steps and one of 2."""

    def build():
        step = step_graphs.create_global_step()
        value = tf.cast(step.read_value(), tf.float32) * 10.0
        with tf.control_dependencies([value]):
            train_op = step.assign_add(1).op
        hooks = [Watching(value, True, stop_at=4), Watching(value, False)]
        for hook in hooks:
            hook.begin()
        return hooks, train_op

    function, (hooks, train_op) = step_graphs.trace(build, seed=1)
    session = hook_calls.StepSession(function)
    calls = hook_calls.HookCalls(hooks, session)
    calls.begin()
    steps = step_graphs.Steps(function, train_op, calls.each, calls.last)
    stops = []
    for count in (3, 2):
        assert calls.before(count) is None
        calls.after(count, *steps(count))
        stops.append(calls.should_stop)
    calls.end()
    return session, hooks, stops


def test_hooks_are_told_of_each_step_or_of_the_last_of_each_call(run):
    _, (each, last), _ = run
    assert each.told == [(1, 1, 0.0), (2, 2, 10.0), (3, 3, 20.0), (4, 4, 30.0), (5, 5, 40.0)]
    assert last.told == [(3, 3, 20.0), (5, 5, 40.0)]
    assert each.ended_at == last.ended_at == 5


def test_a_call_in_which_a_hook_wants_to_stop_is_the_last(run):
    # Asked for at step 4, in the middle of the second call.
    assert run[2] == [False, True]


def test_a_session_reads_variables_and_computes_tensors(run):
    session, _, _ = run
    read = tf1.train.get_global_step(session.graph)
    with session.graph.as_default():
        doubled = 2 * read.read_value()
    assert session.run([read, {'doubled': doubled}]) == [5, {'doubled': 10}]


def test_the_function_of_a_tensor_is_made_once(run, monkeypatch):
    session, _, _ = run
    with session.graph.as_default():
        doubled = 2 * tf1.train.get_global_step(session.graph).read_value()
    assert session.run(doubled) == 10
    monkeypatch.delattr(type(session._function), 'prune')
    assert session.run(doubled) == 10


def test_who_reads_the_global_step_as_tensorflows_hooks_do_asks_for_no_step_of_its_own():
    class Reading(tf_estimator.SessionRunHook):
        def before_run(self, run_context):
            read = run_context.session.graph.get_collection(step_graphs.STEP_READS)[0]
            return tf1.train.SessionRunArgs(read)

    function, _ = step_graphs.trace(step_graphs.create_global_step, seed=1)
    calls = hook_calls.HookCalls([Reading()], hook_calls.StepSession(function))
    calls.begin()
    assert len(calls.each) == 1 and not calls.last
