"""run.json: the starts of a run."""

import json
import os
import shlex
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from estimator_lib import distribution
from estimator_lib.data import inputs
from estimator_lib.processes import process_identity
from estimator_lib.run_records import run_file
from estimator_lib.run_records.run_file import FAILED, FINISHED, RunFile
from tests.estimator_lib import line_task


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def start(folder, config):
    """Begin a run whose training data is all that it reads."""
    found = RunFile(
        str(folder), config, {'train': config.train_input_reader}, distribution.alone(config)
    )
    found.begin()
    return found


def starts(folder):
    return json.loads((folder / 'run.json').read_text())['starts']


def test_a_start_says_what_runs_where_on_which_data(config, tmp_path):
    config.train_config.random_seed = 17
    start(tmp_path, config)
    (entry,) = starts(tmp_path)
    assert shlex.split(entry['command']) == sys.argv
    assert entry['versions']['tensorflow'] == tf.__version__
    assert entry['versions']['python'] == sys.version.split()[0]
    assert entry['machine']['cpu_cores'] == os.cpu_count()
    assert entry['machine']['gpus'] == [] or tf.config.list_physical_devices('GPU')
    assert entry['machine']['memory_bytes'] > 1 << 28 and entry['machine']['cpu']
    assert (entry['seed'], entry['process_id']) == (17, os.getpid())
    size = (tmp_path / 'points.tfrecord').stat().st_size
    data = entry['data']['train']
    assert (data['files'], data['bytes'], data['records']) == (1, size, 4)
    assert (entry['status'], entry['ended'], entry['first_step']) == ('running', None, 0)
    assert entry['distribution'] == {'mode': 'ONE_DEVICE', 'workers': [], 'replicas': 1}


def test_a_start_of_a_cluster_has_its_workers(config, tmp_path):
    addresses = {'chief': ('a:1',), 'worker': ('b:1', 'c:1'), 'evaluator': ('d:1',)}
    cluster = distribution.Cluster(addresses, 'chief', 0)
    devices = ('/device:GPU:0', '/device:GPU:1')
    plan = distribution.Plan(distribution.Mode.MULTI_WORKER_MIRRORED, cluster, devices)
    RunFile(str(tmp_path), config, {}, plan).begin()
    (entry,) = starts(tmp_path)
    assert entry['distribution'] == {
        'mode': 'MULTI_WORKER_MIRRORED',
        'workers': ['chief:0', 'worker:0', 'worker:1'],
        'replicas': 6,
    }


def test_the_end_adds_time_memory_and_the_last_step(config, tmp_path):
    begun = time.monotonic()
    entry = start(tmp_path, config)
    block = bytearray(os.urandom(1 << 20)) * 64  # the peak is at least this
    peak = len(block)
    del block
    (tmp_path / 'model.ckpt-6.index').write_bytes(b'')
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-6"')
    entry.end(FINISHED)
    (ended,) = starts(tmp_path)
    assert (ended['status'], ended['first_step'], ended['last_step']) == ('finished', 0, 6)
    assert 0 <= ended['seconds'] <= time.monotonic() - begun
    assert peak < ended['peak_memory_bytes'] < 1 << 40
    assert ended['started'] <= ended['ended']


def test_a_start_after_a_kill_adds_an_entry(config, tmp_path):
    start(tmp_path, config)
    start(tmp_path, config).end(FAILED)
    second = start(tmp_path, config)
    assert [entry['status'] for entry in starts(tmp_path)] == ['killed', 'failed', 'running']
    second.end(FINISHED)
    assert [entry['status'] for entry in starts(tmp_path)] == ['killed', 'failed', 'finished']


def test_a_killed_process_is_told_before_the_next_start(config, tmp_path):
    """Leave an entry that says running, of a process that has ended without a word."""
    path = str(tmp_path / 'run.json')
    start(tmp_path, config)
    assert run_file.read_starts(path)[0]['status'] == 'running'
    assert 'is still running' in run_file.describe_last_start(str(tmp_path))
    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as process:
        (entry,) = starts(tmp_path)
        entry['process_id'] = process.pid
        entry['process_start'] = process_identity.start_time(process.pid)
        (tmp_path / 'run.json').write_text(json.dumps({'starts': [entry]}))
        assert run_file.read_starts(path)[0]['status'] == 'running'
        process.kill()
        process.wait()
        assert run_file.read_starts(path)[0]['status'] == 'killed'
    said = run_file.describe_last_start(str(tmp_path))
    assert said.startswith(f'its last start (process {process.pid} on host ')
    assert said.endswith(') was killed, or its machine has failed')
    for changes in ({'process_machine': 'another'}, {'process_start': None}):
        (tmp_path / 'run.json').write_text(json.dumps({'starts': [{**entry, **changes}]}))
        assert run_file.read_starts(path)[0]['status'] == 'running'  # nothing is known of it
    start(tmp_path, config).end(FINISHED)
    assert run_file.describe_last_start(str(tmp_path)) == ''


def test_a_run_that_has_lost_its_folder_leaves_the_entry_of_the_other_run(
    config, tmp_path, monkeypatch
):
    lost = start(tmp_path, config)
    with monkeypatch.context() as patch:
        patch.setattr(run_file.os, 'getpid', lambda: -5)
        start(tmp_path, config)
    lost.end(FAILED)
    found = [(entry['process_id'], entry['status']) for entry in starts(tmp_path)]
    assert found == [(os.getpid(), 'failed'), (-5, 'running')]


def test_starts_are_in_the_order_of_their_numbers_whatever_clocks_say(
    config, tmp_path, monkeypatch
):
    for number, clock in enumerate(('2026-03-02', '2026-03-01', '1970-01-01'), 1):
        monkeypatch.setattr(run_file, '_now', lambda clock=clock: clock)
        start(tmp_path, config).end(FINISHED)
        assert [entry['number'] for entry in starts(tmp_path)] == list(range(1, number + 1))
    assert starts(tmp_path)[0]['started'] == '2026-03-02'


def test_starts_of_earlier_versions_get_numbers(config, tmp_path):
    earlier = [{'started': '2026', 'status': 'finished'}, {'started': '2025', 'status': 'failed'}]
    (tmp_path / 'run.json').write_text(json.dumps({'starts': earlier}))
    start(tmp_path, config)
    assert [entry['number'] for entry in starts(tmp_path)] == [1, 2, 3]
    assert [entry['started'] for entry in starts(tmp_path)][:2] == ['2026', '2025']


def test_the_file_has_the_last_starts_only(config, tmp_path, monkeypatch):
    monkeypatch.setattr(run_file, '_MOST_STARTS', 3)
    for seed in range(5):
        config.train_config.random_seed = seed
        start(tmp_path, config)
    assert [entry['seed'] for entry in starts(tmp_path)] == [2, 3, 4]


@pytest.mark.parametrize(
    'content',
    [
        *('{', '[]', '{"starts": 3}', '{"starts": [3]}'),
        '{"starts": [{"started": 5}]}',
        '{"starts": [{"first_step": "x"}]}',
        '{"starts": [{"distribution": [1]}]}',
        '{"starts": [{"first_step": 1e400}]}',
        '{"starts": [{"first_step": ' + '9' * 5000 + '}]}',
        '[' * 100_000,
    ],
)
def test_a_damaged_file_is_set_aside_with_a_sentence(config, tmp_path, content, caplog):
    (tmp_path / 'run.json').write_text(content)
    start(tmp_path, config)
    assert len(starts(tmp_path)) == 1
    assert (tmp_path / 'run.1.json').read_text() == content
    assert f'The file is {tmp_path}/run.1.json now, and a new one begins.' in caplog.text
    start(tmp_path, config)
    assert len(starts(tmp_path)) == 2 and not (tmp_path / 'run.2.json').exists()


def test_digest_and_fingerprint_tell_what_has_changed(config, tmp_path):
    """The data counts by name and size, wherever it is."""

    def facts():
        start(tmp_path, config)
        entry = starts(tmp_path)[-1]
        return entry['config']['sha256'], entry['data']['train']['sha256']

    first = facts()
    assert facts() == first
    config.train_config.num_steps += 1
    second = facts()
    assert second[0] != first[0] and second[1] == first[1]
    copy = tmp_path / 'copy' / 'points.tfrecord'
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / 'points.tfrecord').read_bytes())
    config.train_input_reader.tf_record_input_reader.input_path[:] = [str(copy)]
    assert facts()[1] == first[1]
    line_task.write_points(copy, [1.0] * 5)
    assert facts()[1] != first[1]


def test_records_are_counted_where_that_is_fast_or_was_done_before(config, tmp_path, monkeypatch):
    monkeypatch.setattr(run_file, '_COUNTED_BYTES', 10)
    reader = config.train_input_reader
    line_task.write_points(tmp_path / 'points.tfrecord', [1.0] * 7)
    start(tmp_path, config)
    assert starts(tmp_path)[-1]['data']['train']['records'] is None
    inputs.count_records(inputs.input_files(reader))
    start(tmp_path, config)
    assert starts(tmp_path)[-1]['data']['train']['records'] == 7


def test_data_that_is_not_in_record_files_is_null(config, tmp_path):
    config.train_input_reader.ClearField('tf_record_input_reader')
    start(tmp_path, config)
    assert starts(tmp_path)[0]['data'] == {'train': None}


def git(folder, *arguments):
    who = ['-c', 'user.name=A', '-c', 'user.email=a@b']
    done = subprocess.run(['git', '-C', folder, *who, *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


def test_the_commit_is_that_of_the_package_s_own_folder(tmp_path, monkeypatch):
    work, other = tmp_path / 'work', tmp_path / 'other'
    work.mkdir()
    other.mkdir()
    monkeypatch.setattr(run_file, '__file__', str(work / 'estimator_lib' / 'b' / 'c.py'))
    git(other, 'init')
    monkeypatch.chdir(other)
    assert run_file._read_git() is None  # an installed package
    git(work, 'init')
    assert run_file._read_git() is None  # without a commit
    (work / 'a').write_text('1')
    git(work, 'add', 'a')
    git(work, 'commit', '-m', 'a')
    commit = git(work, 'rev-parse', 'HEAD')
    (work / 'data').write_text('not a file of the repository')
    assert run_file._read_git() == {'commit': commit, 'has_changes': False}
    (work / 'a').write_text('2')
    assert run_file._read_git() == {'commit': commit, 'has_changes': True}


def test_a_hostile_repository_in_the_working_folder_runs_nothing(tmp_path, monkeypatch):
    """`git status` runs the program that `core.fsmonitor` of a repository names."""
    git(tmp_path, 'init')
    (tmp_path / 'a').write_text('1')
    git(tmp_path, 'add', 'a')
    git(tmp_path, 'commit', '-m', 'a')
    program = tmp_path / 'hostile.sh'
    program.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\n')
    program.chmod(0o755)
    git(tmp_path, 'config', 'core.fsmonitor', program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_file, '__file__', '/site/estimator_lib/run_records/run_file.py')
    assert run_file._read_git() is None
    assert not (tmp_path / 'ran').exists()


def test_there_is_no_commit_without_git(tmp_path, monkeypatch):
    git(tmp_path, 'init')
    monkeypatch.setattr(run_file, '__file__', str(tmp_path / 'estimator_lib' / 'b' / 'c.py'))
    monkeypatch.setenv('PATH', str(tmp_path))
    assert run_file._read_git() is None
