"""Evaluating the checkpoints of another process, which also deletes them."""

import hashlib
import json

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.cluster import evaluator_task, heartbeats, job_state, supervision
from estimator_lib.cluster.job import Job
from estimator_lib.distribution.tf_config import Cluster
from protos import pipeline_pb2, train_pb2

tf1 = tf.compat.v1


def save(folder, step, keep=0):
    """Write a checkpoint, as a chief that keeps so many."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable('a', initializer=float(step))
        session.run(variable.initializer)
        saver = tf1.train.Saver(max_to_keep=keep)
        state = tf.train.get_checkpoint_state(str(folder))
        if state is not None:
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        saver.save(session, str(folder / 'model.ckpt'), global_step=step)


class Evaluator:
    """Reads checkpoints; what happens while it does is the test's."""

    def __init__(self, meanwhile=None):
        self.seen = []
        self.last_metrics = {'0': {'a': 1.0}}
        self._meanwhile = meanwhile

    def evaluate(self, checkpoint, is_final=False):
        if self._meanwhile is not None:
            self._meanwhile(len(self.seen))
        value = tf.train.load_checkpoint(checkpoint).get_tensor('a')
        self.seen.append((float(value), is_final))
        return False


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluator_task, 'POLL_SECONDS', 0.01)
    config = train_pb2.TrainConfig(num_steps=30)
    cluster = Cluster({'chief': ('h:1',), 'ps': ('h:2',)}, 'evaluator', 0)
    return Job(cluster, config, str(tmp_path), job_state.JobState(str(tmp_path), config))


def config_of(job, **schedule):
    return pipeline_pb2.TrainEvalPipelineConfig(
        train_config=job.train_config, eval_config={'schedule': schedule}
    )


def run(job, reader, **schedule):
    return evaluator_task.evaluate_until_finished(
        job, supervision.Supervisor(job), reader, config_of(job, **schedule)
    )


def test_evaluates_each_new_checkpoint_and_the_last_one_as_such(job, tmp_path):
    steps = iter([20, 30])

    def train(count):
        step = next(steps, None)
        if step is not None:
            save(tmp_path, step)
        if step == 30:
            job.state.write_finished('num_steps')

    save(tmp_path, 10)
    reader = Evaluator(train)
    assert run(job, reader) == {'0': {'a': 1.0}}
    assert reader.seen == [(10.0, False), (20.0, False), (30.0, True)]


def test_the_checkpoint_of_step_0_is_not_worth_it(job, tmp_path):
    save(tmp_path, 0)
    save(tmp_path, 30)
    job.state.write_finished('num_steps')
    reader = Evaluator()
    run(job, reader)
    assert reader.seen == [(30.0, True)]


def test_a_checkpoint_that_is_deleted_meanwhile_can_still_be_read(job, tmp_path):
    def train(count):
        if count == 0:
            save(tmp_path, 30, keep=1)
            job.state.write_finished('num_steps')

    save(tmp_path, 10, keep=1)
    reader = Evaluator(train)
    run(job, reader)
    assert not (tmp_path / 'model.ckpt-10.index').exists()
    assert reader.seen == [(10.0, False), (30.0, True)]
    assert not (tmp_path / 'cluster' / evaluator_task.HELD_FOLDER).exists()


def test_without_second_names_a_deleted_checkpoint_is_left_out(job, tmp_path, monkeypatch, caplog):
    def refuse(*args):
        raise OSError('not on this file system')

    def train(count):
        if not job.state.finished():
            save(tmp_path, 30, keep=1)
            job.state.write_finished('num_steps')

    monkeypatch.setattr(evaluator_task.os, 'link', refuse)
    save(tmp_path, 10, keep=1)
    reader = Evaluator(train)
    run(job, reader)
    assert reader.seen == [(30.0, True)]
    assert 'model.ckpt-10 was deleted while it was evaluated' in caplog.text


def test_the_last_evaluation_is_made_once(job, tmp_path):
    save(tmp_path, 30)
    job.state.write_finished('num_steps')
    run(job, Evaluator())
    again = Evaluator()
    assert run(job, again) == {}
    assert again.seen == []


@pytest.fixture
def impatient(monkeypatch):
    """Fail in place of a wait that does not end."""
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        assert len(looks) < 20, 'waits for ever'

    monkeypatch.setattr(evaluator_task.time, 'sleep', sleep)


def test_a_finished_run_of_one_machine_ends_the_evaluator(job, tmp_path, impatient):
    save(tmp_path, 20)
    reader = Evaluator(lambda count: save(tmp_path, 30))
    assert run(job, reader) == {'0': {'a': 1.0}}
    assert reader.seen == [(20.0, False), (30.0, True)]
    assert run(job, Evaluator()) == {}  # it has been evaluated


def write_start(folder, status, config):
    """Write the `run.json` of a run with one start."""
    digest = hashlib.sha256(config.SerializeToString(deterministic=True)).hexdigest()
    start = {'status': status, 'config': {'sha256': digest}}
    (folder / 'run.json').write_text(json.dumps({'starts': [start]}))


def test_a_run_of_one_machine_that_ended_before_its_last_step_ends_the_evaluator(
    job, tmp_path, impatient
):
    save(tmp_path, 10)
    write_start(tmp_path, 'running', config_of(job))

    def train(count):
        if count == 0:
            save(tmp_path, 20)
            write_start(tmp_path, 'finished', config_of(job))

    reader = Evaluator(train)
    run(job, reader)
    assert reader.seen == [(10.0, False), (20.0, True)]


@pytest.mark.parametrize(
    'status, batch_size', [('killed', 0), ('preempted', 0), ('failed', 0), ('finished', 1)]
)
def test_the_evaluator_of_a_run_that_may_continue_waits(
    job, tmp_path, impatient, status, batch_size
):
    config = config_of(job)
    if batch_size:
        config.train_config.batch_size = batch_size
    save(tmp_path, 20)
    write_start(tmp_path, status, config)
    with pytest.raises(AssertionError, match='waits for ever'):
        run(job, Evaluator())


def test_a_job_is_finished_when_its_chief_says_so(job, tmp_path, impatient):
    heartbeats.Heart(job.state.folder, job.chief).beat()
    save(tmp_path, 30)
    with pytest.raises(AssertionError, match='waits for ever'):
        run(job, Evaluator())


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize('links', [True, False])
def test_an_evaluation_that_was_killed_is_made_first_after_a_restart(
    job, tmp_path, monkeypatch, links
):
    def kill(count):
        if count == 1:
            raise Killed

    def refuse(*args):
        raise OSError('not on this file system')

    if not links:
        monkeypatch.setattr(evaluator_task.os, 'link', refuse)
    # A killed process does not clear its folder of second names.
    monkeypatch.setattr(evaluator_task.tf.io.gfile, 'rmtree', lambda path: None)
    save(tmp_path, 10)
    first = Evaluator(lambda count: (kill(count), save(tmp_path, 20)))
    with pytest.raises(Killed):
        run(job, first)
    monkeypatch.undo()
    monkeypatch.setattr(evaluator_task, 'POLL_SECONDS', 0.01)
    # Meanwhile the chief continues, and deletes the checkpoint; the hard link keeps its files.
    save(tmp_path, 30, keep=1 if links else 0)
    job.state.write_finished('num_steps')
    again = Evaluator()
    run(job, again, start_delay_seconds=1000)
    assert first.seen == [(10.0, False)]
    assert again.seen == [(20.0, False), (30.0, True)]
    assert not (tmp_path / 'cluster' / evaluator_task.HELD_FOLDER).exists()


def test_a_job_that_fails_ends_the_evaluator(job, tmp_path):
    supervisor = supervision.Supervisor(job)
    supervisor._find(2, 'the job has failed: chief:0: no records', 0.0)
    with pytest.raises(errors.ClusterError, match='chief:0: no records'):
        evaluator_task.evaluate_until_finished(job, supervisor, Evaluator(), config_of(job))
