"""Which checkpoints are due, in one start of the program and over several."""

import json

import pytest
import tensorflow as tf

from estimator_lib.evaluation import scheduling
from protos import eval_pb2
from tests.estimator_lib.clocks import Clock


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(scheduling, 'time', made)
    return made


@pytest.fixture
def folder(tmp_path):
    """That of a run whose latest checkpoint is of step 40."""
    tf.io.gfile.makedirs(str(tmp_path))
    (tmp_path / 'model.ckpt-40.index').touch()
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-40"\n')
    return tmp_path


def schedule(folder, **fields):
    return scheduling.Schedule(eval_pb2.EvaluationSchedule(**fields), str(folder))


def test_each_new_checkpoint_is_due_once(folder):
    made = schedule(folder)
    assert not made.is_due(0) and made.is_due(10)
    with made.evaluating(10):
        pass
    assert not made.is_due(10) and made.is_due(11)


def test_start_delay_and_throttle_count_from_the_begin_of_an_evaluation(folder, clock):
    made = schedule(folder, start_delay_seconds=30, throttle_seconds=20, throttle_steps=5)
    clock.now += 29
    assert not made.is_due(10)
    clock.now += 1
    assert made.is_due(10)
    with made.evaluating(10):
        clock.now += 15
    clock.now += 4
    assert not made.is_due(20)
    clock.now += 1
    assert made.is_due(15) and not made.is_due(14)


def test_a_restart_knows_what_was_evaluated(folder):
    with schedule(folder).evaluating(30):
        pass
    again = schedule(folder)
    assert not again.is_due(30) and again.is_due(31) and again.interrupted is None


def test_an_interrupted_evaluation_is_due_at_once(folder, clock):
    first = schedule(folder)
    with first.evaluating(30):
        pass
    with pytest.raises(KeyboardInterrupt), first.evaluating(40):
        raise KeyboardInterrupt
    again = schedule(folder, start_delay_seconds=100, throttle_steps=1000)
    assert again.interrupted == 40 and again.is_due(40) and not again.is_due(41)
    with again.evaluating(40):
        pass
    assert not again.is_due(40)
    assert schedule(folder).interrupted is None


def test_an_evaluation_that_is_put_off_is_due_at_once(folder):
    schedule(folder).postpone(40)
    assert schedule(folder, start_delay_seconds=100).is_due(40)


def test_what_another_run_has_evaluated_says_nothing(folder):
    with schedule(folder).evaluating(40, is_final=True):
        pass
    (folder / 'checkpoint').unlink()
    again = schedule(folder)
    assert again.is_due(1) and again.interrupted is None and not again.was_final(40)


def test_the_last_evaluation_of_a_run_is_told_apart(folder):
    with schedule(folder).evaluating(30):
        pass
    assert not schedule(folder).was_final(30)
    with schedule(folder).evaluating(40, is_final=True):
        pass
    assert schedule(folder).was_final(40)


@pytest.mark.parametrize('text', ['', '[1]', '{"begun": "x", "done": null}', '{"done": 7'])
def test_a_damaged_record_counts_for_nothing(folder, text):
    (folder / scheduling.RECORD_FILE).write_text(text)
    made = schedule(folder)
    assert made.is_due(5) and made.interrupted is None
    with made.evaluating(5):
        pass
    record = json.loads((folder / scheduling.RECORD_FILE).read_text())
    assert record == {'begun': 5, 'done': 5, 'final': 0}
