"""The line of progress: its text, when it comes, and what its rates count."""

import io
import logging
import sys

import pytest
import tensorflow as tf

from estimator_lib.hooks import progress
from tests.estimator_lib.clocks import Clock

tf1 = tf.compat.v1


def test_line_by_hand():
    line = progress.Progress(
        step=120,
        num_steps=1200,
        losses={'classification_loss': 1.1, 'regularization_loss': 0.134, 'total_loss': 1.234},
        learning_rate=0.01,
        steps=10,
        seconds=0.704225,
        batch_size=32,
        waiting=0.02,
        remaining=76.3,
        memory=700 * 2**20,
    ).line()
    assert line == (
        'step 120/1200  loss 1.234 (classification 1.1, regularization 0.134)  lr 0.01  '
        '14.2 steps/s  454.4 ex/s  data 3 %  ETA 1m16s  memory 700 MiB'
    )


def test_line_of_a_first_step_and_without_an_end():
    line = progress.Progress(
        step=1,
        num_steps=0,
        losses={'classification_loss': 2.0, 'total_loss': 2.0},
        learning_rate=1e-5,
        steps=1,
        seconds=2.31,
        batch_size=32,
        waiting=9.0,
        skipped=2,
    ).line()
    assert line == 'step 1  loss 2  lr 1e-05  2.31 s  data 100 %  skipped 2'


@pytest.mark.parametrize(
    'seconds,text',
    [
        (0, '0s'),
        (59.4, '59s'),
        (59.6, '1m00s'),
        (76, '1m16s'),
        (3599, '59m59s'),
        (7380, '2h03m'),
        (86399, '23h59m'),
        (86400 * 3 + 3600 * 4, '3d04h'),
    ],
)
def test_durations(seconds, text):
    assert progress.format_duration(seconds) == text


def test_losses_without_a_sum_are_added_up():
    assert progress.format_losses({'a': 1.0, 'b': 0.5}) == '1.5 (a 1, b 0.5)'


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, 'time', made)
    return made


class Losses:
    """A graph whose loss is the global step, and that counts how often the loss was computed."""

    def __init__(self):
        self.global_step = tf1.train.get_or_create_global_step()
        self.computed = 0
        self.loss = tf.numpy_function(self._compute, [self.global_step], tf.float32)
        self.loss.set_shape([])
        self.train_op = tf1.assign_add(self.global_step, 1).op
        self.wait = tf.constant(0.25)

    def _compute(self, step):
        self.computed += 1
        return step.astype('float32')


def run(clock, steps, start=0, sessions=1, seconds=0.5, during=None, **kwargs):
    """The lines of some steps, each of which takes some seconds; and how many losses they cost."""
    with tf.Graph().as_default():
        losses = Losses()
        hook = progress.ProgressHook(
            {'total_loss': losses.loss},
            tf.constant(0.1),
            batch_size=4,
            wait_seconds=losses.wait,
            **kwargs,
        )
        hook.begin()
        for _ in range(sessions):
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                session.run(losses.global_step.assign(start))
                hook.after_create_session(session, None)
                for _ in range(steps):
                    step_once(hook, session, losses, clock, seconds, during)
        hook.end(session)
        return losses.computed


def step_once(hook, session, losses, clock, seconds, during):
    """What a monitored session does with a hook."""
    context = tf1.train.SessionRunContext(None, session)
    fetches = hook.before_run(context).fetches
    before = session.run(fetches)
    session.run(losses.train_op)
    clock.now += seconds
    if during is not None:
        during()
    hook.after_run(context, tf1.train.SessionRunValues(before, None, None))


def lines(caplog):
    messages = [message for message in caplog.messages if message.startswith('step ')]
    assert all(message.endswith('  memory 7 MiB') for message in messages)
    return [message.rpartition('  memory ')[0] for message in messages]


@pytest.fixture(autouse=True)
def info(caplog, monkeypatch):
    # Not every system tells the memory of a process.
    monkeypatch.setattr(progress.environment, 'resident_memory_bytes', lambda: 7 * 2**20)
    caplog.set_level(logging.INFO, 'estimator_lib')


def test_the_first_step_every_nth_and_the_last(clock, caplog):
    computed = run(clock, 12, num_steps=12, every_n_steps=5)
    assert [line.split()[1] for line in lines(caplog)] == ['1/12', '5/12', '10/12', '12/12']
    # All steps fetch the same: the session prepares its graph again for each set of fetches.
    assert computed == 12


def test_rates_data_share_and_eta(clock, caplog):
    run(clock, 10, num_steps=20, every_n_steps=5)
    assert lines(caplog) == [
        'step 1/20  loss 0  lr 0.1  0.5 s  data 50 %',
        'step 5/20  loss 4  lr 0.1  2 steps/s  8 ex/s  data 50 %  ETA 8s',
        'step 10/20  loss 9  lr 0.1  2 steps/s  8 ex/s  data 50 %  ETA 5s',
    ]


def test_a_resumed_run_counts_its_own_steps(clock, caplog):
    run(clock, 11, start=500, num_steps=1000, every_n_steps=10)
    assert lines(caplog) == [
        'step 501/1000  loss 500  lr 0.1  0.5 s  data 50 %',
        'step 510/1000  loss 509  lr 0.1  2 steps/s  8 ex/s  data 50 %  ETA 4m05s',
    ]


def test_a_new_session_starts_counting_anew(clock, caplog):
    run(clock, 3, start=7, sessions=2, num_steps=1000, every_n_steps=10)
    steps = [line.split()[1] for line in lines(caplog)]
    assert steps == ['8/1000', '10/1000', '8/1000', '10/1000']
    assert 'ETA' not in lines(caplog)[2]


def test_pauses_are_not_the_time_of_steps(clock, caplog):
    def evaluate():
        if clock.now == 1001.0:
            with progress.paused():
                clock.now += 100.0

    run(clock, 5, num_steps=10, every_n_steps=5, during=evaluate)
    # Four steps of half a second; the rest of the run will pause as often.
    assert '2 steps/s  8 ex/s  data 50 %  ETA 2m08s' in lines(caplog)[1]


def test_steps_of_other_workers_count(clock, caplog):
    with tf.Graph().as_default(), tf1.Session() as session:
        losses = Losses()
        hook = progress.ProgressHook(
            {'total_loss': losses.loss}, tf.constant(0.1), batch_size=4, every_n_steps=10
        )
        hook.begin()
        session.run(tf1.global_variables_initializer())
        hook.after_create_session(session, None)
        for _ in range(8):
            session.run(losses.train_op)
            session.run(losses.train_op)
            step_once(hook, session, losses, clock, 1.5, None)
    # Three steps go by in each of this worker's, so a line may come one of its own late.
    assert [line.split('  ')[0] for line in lines(caplog)] == ['step 3', 'step 15', 'step 24']
    assert '2 steps/s' in lines(caplog)[1]


@pytest.mark.parametrize(
    'stop', [{'last_step': 3}, {'num_steps': 3}, {'last_step': 100}, {}], ids=str
)
def test_the_end_is_that_of_the_session(stop, caplog):
    """A program passes `max_steps` or `steps` to its Estimator, whatever its config says."""
    with tf.Graph().as_default():
        losses = Losses()
        hook = progress.ProgressHook(
            {'total_loss': losses.loss}, tf.constant(0.1), batch_size=4, num_steps=50
        )
        stops = [tf1.train.StopAtStepHook(**stop)] if stop else []
        creator = tf1.train.ChiefSessionCreator()
        with tf1.train.MonitoredSession(creator, hooks=[*stops, hook]) as session:
            for _ in range(3):
                session.run(losses.train_op)
    end = {'last_step': stop.get('last_step'), 'num_steps': 3}[next(iter(stop))] if stop else 50
    steps = [line.split()[1] for line in lines(caplog)]
    # The last step has a line.
    assert steps == ([f'1/{end}', f'3/{end}'] if end == 3 else [f'1/{end}'])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_and_lines_above_it(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, 'stderr', terminal)
    handler = logging.StreamHandler(terminal)
    logger = logging.getLogger('estimator_lib')
    monkeypatch.setattr(logger, 'handlers', [handler])
    run(clock, 10, num_steps=10, every_n_steps=5)
    text = terminal.getvalue()
    assert '100 %|' in text and '10/10  loss 9  2 steps/s' in text
    assert '\rstep 5/10  loss 4' in text
    assert logger.handlers == [handler]


@pytest.mark.parametrize(('steps', 'epoch_size'), [(300_000, 0), (0, 0), (300_000, 823), (0, 823)])
def test_the_bar_fits_into_80_columns(clock, monkeypatch, steps, epoch_size):
    monkeypatch.setattr(sys, 'stderr', Terminal())
    monkeypatch.setenv('NO_COLOR', '1')
    bar = progress._Bar(steps, epoch_size)
    losses = {f'Loss/RPNLoss/objectness_{index}': 0.123456 for index in range(6)}
    bar.show(
        progress.Progress(
            123456, steps, losses, 1e-4, 10, 0.7, 8, remaining=7400.0, epoch_size=epoch_size
        )
    )
    shown = bar._bar.format_meter(**{**bar._bar.format_dict, 'ncols': 80})
    bar.close()
    assert len(shown) <= 80 and 'loss 0.7407  14.3 steps/s  ETA 2h03m' in shown
    # 123456 steps of 8 examples are 1200.06 passes over 823 examples.
    assert not epoch_size or f'epoch 1200.1{"/2916.2" if steps else ""}  loss' in shown
    # At least ten columns are left for the bar itself.
    assert not steps or len(shown.split('|')[1]) >= 10


@pytest.mark.parametrize(
    ('environment', 'colored'),
    [
        ({'TERM': 'xterm'}, True),
        ({'TERM': 'xterm', 'NO_COLOR': ''}, True),
        ({'TERM': 'xterm', 'NO_COLOR': '1'}, False),
        ({'TERM': 'dumb'}, False),
    ],
    ids=str,
)
def test_the_bar_has_colors_where_they_are_wanted(monkeypatch, environment, colored):
    terminal = Terminal()
    monkeypatch.setattr(sys, 'stderr', terminal)
    monkeypatch.delenv('NO_COLOR', raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bar = progress._Bar(10)
    bar.show(progress.Progress(5, 10, {'total_loss': 1.0}, 0.1, 1, 0.5, 4))
    bar.close()
    assert ('\x1b[32m' in terminal.getvalue()) == colored


def test_an_error_closes_the_bar(clock, monkeypatch):
    def fail():
        raise KeyError

    terminal = Terminal()
    monkeypatch.setattr(sys, 'stderr', terminal)
    handler = logging.StreamHandler(terminal)
    logger = logging.getLogger('estimator_lib')
    monkeypatch.setattr(logger, 'handlers', [handler])
    with pytest.raises(KeyError), progress.closing_bar():
        run(clock, 3, num_steps=10, during=fail)
    assert logger.handlers == [handler]
    assert terminal.getvalue().endswith('\r')


def test_no_terminal_no_bar(clock, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, 'stderr', stream)
    run(clock, 3, num_steps=10, every_n_steps=1)
    assert '|' not in stream.getvalue()
