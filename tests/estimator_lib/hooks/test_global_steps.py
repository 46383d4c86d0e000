"""Steps as hooks count them."""

import tensorflow as tf

from estimator_lib.hooks import global_steps

tf1 = tf.compat.v1


def count(fetched, start):
    """What is said of each run."""
    said = [start]
    for value in fetched:
        said.append(global_steps.step_after_run(value, said[-1]))
    return said[1:]


def test_fetched_before_the_update():
    assert count([5, 6, 7], start=5) == [6, 7, 8]


def test_fetched_after_the_update_now_and_then():
    assert count([6, 6, 8, 8], start=5) == [6, 7, 8, 9]


def test_other_workers_update_too():
    assert count([5, 9, 13], start=5) == [6, 9, 13]


def test_runs_that_do_not_update():
    assert count([5, 5, 6, 6], start=5) == [6, 6, 7, 7]


def test_a_period_has_the_first_step_and_multiples_of_n():
    period = global_steps.Period(10)
    period.begin(7)
    due = []
    for step in (*range(8, 22), 35, 36, 40):  # a call with the steps 22 to 35
        if period.is_due(step):
            due.append(step)
            period.done(step)
    assert due == [8, 10, 20, 35, 40]


class Recorder(global_steps.GlobalStepHook):
    """Notes what it is told."""

    def __init__(self, fetches=()):
        self.said = []
        self._fetches = fetches

    def fetches(self):
        return self._fetches

    def session_begun(self):
        self.said.append(('begun', self.step))

    def step_done(self, run_context, run_values):
        self.said.append((self.step, run_values.results))


def test_a_hook_is_told_of_sessions_and_steps():
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        with tf.control_dependencies([step.read_value()]):
            train_op = tf1.assign_add(step, 1).op
        plain, fetching = Recorder(), Recorder({'seven': tf.constant(7)})
        scaffold = tf1.train.Scaffold(init_fn=lambda scaffold, session: step.load(40, session))
        creator = tf1.train.ChiefSessionCreator(scaffold)
        with tf1.train.MonitoredSession(creator, [plain, fetching]) as session:
            for _ in range(2):
                session.run(train_op)
    assert plain.said == [('begun', 40), (41, ()), (42, ())]
    assert fetching.said == [('begun', 40), (41, {'seven': 7}), (42, {'seven': 7})]
