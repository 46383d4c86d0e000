"""The files of a run, from its start to its end."""

import json
import os
import signal
import threading

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution
from estimator_lib.cluster import job_state
from estimator_lib.processes import preemption
from estimator_lib.run_records import run_files
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.line_task import Line


class Labeled(Line):
    """A task with a file of its own."""

    checkpoints = tiny_task.with_files({'labels.txt': 'point\n'})


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def create(config, folder):
    return run_files.RunFiles(Labeled(), config, str(folder), {}, distribution.alone(config))


def statuses(folder):
    return [entry['status'] for entry in json.loads((folder / 'run.json').read_text())['starts']]


def test_several_sessions_are_one_start(config, tmp_path):
    files = create(config, tmp_path / 'run')
    with files.ended():
        for _ in range(2):
            run_files.RunFilesHook(files).begin()
        assert statuses(tmp_path / 'run') == ['running']
    assert statuses(tmp_path / 'run') == ['finished']
    assert config_lib.load_pipeline_config(str(tmp_path / 'run' / 'pipeline.config')) == config
    assert (tmp_path / 'run' / 'labels.txt').read_text() == 'point\n'


@pytest.mark.parametrize(
    ('error', 'status'),
    [
        (preemption.Preempted(signal.SIGTERM), 'preempted'),
        (job_state.PeerLost('worker:1 is gone'), 'preempted'),  # all tasks are started again
        (ValueError('any'), 'failed'),
        (KeyboardInterrupt(), 'failed'),
    ],
)
def test_the_end_tells_why(config, tmp_path, error, status):
    files = create(config, tmp_path / 'run')
    with pytest.raises(type(error)), files.ended():
        files.write_start()
        raise error
    assert statuses(tmp_path / 'run') == [status]


def test_a_start_that_trains_nothing_leaves_nothing(config, tmp_path):
    with create(config, tmp_path / 'run').ended():
        pass
    assert not (tmp_path / 'run').exists()


def test_the_error_of_a_run_is_reported_even_if_its_folder_is_gone(config, tmp_path):
    files = create(config, tmp_path / 'run')
    with pytest.raises(ValueError, match='the cause'), files.ended():
        files.write_start()
        (tmp_path / 'run').rename(tmp_path / 'moved')
        (tmp_path / 'run').write_text('a file now')
        raise ValueError('the cause')


@pytest.mark.parametrize(('exit_status', 'status'), [(143, 'preempted'), (2, 'failed')])
def test_a_process_that_ends_at_once_writes_the_end(
    config, tmp_path, monkeypatch, exit_status, status
):
    ended = []
    monkeypatch.setattr(preemption.os, '_exit', ended.append)
    files = create(config, tmp_path / 'run')
    with files.ended():
        files.write_start()
        preemption.end_process(exit_status)
        assert statuses(tmp_path / 'run') == [status]
    preemption.end_process(1)  # not in the block: nothing is left to write
    assert ended == [exit_status, 1]
    assert statuses(tmp_path / 'run') == ['finished']


def test_an_end_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(preemption, '_LAST_SECONDS', 0.01)
    monkeypatch.setattr(preemption.os, '_exit', lambda status: None)
    release = threading.Event()
    with preemption.called_before_end(lambda status: release.wait()):
        preemption.end_process(143)
    release.set()


def test_a_second_signal_does_not_interrupt_the_end(config, tmp_path, monkeypatch):
    files = create(config, tmp_path / 'run')
    end = files._run_file.end

    def end_under_fire(status):
        os.kill(os.getpid(), signal.SIGTERM)
        end(status)

    monkeypatch.setattr(files._run_file, 'end', end_under_fire)
    with pytest.raises(preemption.Preempted), preemption.preemption_guard(), files.ended():
        files.write_start()
        os.kill(os.getpid(), signal.SIGTERM)
        preemption.raise_if_requested()
    assert statuses(tmp_path / 'run') == ['preempted']


def test_the_first_step_is_that_of_the_first_session(config, tmp_path):
    """Parameter servers may be further than the latest checkpoint."""
    files = create(config, tmp_path / 'run')
    with files.ended(), tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.create_global_step()
        for value in (7, 9):
            hook = run_files.RunFilesHook(files)
            hook.begin()
            step.load(value, session)
            hook.after_create_session(session, None)
    (start,) = json.loads((tmp_path / 'run' / 'run.json').read_text())['starts']
    assert (start['first_step'], start['status']) == (7, 'finished')
