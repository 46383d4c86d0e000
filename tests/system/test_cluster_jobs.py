"""Whole jobs with real processes: they end by themselves, log their waits, and survive.

The campaign of all modes, roles and moments is `make chaos`; this is a small part of it.
"""

import csv
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from estimator_lib.cluster import local_processes
from tests import tiny_data
from tests.conftest import ROOT
from tests.test_run_train_eval import front_door as in_this_process

pytestmark = pytest.mark.usefixtures('forked_processes')

# The machine may be busy: a bound on what must not hang, not an expectation.
SECONDS = 400.0


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Records and the config of a network of few layers, which is not what is tested."""
    folder = tmp_path_factory.mktemp('cluster_data')
    tiny_data.write_all(folder).write_text(tiny_data.LENET_CONFIG.format(folder=folder))
    return folder


class Run:
    """A cluster of the front door, and what its tasks write."""

    def __init__(self, data, model_dir, settings, restart=0, **roles):
        self.lines = []
        self.model_dir = model_dir
        command = [
            sys.executable,
            str(ROOT / 'run_train_eval.py'),
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={data / "pipeline.config"}',
            *(f'--set={setting}' for setting in settings),
        ]
        self.addresses = local_processes.build_addresses(**roles)
        self.cluster = local_processes.LocalCluster(self.addresses, command, self._take, restart)

    def _take(self, name, line):
        self.lines.append(f'{name} {line}')

    def wait(self, done):
        deadline = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < deadline, '\n'.join(self.lines)
            self.cluster.poll()
            time.sleep(0.1)

    def wait_for_all(self):
        self.wait(lambda: not self.cluster.running)
        return self.cluster.ended

    def wait_for_line(self, *parts):
        self.wait(lambda: any(all(part in line for part in parts) for line in list(self.lines)))

    def __enter__(self):
        self.cluster.start()
        return self

    def __exit__(self, *args):
        self.cluster.stop()


def test_a_job_of_all_roles_survives_ends_by_itself_and_is_evaluated(data, tmp_path):
    settings = [
        'train_config.num_steps=600',
        'train_config.checkpoints.save_every_n_steps=300',
        'export_config.final.enabled=true',
    ]
    roles = {'num_workers': 1, 'num_ps': 1, 'evaluator': True}
    with Run(data, tmp_path, settings, restart=1, **roles) as run:
        run.wait_for_line('chief:0', 'step 10/')
        run.cluster.task('ps:0').send(signal.SIGKILL)
        ended = run.wait_for_all()
    assert ended == {'chief:0': 0, 'worker:0': 0, 'ps:0': 0, 'evaluator:0': 0}, run.lines
    finished = json.loads((tmp_path / 'cluster' / 'finished.json').read_text())
    metrics = json.loads((tmp_path / 'metrics.json').read_text())
    assert metrics['global_step'] == finished['step'] >= 600
    for kind in ('best', 'latest', 'final'):
        assert list((tmp_path / 'export' / kind).glob('*/saved_model.pb'))
    assert list((tmp_path / 'eval_0').glob('events*'))
    # The evaluator writes the table; what the chief has trained is in it.
    with open(tmp_path / 'results.csv', newline='') as file:
        lines = list(csv.DictReader(file))
    last = lines[-1]
    # The loss is the mean of those recorded since the line before: there may be none.
    assert any(line['train/loss'] and float(line['train/loss']) > 0 for line in lines)
    assert int(last['step']) == finished['step']
    assert float(last['eval_0/accuracy']) == metrics['0']['accuracy']
    assert (tmp_path / 'results.png').exists()
    (start,) = json.loads((tmp_path / 'run.json').read_text())['starts']
    assert (start['status'], start['last_step']) == ('finished', finished['step'])


def test_all_workers_end_with_143_when_one_is_told_to_and_the_chief_has_saved(data, tmp_path):
    """Each waits for the gradients of the other: one that left alone would make the other hang."""
    settings = [
        'train_config.num_steps=100000',
        'train_config.checkpoints.save_every_n_steps=99999',
        'train_config.sync_replicas=true',
    ]
    with Run(data, tmp_path, settings, num_workers=1, num_ps=1) as run:
        run.wait_for_line('worker:0', 'trains, from step')
        run.wait_for_line('worker:0', ' step ', '  loss ')
        told = time.monotonic()
        run.cluster.task('worker:0').send(signal.SIGTERM)
        run.wait(lambda: len(run.cluster.ended) == 2)
        seconds = time.monotonic() - told
    assert run.cluster.ended['chief:0'] == run.cluster.ended['worker:0'] == 143, run.lines
    assert run.cluster.ended['ps:0'] == 143
    assert seconds < 60
    assert tf.train.latest_checkpoint(str(tmp_path)).rpartition('-')[2] != '0'


def children(pid):
    """The environments of a process's children."""
    with open(f'/proc/{pid}/task/{pid}/children') as file:
        for child in file.read().split():
            with open(f'/proc/{child}/environ', 'rb') as environ:
                yield dict(one.split('=', 1) for one in environ.read().decode().split('\0') if one)


@pytest.mark.skipif(
    subprocess.run(
        ['sh', '-c', 'unshare -n true || unshare -rn true'], capture_output=True
    ).returncode
    != 0,
    reason='the kernel allows no network namespaces',
)
def test_the_ports_of_a_launched_cluster_are_open_to_its_tasks_alone(
    data, tmp_path, started_processes
):
    command = [
        *(sys.executable, '-m', 'estimator_lib.launch_local', '--num_workers=0', '--num_ps=1'),
        *('--', f'--model_dir={tmp_path}', '--mode=train', '--num_train_steps=4'),
        f'--pipeline_config_path={data / "pipeline.config"}',
        '--set=train_config.progress.every_n_steps=1',
    ]
    lines, refused = [], []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as launcher:
        for line in launcher.stderr:
            lines.append(line)
            if 'step 1/' not in line:
                continue
            config = json.loads(next(children(launcher.pid))['TF_CONFIG'])
            for tasks in config['cluster'].values():
                host, port = tasks[0].split(':')
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((host, int(port)), timeout=5)
                refused.append(host)
    # That it has trained with a parameter server shows that the tasks reach each other.
    assert launcher.returncode == 0, ''.join(lines)
    assert refused == ['127.0.0.1'] * 2


def environment(addresses, role, index):
    return {**os.environ, 'TF_CONFIG': local_processes.tf_config(addresses, role, index)}


def front_door(data, model_dir, *arguments, **options):
    return subprocess.run(
        [
            sys.executable,
            ROOT / 'run_train_eval.py',
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={data / "pipeline.config"}',
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **options,
    )


def trained_here(data, model_dir, *flags):
    config = f'--pipeline_config_path={data / "pipeline.config"}'
    return in_this_process(f'--model_dir={model_dir}', config, *flags)


def test_a_task_that_waits_says_for_whom_and_gives_up(data, tmp_path):
    addresses = local_processes.build_addresses(num_workers=1, num_ps=1)
    done = front_door(
        data,
        tmp_path,
        '--set=train_config.cluster.wait_timeout_seconds=6',
        env=environment(addresses, 'worker', 0),
    )
    assert done.returncode == 2, done.stderr
    server = f'ps:0 ({addresses["ps"][0]})'
    assert f'worker:0 waits for {server} to listen: 5 s (gives up after 6 s)' in done.stderr
    assert f'error: worker:0 has waited 6 s for {server} to listen' in done.stderr
    assert 'Traceback' not in done.stderr


def test_an_evaluator_beside_a_finished_run_of_one_machine_ends(data, tmp_path):
    """The run has ended with its examples, before its last step."""
    flags = ['--set=train_input_reader.num_epochs=1', '--set=eval_config.num_visualizations=0']
    assert trained_here(data, tmp_path, *flags, '--mode=train') == 0
    (tmp_path / 'metrics.json').unlink(missing_ok=True)
    addresses = local_processes.build_addresses(num_workers=1, num_ps=1)
    for what in ('step 4', 'step 4, has been evaluated before'):
        started = environment(addresses, 'evaluator', 0)
        done = front_door(data, tmp_path, *flags, env=started)
        assert done.returncode == 0, done.stderr
        assert what in done.stderr
    assert json.loads((tmp_path / 'metrics.json').read_text())['global_step'] == 4


def test_a_port_that_is_taken_is_named(data, tmp_path):
    addresses = local_processes.build_addresses(num_workers=1, num_ps=1)
    address = addresses['ps'][0]
    with socket.create_server((local_processes.HOST, int(address.split(':')[1]))):
        done = front_door(data, tmp_path, env=environment(addresses, 'ps', 0))
    assert done.returncode == 2, done.stderr
    assert f'another process listens at {address}' in done.stderr


def limit_files(num_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def test_what_cannot_be_written_ends_the_run_and_the_last_checkpoint_stays(data, tmp_path):
    quick = ('--mode=train', '--set=train_config.progress.summary_every_n_steps=0')
    assert trained_here(data, tmp_path, *quick, '--num_train_steps=5') == 0
    done = front_door(
        data,
        tmp_path,
        *quick,
        '--num_train_steps=10',
        preexec_fn=lambda: limit_files(1_000_000),  # more than a graph, less than a checkpoint
    )
    assert done.returncode == 2, done.stderr
    assert f'cannot be written to model_dir {tmp_path}: File too large' in done.stderr
    assert f'the last good one is {tmp_path / "model.ckpt-5"}' in done.stderr
    assert 'Traceback' not in done.stderr
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / 'model.ckpt-5')
    assert trained_here(data, tmp_path, *quick, '--num_train_steps=10') == 0
    assert not list(tmp_path.glob('*temp*'))
