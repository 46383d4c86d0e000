"""What a task does by its role; the work itself is the test's."""

import json
import os

import pytest
import tensorflow as tf

from estimator_lib import distribution, errors, tf_estimator
from estimator_lib.cluster import (
    heartbeats,
    job_state,
    local_processes,
    rendezvous,
    running,
    supervision,
    waiting,
)
from estimator_lib.cluster.job import Job
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.evaluation.early_stopping import EarlyStopping
from protos import pipeline_pb2, train_pb2

tf1 = tf.compat.v1

A_HOOK = tf1.train.SessionRunHook()
METRICS = {'0': {'accuracy': 0.5}}


def the_input():
    return None


class Estimator:
    """Raises the errors one after the other, and then has trained."""

    def __init__(self, folder, *failures):
        self.folder, self.failures, self.trained = folder, list(failures), []
        self.hooks, self.saving_listeners = [], []

    def train(self, input_fn, hooks, max_steps, saving_listeners):
        if self.failures:
            raise self.failures.pop(0)
        self.hooks, self.saving_listeners = hooks, saving_listeners
        self.trained.append((input_fn, max_steps))
        finish_checkpoint(self.folder, max_steps)


def finish_checkpoint(folder, step):
    (folder / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{step}"')
    (folder / f'model.ckpt-{step}.index').write_text('')


@pytest.fixture
def addresses(monkeypatch):
    monkeypatch.setattr(running, '_ATTEMPT_SECONDS', 0.0)
    monkeypatch.setattr(waiting, 'POLL_SECONDS', 0.01)
    return local_processes.build_addresses(num_workers=1, num_ps=0, evaluator=True)


def run(folder, addresses, role, estimator=None, create_evaluator=None, **roles):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.num_steps = 10
    config.train_config.cluster.wait_timeout_seconds = 5
    parts = running.Parts(
        create_trainer=lambda: estimator,
        create_input_fn=lambda: the_input,
        chief_hooks=[],
        create_evaluator=create_evaluator,
        finish=lambda: METRICS,
        create_stopping=lambda: None,
        hooks=[A_HOOK],
        saving_listeners=['a listener'],
    )
    tasks = {name: tuple(ports) for name, ports in {**addresses, **roles}.items()}
    cluster = Cluster(tasks, role, 0)
    return running.run_task(cluster, config, str(folder), tf1.ConfigProto(), parts)


def read(folder, name):
    path = folder / 'cluster' / name
    return json.loads(path.read_text()) if path.exists() else None


def alone(addresses):
    """A chief without workers: it trains as with parameter servers, of which there are none."""
    return {'chief': addresses['chief']}


def test_a_chief_trains_finishes_the_job_and_evaluates(tmp_path, addresses):
    estimator = Estimator(tmp_path)
    assert run(tmp_path, alone(addresses), 'chief', estimator) == METRICS
    assert estimator.trained == [(the_input, 10)]
    assert read(tmp_path, job_state.FINISHED_FILE)['step'] == 10
    beat = read(tmp_path, 'heartbeat_chief_0.json')
    assert (beat['state'], beat['status']) == (heartbeats.ENDED, 0)
    # Started again, it does not train.
    assert run(tmp_path, alone(addresses), 'chief', estimator) == METRICS
    assert len(estimator.trained) == 1


def test_a_chief_beyond_the_last_step_says_that_nothing_is_trained(tmp_path, addresses, caplog):
    finish_checkpoint(tmp_path, 12)
    run(tmp_path, alone(addresses), 'chief', Estimator(tmp_path))
    assert 'is of step 12, and num_steps is 10' in caplog.text
    assert [each.levelname for each in caplog.records if 'nothing is trained' in each.message] == [
        'WARNING'
    ]


def test_hooks_join_every_worker_and_listeners_the_chief(tmp_path, addresses, monkeypatch):
    chief, worker = Estimator(tmp_path), Estimator(tmp_path)
    run(tmp_path / 'of_chief', alone(addresses), 'chief', chief)
    assert A_HOOK in chief.hooks and chief.saving_listeners == ['a listener']
    monkeypatch.setattr(waiting, 'wait_for', lambda *arguments, **options: True)
    run(tmp_path / 'of_worker', addresses, 'worker', worker)
    assert A_HOOK in worker.hooks and not worker.saving_listeners


def test_all_reduce_of_tensorflow_reads_a_master_as_the_chief(tmp_path, monkeypatch):
    ports = local_processes.build_addresses(num_workers=1, num_ps=0)
    estimator = tf_estimator.Estimator(lambda features, labels, mode: None, str(tmp_path))
    described = {
        'cluster': {'master': ports['chief'], 'worker': ports['worker']},
        'task': {'type': 'master', 'index': 0},
    }
    seen = []
    monkeypatch.setenv('TF_CONFIG', json.dumps(described))
    monkeypatch.setattr(rendezvous, 'join', lambda job, supervisor: True)
    monkeypatch.setattr(
        tf_estimator,
        'train_and_evaluate',
        lambda *arguments: seen.append(json.loads(os.environ['TF_CONFIG'])),
    )
    run(tmp_path, distribution.read_tf_config().addresses, 'chief', estimator)
    # Its coordinator reads the variable, and refuses a master.
    assert seen == [
        {
            'cluster': {'chief': ports['chief'], 'worker': ports['worker']},
            'task': {'type': 'chief', 'index': 0},
        }
    ]
    assert json.loads(os.environ['TF_CONFIG']) == described


def test_the_chief_leaves_the_end_to_an_evaluator(tmp_path, addresses):
    tasks = {**alone(addresses), 'evaluator': addresses['evaluator']}
    estimator = Estimator(tmp_path)
    assert run(tmp_path, tasks, 'chief', estimator, create_evaluator=lambda: None) == {}


def test_a_worker_of_a_finished_job_has_nothing_to_do(tmp_path, addresses):
    run(tmp_path, alone(addresses), 'chief', Estimator(tmp_path))
    assert run(tmp_path, addresses, 'worker', Estimator(tmp_path, AssertionError())) == {}


def test_a_lost_session_is_opened_anew(tmp_path, addresses, caplog):
    lost = tf.errors.UnavailableError(None, None, 'the server is gone\nat length')
    estimator = Estimator(tmp_path, lost, lost)
    run(tmp_path, alone(addresses), 'chief', estimator)
    assert len(estimator.trained) == 1
    lines = [one.message for one in caplog.records if 'opens another' in one.message]
    assert lines == ['chief:0 has lost its session and opens another: the server is gone'] * 2


def test_sessions_without_a_step_are_not_opened_for_ever(tmp_path, addresses):
    lost = tf.errors.AbortedError(None, None, 'again')
    estimator = Estimator(tmp_path, *[lost] * 20)
    with pytest.raises(errors.ClusterError, match='has opened 20 sessions in succession'):
        run(tmp_path, alone(addresses), 'chief', estimator)


@pytest.mark.parametrize(
    'error, status', [(ValueError('a bug\nat length'), 1), (errors.DataError('no records'), 2)]
)
def test_a_failure_is_told_to_all(tmp_path, addresses, error, status):
    with pytest.raises(type(error)):
        run(tmp_path, alone(addresses), 'chief', Estimator(tmp_path, error))
    failed = read(tmp_path, job_state.FAILED_FILE)
    assert (failed['task'], failed['message']) == ('chief:0', str(error).splitlines()[0])
    assert read(tmp_path, 'heartbeat_chief_0.json')['status'] == status
    assert read(tmp_path, job_state.FINISHED_FILE) is None


def test_an_evaluator_without_evaluations_ends(tmp_path, addresses):
    assert run(tmp_path, addresses, 'evaluator') == {}
    assert read(tmp_path, 'heartbeat_evaluator_0.json')['status'] == 0


@pytest.fixture
def trainer(tmp_path):
    """Build the chief of a job whose latest checkpoint is of a step; what it does is noted."""

    def make(latest_step, stopped_at):
        (tmp_path / f'model.ckpt-{latest_step}.index').touch()
        (tmp_path / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{latest_step}"\n')
        path = str(tmp_path / 'eval_0' / 'early_stopping.json')
        for index, step in enumerate((stopped_at - 4, stopped_at - 2, stopped_at)):
            EarlyStopping('m', path=path).update(step, {'m': -index})
        config = train_pb2.TrainConfig(num_steps=40)
        cluster = Cluster({'chief': ('h:1',), 'ps': ('h:2',)}, 'chief', 0)
        job = Job(cluster, config, str(tmp_path), job_state.JobState(str(tmp_path), config))
        parts = running.Parts(
            create_trainer=None,
            create_input_fn=None,
            chief_hooks=[],
            create_evaluator=None,
            finish=lambda: {},
            create_stopping=lambda: EarlyStopping(
                'm', patience_evaluations=2, path=path, run_step=latest_step
            ),
        )
        made = running._Worker(job, supervision.Supervisor(job), None, parts)
        made._train = lambda: trained.append(made._stopping)
        return made, job

    trained = []
    make.trained = trained
    return make


def test_a_job_that_early_stopping_has_ended_does_not_go_on(trainer):
    chief, job = trainer(latest_step=9, stopped_at=8)
    chief.run()
    assert trainer.trained == []
    assert job.state.finished() == 9


def test_the_chief_of_a_new_run_knows_nothing_of_an_older_one(trainer):
    chief, _ = trainer(latest_step=0, stopped_at=8)
    chief.run()
    (stopping,) = trainer.trained
    assert not any(stopping.another_says_stop(step) for step in (1, 9))
