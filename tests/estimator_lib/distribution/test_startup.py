"""Workers that begin when the others have come to a step."""

import pytest
import tensorflow as tf

from estimator_lib.distribution import Cluster, Mode, Plan, startup

tf1 = tf.compat.v1

SERVERS = {'chief': ('a:1',), 'worker': ('b:1',), 'ps': ('d:1',), 'evaluator': ('f:1',)}


class Coordinator:
    def should_stop(self):
        return False


def test_a_worker_begins_when_the_others_have_come_to_its_step():
    plan = Plan(
        Mode.ASYNC_PARAMETER_SERVERS, Cluster(SERVERS, 'worker', 0), startup_delay_steps=7.5
    )
    assert startup.hooks(Plan(Mode.ONE_DEVICE), None, 100) == []
    (hook,) = startup.hooks(plan, None, num_steps=100)
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        advance = step.assign_add(1)
        hook.begin()
        seen = []

        class Session:
            def run(self, fetch):
                seen.append(session.run(advance) - 1)
                return seen[-1]

        with tf1.Session() as session:
            session.run(step.initializer)
            hook._poll_seconds = 0.0
            hook.after_create_session(Session(), Coordinator())
    assert seen == list(range(8))


@pytest.mark.parametrize(('delay', 'steps', 'first'), [(15.0, 0, 15), (15.0, 4, 4), (0.0, 9, 0)])
def test_the_first_step_is_not_behind_the_last(delay, steps, first):
    assert startup.startup_step(delay, steps) == first


def test_a_worker_in_step_with_others_has_the_hook_of_its_exchange():
    class Exchange:
        def hook(self):
            return 'its hook'

    plan = Plan(Mode.SYNC_PARAMETER_SERVERS, Cluster(SERVERS, 'worker', 0), startup_delay_steps=5)
    assert startup.hooks(plan, Exchange(), num_steps=100) == ['its hook']


def test_a_wait_ends_where_the_others_have_stopped(caplog):
    steps = [0, 0, 0, 1, 2, 3, 3]

    class Session:
        def run(self, step):
            return steps.pop(0)

    with caplog.at_level('INFO', 'estimator_lib'):
        startup.wait_for_step(Session(), None, 7, poll_seconds=0.0, still_seconds=0.0)
    # Not at step 0, which the others may take long to begin with.
    assert steps == []
    assert caplog.messages[-1] == 'beginning at step 3, where the others have stopped'


def test_a_wait_that_should_end(caplog):
    """It says once where it is, and returns though the step has not come."""

    class Session:
        def run(self, step):
            return 3

    answers = [False, False, True]
    with caplog.at_level('INFO', 'estimator_lib'):
        startup.wait_for_step(
            Session(), None, 7, should_end=lambda: answers.pop(0), poll_seconds=0.0
        )
    assert answers == []
    assert [record.message for record in caplog.records] == [
        'beginning at step 7; the others are at 3'
    ]
