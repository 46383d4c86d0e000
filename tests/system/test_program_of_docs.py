"""The program of the page about Python, alone and as every task of a cluster."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_lib.cluster import local_processes
from tests import tiny_data

pytestmark = pytest.mark.usefixtures('forked_processes')

tf1 = tf.compat.v1

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program_of_the_docs():
    """The program of the page about Python."""
    page = (ROOT / 'docs' / 'python.md').read_text(encoding='utf-8')
    return re.search(r'```python\n(import sys\n.*?)```', page, re.DOTALL).group(1)


def start(program, config, model_dir, addresses, role, log):
    """A task of a cluster, as a process that runs a user's program."""
    return subprocess.Popen(
        [sys.executable, str(program), str(config), str(model_dir)],
        env={
            **os.environ,
            'PYTHONPATH': str(ROOT),
            'TF_CPP_MIN_LOG_LEVEL': '2',
            'TF_CONFIG': local_processes.tf_config(addresses, role, 0),
        },
        stderr=log,
    )


def tags_of_evaluation(model_dir):
    (path,) = (model_dir / 'eval').glob('events*')
    return {
        one.tag for event in tf1.train.summary_iterator(str(path)) for one in event.summary.value
    }


@pytest.fixture
def classifier(tmp_path):
    path = tiny_data.write_all(tmp_path)
    config = tiny_data.LENET_CONFIG.format(folder=tmp_path)
    # A worker begins at once, whether the others are at its step already or not.
    path.write_text(config.replace('train_config {', 'train_config { startup_delay_steps: 0', 1))
    return path


def test_the_program_of_the_docs_runs_without_v2_behavior(classifier, tmp_path):
    program = tmp_path / 'program.py'
    v1 = 'import tensorflow as tf\n\ntf.compat.v1.disable_v2_behavior()\n'
    program.write_text(v1 + program_of_the_docs())
    done = subprocess.run(
        [sys.executable, str(program), str(classifier), str(tmp_path / 'run')],
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'TF_CPP_MIN_LOG_LEVEL': '2'},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert tf.train.latest_checkpoint(str(tmp_path / 'run')).endswith('-4')
    assert 'accuracy' in tags_of_evaluation(tmp_path / 'run')


def test_the_program_of_the_docs_is_every_task_of_a_cluster(classifier, tmp_path):
    program = tmp_path / 'program.py'
    program.write_text(program_of_the_docs())
    addresses = local_processes.build_addresses(num_workers=1, num_ps=1)
    with contextlib.ExitStack() as stack:
        tasks = {}
        for role in ('chief', 'worker', 'ps', 'evaluator'):
            log = stack.enter_context(open(tmp_path / f'{role}.txt', 'wb'))
            task = start(program, classifier, tmp_path / 'run', addresses, role, log)
            tasks[role] = stack.enter_context(task)
            stack.callback(task.kill)
        for role in ('chief', 'worker', 'evaluator'):
            status = tasks[role].wait(timeout=300)
            assert status == 0, (tmp_path / f'{role}.txt').read_text()
        # TensorFlow's own parameter server waits for ever.
        assert tasks['ps'].poll() is None
    # An evaluator that looks for checkpoints without a pause warns of it, thousands of times.
    assert 'throttle_secs' not in (tmp_path / 'evaluator.txt').read_text()
    assert tf.train.latest_checkpoint(str(tmp_path / 'run')).endswith('-4')
    assert {'accuracy', 'Loss/total_loss'} <= tags_of_evaluation(tmp_path / 'run')
