"""Signals: in this process where that is safe, and in real training processes."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.hooks import preemption_hook
from estimator_lib.processes import preemption
from estimator_lib.processes.preemption import Preempted

pytestmark = pytest.mark.usefixtures('forked_processes')

ROOT = pathlib.Path(__file__).resolve().parents[3]


def handlers():
    return [signal.getsignal(number) for number in preemption.SIGNALS]


@pytest.mark.parametrize(
    'number,status', [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_outside_of_training_a_signal_ends_the_program_where_it_is(number, status):
    before = handlers()
    with pytest.raises(Preempted) as caught, preemption.preemption_guard():
        assert not preemption.requested()
        signal.raise_signal(number)
        pytest.fail('the program went on')
    assert caught.value.exit_status == status == caught.value.code
    assert str(caught.value) == f'told to end by {signal.Signals(number).name}'
    assert handlers() == before
    assert not preemption.requested()


def test_without_a_signal_nothing_happens():
    before = handlers()
    with preemption.preemption_guard():
        assert handlers() != before
        with preemption.preemption_guard():
            preemption.raise_if_requested()
        assert handlers() != before
        with preemption.interruptible():
            pass
    assert handlers() == before
    assert not [thread for thread in threading.enumerate() if thread.name == 'preemption']


def test_another_error_passes_and_gives_the_signals_back():
    before = handlers()
    with pytest.raises(KeyError), preemption.preemption_guard():
        raise KeyError
    assert handlers() == before


def test_other_threads_do_without():
    def train():
        with preemption.preemption_guard():
            seen.append(preemption.requested())

    seen = []
    before = handlers()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen == [False] and handlers() == before


def steps_taken(at_step, action, folder=None):
    """Return how many of ten steps are taken when something is done after one of them.

    With a folder the session saves there, every 1000 steps and at its end.
    """

    class Action(tf_estimator.SessionRunHook):
        def after_run(self, run_context, run_values):
            taken.append(None)
            if len(taken) == at_step:
                action()

    taken = []
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        train_op = tf.compat.v1.assign_add(step, 1)
        hooks = [Action(), preemption_hook.PreemptionHook(), tf_estimator.StopAtStepHook(10)]
        with tf.compat.v1.train.MonitoredTrainingSession(
            checkpoint_dir=folder,
            save_checkpoint_steps=1000,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
            hooks=hooks,
        ) as session:
            while not session.should_stop():
                session.run(train_op)
    return len(taken)


def test_during_training_the_step_is_the_last():
    with pytest.raises(Preempted), preemption.preemption_guard():
        assert steps_taken(3, lambda: signal.raise_signal(signal.SIGTERM)) == 3
        assert preemption.requested()
        preemption.raise_if_requested()
        pytest.fail('the program went on')


@pytest.mark.parametrize('number', preemption.SIGNALS)
def test_each_signal_during_training_saves(tmp_path, number):
    folder = str(tmp_path)
    with pytest.raises(Preempted) as caught, preemption.preemption_guard():
        assert steps_taken(3, lambda: signal.raise_signal(number), folder) == 3
    assert caught.value.exit_status == 128 + number
    assert tf.train.latest_checkpoint(folder) == os.path.join(folder, 'model.ckpt-3')


def test_whoever_forgets_to_ask_is_ended_at_the_end():
    with pytest.raises(Preempted), preemption.preemption_guard():
        assert steps_taken(3, lambda: signal.raise_signal(signal.SIGTERM)) == 3
    assert not preemption.requested()


def test_after_the_session_a_signal_ends_the_program_where_it_is():
    with pytest.raises(Preempted), preemption.preemption_guard():
        assert steps_taken(3, lambda: None) == 10
        signal.raise_signal(signal.SIGTERM)
        pytest.fail('the program went on')


def test_an_evaluation_between_steps_is_interrupted():
    def evaluate():
        with preemption.interruptible():
            signal.raise_signal(signal.SIGTERM)
            pytest.fail('the evaluation went on')

    with pytest.raises(Preempted), preemption.preemption_guard():
        steps_taken(3, evaluate)
        pytest.fail('the training went on')


def test_an_evaluation_does_not_begin_after_a_signal():
    def evaluate():
        signal.raise_signal(signal.SIGINT)
        with preemption.interruptible():
            pytest.fail('the evaluation began')

    with pytest.raises(Preempted), preemption.preemption_guard():
        steps_taken(3, evaluate)


def test_an_evaluation_that_ends_gives_way_to_waiting_again():
    def evaluate():
        with preemption.interruptible():
            pass
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Preempted), preemption.preemption_guard():
        assert steps_taken(3, evaluate) == 3
        assert preemption.requested()


def test_a_request_of_another_task():
    with pytest.raises(Preempted) as caught, preemption.preemption_guard():
        assert steps_taken(4, preemption.request) == 4
        preemption.raise_if_requested()
    assert caught.value.exit_status == 143
    preemption.request()
    assert not preemption.requested()


def test_without_a_guard_the_hook_does_nothing():
    assert steps_taken(3, lambda: None) == 10


def test_a_task_of_a_cluster_keeps_the_guard_until_its_process_has_ended():
    def train():
        try:
            with preemption.preemption_guard(deadline_seconds=50):
                preemption.end_process_within(0.3)
                signal.raise_signal(signal.SIGTERM)
        except Preempted:
            time.sleep(50)

    preemption.end_process_within(0.3)  # without a guard: nothing
    assert not preemption.owns_process()
    started = time.monotonic()
    assert in_child(train) == 143
    assert time.monotonic() - started < 40


# Real processes.

PRELUDE = f"""
import os, signal, sys, time
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
sys.path.insert(0, {str(ROOT)!r})
import tensorflow as tf
from estimator_lib import tf_estimator
from estimator_lib.hooks import preemption_hook
from estimator_lib.processes import preemption

def main(run, **kwargs):
    try:
        with preemption.preemption_guard(ends_process=True, **kwargs):
            run()
    except preemption.Preempted as ending:
        sys.exit(ending.exit_status)

def say(text):
    print(text, flush=True)

"""

TRAINING = """
def model_fn(features, labels, mode):
    step = tf.compat.v1.train.get_global_step()
    def slow(step):
        if step == 2:
            say('training')
        time.sleep(0.02)
        return step
    with tf.control_dependencies([tf.numpy_function(slow, [step], tf.int64)]):
        train_op = tf.compat.v1.assign_add(step, 1)
    return tf_estimator.EstimatorSpec(
        mode, loss=tf.constant(1.0), train_op=train_op,
        training_hooks=[preemption_hook.PreemptionHook()])

def run():
    config = tf_estimator.RunConfig(sys.argv[1], save_checkpoints_steps=100000)
    estimator = tf_estimator.Estimator(model_fn, config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(1.0).repeat(), max_steps=100000)
    preemption.raise_if_requested()
    say('went on')

main(run)
"""

BLOCKED = """
def run():
    with tf.compat.v1.train.MonitoredSession(hooks=[preemption_hook.PreemptionHook()]) as session:
        session.run(value)

with tf.Graph().as_default():
    tf.compat.v1.train.get_or_create_global_step()
    def stuck():
        say('stuck')
        time.sleep(60)
        return 1.0
    value = tf.numpy_function(stuck, [], tf.double)
    main(run, deadline_seconds=0.5)
"""


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, '-c', PRELUDE + script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def signal_after(process, line, number):
    """Send a signal after some output of a process; return status, output and seconds."""
    assert process.stdout.readline().strip() == line
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, time.monotonic() - started


@pytest.fixture(scope='module')
def processes(tmp_path_factory):
    """Both at once: most of their time is the import of TensorFlow."""
    model_dir = str(tmp_path_factory.mktemp('model'))
    started = {'training': start(TRAINING, model_dir), 'blocked': start(BLOCKED)}
    yield started, model_dir
    for process in started.values():
        if process.poll() is None:
            process.kill()


def test_sigterm_in_training_saves_and_ends_with_143(processes):
    started, model_dir = processes
    process = started['training']
    status, out, err, seconds = signal_after(process, 'training', signal.SIGTERM)
    assert status == 143, err
    assert 'SIGTERM: saving and ending' in err
    assert 'Traceback' not in err and 'went on' not in out
    # It got to the end by itself, not by the deadline.
    assert 'ending at once' not in err and seconds < preemption.DEADLINE_SECONDS
    saved = int(tf.train.latest_checkpoint(model_dir).rsplit('-', 1)[1])
    assert saved >= 2


def test_a_step_that_never_ends_meets_the_deadline(processes):
    process = processes[0]['blocked']
    status, _, err, seconds = signal_after(process, 'stuck', signal.SIGTERM)
    assert status == 143
    assert 'SIGTERM: not done after 0.5 s, ending at once' in err
    assert seconds < 20


def in_child(function):
    """The exit status of a forked process that runs a function without TensorFlow."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_ctrl_c_twice_ends_at_once():
    def train():
        with preemption.preemption_guard(deadline_seconds=50):
            preemption_hook.PreemptionHook().after_create_session(None, None)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.1)
            signal.raise_signal(signal.SIGINT)
            time.sleep(50)

    started = time.monotonic()
    assert in_child(train) == 130
    assert time.monotonic() - started < 10


def test_sigterm_twice_is_like_once_and_ctrl_c_after_it_ends_at_once():
    def train():
        with preemption.preemption_guard(deadline_seconds=50):
            preemption_hook.PreemptionHook().after_create_session(None, None)
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.2)
            signal.raise_signal(signal.SIGINT)
            time.sleep(50)

    assert in_child(train) == 143


def test_the_way_out_of_a_process_that_ends_keeps_the_deadline():
    def train():
        try:
            with preemption.preemption_guard(deadline_seconds=0.3, ends_process=True):
                signal.raise_signal(signal.SIGTERM)
        except Preempted:
            signal.raise_signal(signal.SIGTERM)  # Neither kills nor raises again.
            time.sleep(50)

    assert in_child(train) == 143
