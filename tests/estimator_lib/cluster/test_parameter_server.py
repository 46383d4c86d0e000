"""A parameter server serves until its job is finished, and says whose port is taken."""

import json
import threading
import time

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.cluster import heartbeats, job_state, local_processes, parameter_server
from estimator_lib.cluster.supervision import Supervisor
from tests.estimator_lib.cluster.jobs import job, listening

tf1 = tf.compat.v1


def test_a_port_that_is_taken(tmp_path):
    server, address = listening()
    made = job(tmp_path, {'chief': ['a:1'], 'ps': [address]}, 'ps')
    with server, pytest.raises(errors.ClusterError) as caught:
        parameter_server.start_server(made, tf1.ConfigProto())
    assert str(caught.value).startswith(f'ps:0: another process listens at {address}')


def test_it_holds_variables_until_the_job_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(parameter_server, '_LOOK_SECONDS', 0.05)
    addresses = local_processes.build_addresses(num_workers=0, num_ps=1)
    made = job(tmp_path, addresses, 'ps')
    supervisor = Supervisor(made)
    thread = threading.Thread(
        target=parameter_server.serve, args=(made, supervisor, tf1.ConfigProto()), daemon=True
    )
    thread.start()
    with tf.Graph().as_default(), tf1.device('/job:ps/task:0'):
        variable = tf1.get_variable('v', initializer=3.0)
        client = tf1.train.Server(addresses, job_name='chief', task_index=0)
        with tf1.Session(client.target) as session:
            session.run(variable.initializer)
            assert session.run(variable) == 3.0
    assert supervisor.heart.state == heartbeats.SERVING and thread.is_alive()
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-10"')
    (tmp_path / 'model.ckpt-10.index').write_text('')
    made.state.write_finished('num_steps')
    thread.join(30)
    assert not thread.is_alive()


def test_the_failure_of_another_task_ends_it(tmp_path):
    addresses = local_processes.build_addresses(num_workers=0, num_ps=1)
    made = job(tmp_path, addresses, 'ps')
    supervisor = Supervisor(made)
    job(tmp_path, addresses, 'chief').state.write_failed('chief:0', 'no records', 'x')
    supervisor._judge(0.0)
    with pytest.raises(errors.ClusterError, match='the job has failed: chief:0: no records'):
        parameter_server.serve(made, supervisor, tf1.ConfigProto())
    failed = json.loads((tmp_path / 'cluster' / job_state.FAILED_FILE).read_text())
    assert failed['task'] == 'chief:0'


def wait_for_worker(folder, address, seconds, monkeypatch):
    """Seconds that a server waits, told to end, for a worker that last said that it trains."""
    monkeypatch.setattr(parameter_server, '_LOOK_SECONDS', 0.05)
    monkeypatch.setattr(parameter_server, '_LEAVING_SECONDS', seconds)
    made = job(folder, {'chief': [address], 'ps': ['127.0.0.1:1']}, 'ps')
    supervisor = Supervisor(made)
    heartbeats.Heart(made.state.folder, 'chief:0').tell(heartbeats.TRAINING, step=3)
    supervisor.watch.look()
    assert supervisor.watch.state('chief:0') == heartbeats.TRAINING
    started = time.monotonic()
    parameter_server._wait_for_workers(made, supervisor)
    return time.monotonic() - started


def test_a_worker_that_has_died_in_its_step_is_not_waited_for(tmp_path, monkeypatch):
    server, address = listening()
    server.close()
    assert wait_for_worker(tmp_path, address, 15.0, monkeypatch) < 10.0


def test_a_worker_that_is_about_to_leave_is_served(tmp_path, monkeypatch):
    server, address = listening()
    with server:
        assert wait_for_worker(tmp_path, address, 0.5, monkeypatch) >= 0.5
