"""Marks by which the tasks of a job know how it has ended."""

import pytest
import tensorflow as tf

from estimator_lib.cluster import job_state
from protos import train_pb2

tf1 = tf.compat.v1


def save(folder, step):
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable('a', initializer=1.0)
        session.run(variable.initializer)
        tf1.train.Saver(max_to_keep=0).save(session, str(folder / 'model.ckpt'), global_step=step)


def state(folder, num_steps=10, **early_stopping):
    config = train_pb2.TrainConfig(num_steps=num_steps)
    if early_stopping:
        config.early_stopping.MergeFrom(train_pb2.EarlyStopping(**early_stopping))
    return job_state.JobState(str(folder), config)


def test_a_finished_job_is_finished_for_all_that_start_later(tmp_path):
    save(tmp_path, 10)
    assert state(tmp_path).finished() is None
    state(tmp_path).write_finished('num_steps')
    assert state(tmp_path).finished() == 10


def test_a_job_with_another_goal_is_not_finished(tmp_path):
    save(tmp_path, 10)
    state(tmp_path).write_finished('num_steps')
    assert state(tmp_path, num_steps=20).finished() is None
    assert state(tmp_path, metric='accuracy').finished() is None


def test_a_job_whose_checkpoints_were_deleted_is_not_finished(tmp_path):
    save(tmp_path, 10)
    state(tmp_path).write_finished('num_steps')
    for path in tmp_path.glob('model.ckpt-10*'):
        path.unlink()
    (tmp_path / 'checkpoint').unlink()
    assert state(tmp_path).finished() is None


def test_a_failure_is_that_of_tasks_which_run_now(tmp_path):
    before, another = state(tmp_path), state(tmp_path)
    before.write_failed('worker:1', 'no records', 'first start')
    assert before.failure() == another.failure() == 'worker:1: no records'
    assert state(tmp_path).failure() is None


def test_the_first_failure_stays(tmp_path):
    one, other = state(tmp_path), state(tmp_path)
    one.write_failed('worker:1', 'no records', 'a')
    other.write_failed('chief:0', 'the job has failed', 'b')
    assert other.failure() == 'worker:1: no records'


def test_a_finished_job_has_not_failed(tmp_path):
    save(tmp_path, 10)
    made = state(tmp_path)
    made.write_failed('worker:1', 'no records', 'a')
    made.write_finished('num_steps')
    assert made.failure() is None


def test_a_mark_that_cannot_be_written_is_not_the_end(tmp_path, caplog):
    (tmp_path / 'file').write_text('')
    job_state.write_state(str(tmp_path / 'file' / 'state.json'), {})
    assert 'cannot write' in caplog.text


def test_half_a_mark_is_none(tmp_path):
    (tmp_path / 'state.json').write_text('{"task":')
    assert job_state.read_state(str(tmp_path / 'state.json')) is None


@pytest.mark.parametrize('content', ['[1]', '"x"', '7', 'null', 1000 * '[', '\xff'])
def test_a_state_file_that_is_json_but_no_object_says_nothing(tmp_path, content):
    job = state(tmp_path)
    for name in ('finished.json', 'failed.json'):
        (tmp_path / 'cluster' / name).write_text(content, encoding='latin-1')
    assert job.finished() is None and job.failure() is None


def test_a_failure_without_a_message_is_one(tmp_path):
    job = state(tmp_path)
    (tmp_path / 'cluster' / 'failed.json').write_text('{}')
    assert job.failure() == 'None: None'


def test_a_lost_peer_has_a_status_that_schedulers_try_again():
    with pytest.raises(SystemExit) as caught:
        raise job_state.PeerLost('worker:1 is gone')
    assert caught.value.code == job_state.PEER_LOST_STATUS >= 128
    assert str(caught.value) == 'worker:1 is gone'
