"""The task of docs/external_task.md, from a package outside of this tree, by processes."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures('forked_processes')

PAGE = (ROOT / 'docs' / 'external_task.md').read_text()
VALUES = (0, 50, 100, 150, 200, 250)  # gray levels of the images


def block(part):
    """Return the block of code of the page that has this part."""
    blocks = re.findall(r'^```\w*\n(.*?)^```', PAGE, re.M | re.S)
    (found,) = [text for text in blocks if part in text]
    return found


def commands():
    """Return the command lines of the page, by mode; that of the launcher by its module."""
    lines = block('--mode=check').splitlines()
    modes = [re.search(r'--mode=(\w+)|launch_local', line) for line in lines]
    return {
        mode[1] or mode[0] if mode else 'train_and_evaluate': line.split()[1:]
        for mode, line in zip(modes, lines)
    }


def write_package(folder):
    package = folder / 'site' / 'brightness'
    package.mkdir(parents=True)
    (package / '__init__.py').write_text('')
    (package / 'task.py').write_text(block('class Brightness'))


def write_records(folder):
    for name in ('train', 'val'):
        with tf.io.TFRecordWriter(str(folder / f'{name}.tfrecord')) as writer:
            for value in VALUES:
                example = tf.train.Example()
                image = tf.fill([24, 30, 3], tf.cast(value, tf.uint8))
                feature = example.features.feature
                feature['image/encoded'].bytes_list.value.append(tf.io.encode_png(image).numpy())
                feature['image/value'].float_list.value.append(value / 255.0)
                writer.write(example.SerializeToString())
    (folder / 'photos').mkdir()
    Image.new('RGB', (30, 24), (100, 100, 100)).save(folder / 'photos' / 'gray.png')


def run(folder, *command):
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(folder / 'site'), str(ROOT)])}
    ended = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Return a folder with the package, records and the config of the page, in fewer steps."""
    folder = tmp_path_factory.mktemp('external')
    write_package(folder)
    write_records(folder)
    config = block('train_config {').replace('num_steps: 60', 'num_steps: 4')
    (folder / 'brightness.config').write_text(config)
    return folder


# Several command lines in one process, which imports the package once.
IN_TURN = """
import json, sys
import run_train_eval

for command in json.loads(sys.argv[1]):
    run_train_eval.main(['run_train_eval.py', *command])
"""


@pytest.fixture(scope='module')
def printed(folder, forked_processes):
    """Return what the command lines of the page print, but for that of the launcher."""
    trained = run(folder, ROOT / 'run_train_eval.py', *commands()['train_and_evaluate'])
    rest = [commands()[mode] for mode in ('check', 'evaluate', 'export', 'predict')]
    of_checkpoint = ['--model_dir=run', '--images=photos/', '--output_dir=of_checkpoint']
    rest.append(['--mode=predict', *of_checkpoint])
    return trained.stdout, run(folder, '-c', IN_TURN, json.dumps(rest)).stdout


def test_it_is_trained_evaluated_and_checked(folder, printed):
    metrics = json.loads((folder / 'run' / 'metrics.json').read_text())
    assert metrics['global_step'] == 4
    value = metrics['0']['mean_absolute_error']
    trained, rest = printed
    assert 'exported model, the last: run/export/final/' in trained
    assert f'mean_absolute_error = {value:.6g}' in rest
    assert 'no problem found' in rest


def test_it_predicts_what_its_weights_compute(folder, printed):
    predictions = [
        json.loads((folder / name / 'predictions.json').read_text())['photos/gray.png']['value']
        for name in ('predictions', 'of_checkpoint')
    ]
    reader = tf.train.load_checkpoint(str(folder / 'run'))
    # Each 3 x 3 window of a gray image is the same, but for those at the right and lower border,
    # where stride 2 reaches one row or column behind the image.
    kernel = reader.get_tensor('conv/weights').sum(axis=2)
    level = 100 / 255
    inner, right, lower, corner = (
        np.maximum(level * part.sum(axis=(0, 1)), 0)
        for part in (kernel, kernel[:, :2], kernel[:2], kernel[:2, :2])
    )
    mean = (49 * inner + 7 * right + 7 * lower + corner) / 64
    expected = mean @ reader.get_tensor('value/weights')
    assert predictions == pytest.approx([expected] * 2, rel=1e-4, abs=1e-5)


def test_it_trains_in_a_cluster_of_processes(folder):
    run(folder, *commands()['launch_local'])
    assert tf.train.load_variable(str(folder / 'job'), 'global_step') >= 4
    finished = json.loads((folder / 'job' / 'cluster' / 'finished.json').read_text())
    assert finished['step'] >= 4
