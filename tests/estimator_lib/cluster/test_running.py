"""What the chief of a job does when an earlier start has ended the training."""

import pytest

from estimator_lib.cluster import job_state, running, supervision
from estimator_lib.cluster.job import Job
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.evaluation.early_stopping import EarlyStopping
from protos import train_pb2


@pytest.fixture
def trainer(tmp_path):
    """Makes the chief of a job whose latest checkpoint is of a step; what it does is noted."""

    def make(latest_step, stopped_at):
        (tmp_path / f'model.ckpt-{latest_step}.index').touch()
        (tmp_path / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{latest_step}"\n')
        path = str(tmp_path / 'eval_0' / 'early_stopping.json')
        for index, step in enumerate((stopped_at - 4, stopped_at - 2, stopped_at)):
            EarlyStopping('m', path=path).update(step, {'m': -index})
        config = train_pb2.TrainConfig(num_steps=40)
        cluster = Cluster({'chief': ('h:1',), 'ps': ('h:2',)}, 'chief', 0)
        job = Job(cluster, config, str(tmp_path), job_state.JobMarks(str(tmp_path), config))
        parts = running.Parts(
            create_estimator=None,
            create_input_fn=None,
            chief_hooks=[],
            create_evaluator=None,
            finish=lambda: {},
            create_stopping=lambda: EarlyStopping(
                'm', patience_evaluations=2, path=path, run_step=latest_step
            ),
        )
        made = running._Trainer(job, supervision.Supervisor(job), None, parts)
        made._train = lambda: trained.append(made._stopping)
        return made, job

    trained = []
    make.trained = trained
    return make


def test_a_job_that_early_stopping_has_ended_does_not_go_on(trainer):
    chief, job = trainer(latest_step=9, stopped_at=8)
    chief.run()
    assert trainer.trained == []
    assert job.marks.finished() == 9


def test_the_chief_of_a_new_run_knows_nothing_of_an_older_one(trainer):
    chief, _ = trainer(latest_step=0, stopped_at=8)
    chief.run()
    (stopping,) = trainer.trained
    assert not any(stopping.another_says_stop(step) for step in (1, 9))
