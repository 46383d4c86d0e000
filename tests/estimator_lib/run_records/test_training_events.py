"""Scalars of training, read from events written by hand."""

import math

import pytest
import tensorflow as tf

from estimator_lib.run_records import training_events
from estimator_lib.run_records.training_events import TrainingCurves, TrainingEvents

tf1 = tf.compat.v1


def event(step, **scalars):
    """An event with scalars; `__` in a name is a slash."""
    found = tf1.Event(step=step, wall_time=1.0)
    for name, value in scalars.items():
        found.summary.value.add(tag=name.replace('__', '/'), simple_value=value)
    return found.SerializeToString()


def write(folder, start, *payloads):
    """Write a file of events, as a program that started at a time."""
    path = folder / f'events.out.tfevents.{start}.host'
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in payloads:
            writer.write(payload)
    return path


def test_means_of_an_interval_and_the_last_rate(tmp_path):
    write(
        tmp_path,
        10,
        tf1.Event(file_version='brain.Event:2').SerializeToString(),
        event(10, loss=100.0, learning_rate=9.0),
        event(20, loss=1.0, learning_rate=0.1, speed__examples_per_second=8.0),
        event(30, loss=2.0, Loss__box=0.5, learning_rate=0.2, speed__examples_per_second=4.0),
        event(40, loss=7.0, training__accuracy=0.25, speed__steps_per_second=3.0, other=1.0),
    )
    events = TrainingEvents(str(tmp_path))
    assert events.summarize(10, 30) == {
        'train/loss': 1.5,
        'train/Loss/box': 0.5,
        'learning_rate': 0.2,
        'examples_per_second': 6.0,
    }
    assert events.summarize(30, 40) == {'train/loss': 7.0, 'train/accuracy': 0.25}
    assert events.summarize(40, 50) == {}


def test_curves_have_all_reported_steps_and_grow(tmp_path):
    write(tmp_path, 10, event(1, loss=3.0, learning_rate=0.5), event(5, loss=math.nan, other=1.0))
    curves = TrainingCurves(str(tmp_path), ['train/loss', 'learning_rate'])
    assert curves.read() == {'train/loss': ([1], [3.0]), 'learning_rate': ([1], [0.5])}
    write(tmp_path, 11, event(9, loss=2.0), event(1, loss=4.0))
    assert curves.read()['train/loss'] == ([1, 9], [4.0, 2.0])
    assert TrainingCurves(str(tmp_path / 'absent'), ['a']).read() == {'a': ([], [])}


def test_a_step_that_is_trained_again_after_a_kill_counts_once(tmp_path):
    path = write(tmp_path, 10, event(1, loss=3.0), event(2, loss=50.0))
    path.write_bytes(path.read_bytes()[:-5] + b'')  # the kill came while it wrote
    write(tmp_path, 11, event(2, loss=1.0))
    path = write(tmp_path, 12, event(2, loss=5.0))
    assert TrainingEvents(str(tmp_path)).summarize(0, 2) == {'train/loss': 4.0}


def test_what_is_written_later_is_read_later(tmp_path):
    events = TrainingEvents(str(tmp_path))
    assert not events.exist() and events.summarize(0, 9) == {}
    path = tmp_path / 'events.out.tfevents.1.host'
    whole = write(tmp_path, 1, event(1, loss=1.0), event(2, loss=3.0)).read_bytes()
    first = len(whole) // 2
    for count, expected in ((first, 1.0), (first + 7, 1.0), (len(whole), 2.0)):
        path.write_bytes(whole[:count])
        assert events.exist()
        assert events.summarize(0, 9) == {'train/loss': expected}


def test_large_events_are_skipped(tmp_path):
    graph = tf1.Event(step=1, graph_def=b'\0' * 100_000).SerializeToString()
    write(tmp_path, 1, graph, event(2, loss=3.0), b'\xff\xff not an event', event(3, loss=5.0))
    assert TrainingEvents(str(tmp_path)).summarize(0, 9) == {'train/loss': 4.0}


def test_nan_stays_out_of_a_mean_unless_there_is_nothing_else(tmp_path):
    write(tmp_path, 1, event(1, loss=math.nan, Loss__a=math.nan), event(2, loss=3.0))
    found = TrainingEvents(str(tmp_path)).summarize(0, 9)
    assert found['train/loss'] == 3.0 and math.isnan(found['train/Loss/a'])


@pytest.mark.parametrize('name', ['with [a] glob*', 'missing'])
def test_any_folder(tmp_path, name):
    folder = tmp_path / name
    if name != 'missing':
        folder.mkdir()
        write(folder, 1, event(1, loss=3.0))
    expected = {} if name == 'missing' else {'train/loss': 3.0}
    assert TrainingEvents(str(folder)).summarize(0, 9) == expected


def test_all_steps_with_and_without_gradients(tmp_path):
    norm = 'gradients_processed__global_norm__gradient_norm'
    write(tmp_path, 10, event(1, loss=3.0, **{norm: 5.0}), event(2, loss=2.0), event(3, loss=1.0))
    write(tmp_path, 20, event(2, loss=2.5, training__accuracy=0.5))
    losses = {1: 3.0, 2: 2.5, 3: 1.0}
    found = TrainingEvents(str(tmp_path)).read_steps()
    assert {step: values['train/loss'] for step, values in found.items()} == losses
    assert found[1] == {'train/loss': 3.0} and found[2]['train/accuracy'] == 0.5
    found = TrainingEvents(str(tmp_path), gradients=True).read_steps()
    assert found[1] == {'train/loss': 3.0, training_events.GRADIENT_NORM: 5.0}
