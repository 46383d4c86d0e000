"""Trainers in lock step that stop together, whoever wants to."""

import contextlib
import signal

import pytest
import tensorflow as tf

from estimator_lib.cluster import coordinated_stop
from estimator_lib.processes import preemption
from tests.estimator_lib.clocks import Clock

tf1 = tf.compat.v1


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(coordinated_stop, 'time', made)
    return made


def run_together(folder, clock, wishes, seconds=0.25, most=100, start=0):
    """The steps at which trainers stop that take each step together.

    Args:
        wishes: for each trainer, the chief first, from which step on it wants to stop; None: never.
    """
    hooks = []
    with tf.Graph().as_default(), tf1.Session() as session:
        global_step = tf1.train.get_or_create_global_step()
        session.run(global_step.initializer)
        session.run(global_step.assign(start))
        for index, wish in enumerate(wishes):
            agreement = coordinated_stop.StopAgreement(str(folder), is_chief=index == 0)
            reasons = {} if wish is None else {'enough': lambda step, wish=wish: step >= wish}
            hook = coordinated_stop.AgreedStopHook(agreement, reasons)
            hook.begin()
            hook.after_create_session(session, None)
            hooks.append(hook)
        stopped = {}
        for step in range(start, most):
            clock.now += seconds
            for index, hook in enumerate(hooks):
                context = tf1.train.SessionRunContext(None, session)
                hook.before_run(context)
                hook.after_run(context, tf1.train.SessionRunValues((step, ()), None, None))
                if context.stop_requested:
                    stopped[index] = step + 1
            if stopped:
                break
        for hook in hooks:
            hook.end(session)
    return stopped


def test_the_chief_wants_to_stop(tmp_path, clock):
    stopped = run_together(tmp_path, clock, [20, None, None])
    assert len(stopped) == 3 and len(set(stopped.values())) == 1
    # Four steps a second: the two seconds to come, and the half second between two looks.
    assert 28 <= stopped[0] <= 32


def test_a_worker_wants_to_stop(tmp_path, clock):
    stopped = run_together(tmp_path, clock, [None, None, 20])
    assert len(stopped) == 3 and len(set(stopped.values())) == 1
    assert 28 <= stopped[0] <= 34


def test_nobody_wants_to_stop(tmp_path, clock):
    assert run_together(tmp_path, clock, [None, None]) == {}


def test_an_earlier_runs_answer_is_forgotten(tmp_path, clock):
    first = run_together(tmp_path, clock, [20, None])
    assert run_together(tmp_path, clock, [None, None], start=first[0]) == {}
    again = run_together(tmp_path, clock, [None, 60], start=first[0])
    assert len(again) == 2 and again[0] == again[1] > 60


def test_a_worker_that_is_there_before_the_chief_ignores_what_is_left(tmp_path):
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    chief.answer(50, 'enough')
    worker = coordinated_stop.StopAgreement(str(tmp_path), is_chief=False)
    assert worker.agreed() is None
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    assert worker.agreed() is None
    chief.answer(50, 'enough')
    assert worker.agreed() == (50, 'enough')


class Session:
    """A session of a task, which may be one of several: steps on demand."""

    def __init__(self, agreement, wish=None, **options):
        reasons = {} if wish is None else {'enough': lambda step: step >= wish}
        self.hook = coordinated_stop.AgreedStopHook(agreement, reasons, **options)
        self._session = tf1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            self._session.run(tf1.train.get_or_create_global_step().initializer)
            self.hook.begin()
            self.hook.after_create_session(self._session, None)

    def stops_after(self, step):
        context = tf1.train.SessionRunContext(None, self._session)
        self.hook.after_run(context, tf1.train.SessionRunValues((step, ()), None, None))
        return context.stop_requested


def test_a_request_is_kept_when_the_session_of_the_chief_is_lost(tmp_path, clock):
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    worker = coordinated_stop.StopAgreement(str(tmp_path), is_chief=False)
    Session(chief).stops_after(1)
    assert not Session(worker, wish=2).stops_after(2)
    again = Session(chief)
    for step in (3, 4):
        clock.now += 1.0
        again.stops_after(step)
    assert again.hook.reason == 'enough'


def test_an_answer_is_kept_when_a_session_is_lost(tmp_path, clock):
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    worker = coordinated_stop.StopAgreement(str(tmp_path), is_chief=False)
    Session(worker)
    first = Session(chief, wish=1)
    for step in (1, 2):
        clock.now += 1.0
        first.stops_after(step)
    step, _ = chief.agreed()
    # Both open another session; nobody changes what was agreed.
    for agreement in (worker, chief):
        again = Session(agreement, wish=1)
        assert not again.stops_after(step - 1)
        assert again.stops_after(step)
        assert chief.agreed() == (step, 'enough')


def test_a_chief_that_has_waited_for_the_others_knows_how_fast_they_go_on(tmp_path, clock):
    """It is as far ahead as they go in two seconds: who looks later would wait for it for ever."""
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    session = Session(chief, wish=2)
    clock.now += 60.0  # until the others have come
    for step in range(1, 8):
        assert not session.stops_after(step)
        clock.now += 0.125
    step, _ = chief.agreed()
    assert step == 5 + 1 + 16  # eight steps a second, from the second look on


def test_a_worker_asks_again_when_a_chief_that_is_started_again_has_forgotten(tmp_path, clock):
    coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    asking = Session(coordinated_stop.StopAgreement(str(tmp_path), is_chief=False), wish=1)
    asking.stops_after(1)
    chief = coordinated_stop.StopAgreement(str(tmp_path), is_chief=True)
    assert chief.asked() is None
    clock.now += 1.0
    asking.stops_after(2)
    assert chief.asked() == 'enough'


def test_who_got_the_signal_asks(tmp_path, clock):
    with pytest.raises(preemption.Preempted), preemption.preemption_guard():
        preemption.request(signal.SIGTERM)
        stopped = run_together(tmp_path, clock, [None, None])
        assert stopped[0] == stopped[1]


def test_those_who_got_no_signal_end_with_its_status_too(tmp_path, clock):
    with pytest.raises(preemption.Preempted) as caught, preemption.preemption_guard():
        stop_of_another(tmp_path, clock)
    assert caught.value.exit_status == 143


def stop_of_another(folder, clock):
    """A worker of which the chief alone was told to end."""
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(tf1.train.get_or_create_global_step().initializer)
        worker = coordinated_stop.AgreedStopHook(coordinated_stop.StopAgreement(str(folder), False))
        worker.begin()
        worker.after_create_session(session, None)
        coordinated_stop.StopAgreement(str(folder), True).answer(3, coordinated_stop.PREEMPTION)
        for step in range(3):
            clock.now += 1.0
            assert not preemption.requested()
            context = tf1.train.SessionRunContext(None, session)
            worker.after_run(context, tf1.train.SessionRunValues((step, ()), None, None))
        assert context.stop_requested and preemption.requested()
        worker.end(session)


@pytest.mark.parametrize('agreed, is_told', [(3, True), (4, False)])
def test_who_has_not_looked_since_the_answer_learns_it_at_the_end(tmp_path, clock, agreed, is_told):
    with tf.Graph().as_default(), tf1.Session() as session, contextlib.ExitStack() as stack:
        session.run(tf1.train.get_or_create_global_step().initializer)
        if is_told:
            stack.enter_context(pytest.raises(preemption.Preempted))
        stack.enter_context(preemption.preemption_guard())
        worker = coordinated_stop.AgreedStopHook(
            coordinated_stop.StopAgreement(str(tmp_path), False)
        )
        worker.begin()
        worker.after_create_session(session, None)
        for step in range(3):  # of one call: they come at one moment
            if step == 1:
                answer = coordinated_stop.StopAgreement(str(tmp_path), True).answer
                answer(agreed, coordinated_stop.PREEMPTION)
            context = tf1.train.SessionRunContext(None, session)
            worker.after_run(context, tf1.train.SessionRunValues((step, ()), None, None))
        assert not context.stop_requested and not preemption.requested()
        worker.end(session)
        assert preemption.requested() == is_told


def test_who_gets_no_answer_from_a_chief_that_is_gone_stops_at_once(tmp_path, clock):
    agreement = coordinated_stop.StopAgreement(str(tmp_path), is_chief=False)
    gone = []
    hook = coordinated_stop.AgreedStopHook(
        agreement, {'enough': lambda step: step >= 3}, nobody_answers=lambda: bool(gone)
    )
    stopped = []
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(tf1.train.get_or_create_global_step().initializer)
        hook.begin()
        hook.after_create_session(session, None)
        for step in range(10):
            clock.now += 1.0
            if step == 6:
                gone.append(True)
            context = tf1.train.SessionRunContext(None, session)
            hook.after_run(context, tf1.train.SessionRunValues((step, ()), None, None))
            stopped.append(context.stop_requested)
    assert stopped.index(True) == 6
    assert hook.reason == 'enough'
