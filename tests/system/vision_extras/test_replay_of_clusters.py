"""Steps of a cluster's run, repeated by one process."""

import csv
import json
import subprocess
import sys

import pytest

from tests import any_machines
from tests.any_machines import Shape
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures('forked_processes')

# What differs between replicas: dropout, and partners of a mixture.
CONFIG = """
model {{
  classification {{
    num_classes: 3
    labels_offset: 1
    image_height: 8
    image_width: 8
    dropout_keep_prob: 0.5
    backbone {{ name: 'lenet' weight_decay: 0.001 }}
  }}
}}
train_config {{
  batch_size: 8
  optimizer {{
    momentum_optimizer {{
      momentum_optimizer_value: 0.9
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }}
    }}
  }}
  gradient_clipping_by_norm: 8.0
  checkpoints {{ save_every_n_steps: 2 keep_max: 9 }}
  progress {{ summary_every_n_steps: 1 }}
  data_augmentation_options {{ random_horizontal_flip {{ }} }}
  data_augmentation_options {{ mixup {{ }} }}
}}
train_input_reader {{
  label_map_path: '{folder}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{folder}/train*.tfrecord' }}
}}
"""
CLUSTER = Shape('cluster', (), {'chief': 1, 'worker': 1})
FUNCTIONS = Shape('functions', ('loop=TF_FUNCTION',), {'worker': 2})
ALONE = Shape('alone')


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    any_machines.write(folder)
    (folder / 'pipeline.config').write_text(CONFIG.format(folder=folder))
    return folder


def replay(folder, step, *flags):
    """Replay a step by the front door, in a process of its own."""
    command = [sys.executable, str(ROOT / 'run_train_eval.py'), '--mode=replay']
    command += [f'--model_dir={folder}', f'--step={step}', *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=400)


def check(folder, step, compared, batch, tolerance=0.0):
    """Check that a replay has the losses of the events, and the examples of the batch."""
    done = replay(folder, step)
    assert done.returncode == 0, done.stderr
    written = folder / 'replay' / str(step)
    values = json.loads((written / 'replay.json').read_text())
    assert values['compared_steps'] == compared
    for each in values['differences']:
        assert each['repeated'] == pytest.approx(each['recorded'], rel=tolerance, abs=0), each
    with open(written / 'replay.csv', newline='') as file:
        assert sorted(row['source_id'] for row in csv.DictReader(file)) == batch
    found = values['diagnosed_losses']['total_loss']
    assert found == pytest.approx(values['losses']['loss'], rel=1e-4)


def test_a_step_of_workers_and_one_after_the_machines_have_changed(data, tmp_path):
    folder = tmp_path / 'run'
    batches = any_machines.train(data, folder, CLUSTER, 2, 3)
    batches += any_machines.train(data, folder, ALONE, 3, 3)
    # Rewriting of graphs may change the order of a sum.
    check(folder, 2, [1, 2], batches[1], tolerance=1e-6)
    check(folder, 3, [3], batches[2])
    for path in folder.glob('model.ckpt-2.*'):
        path.unlink()
    done = replay(folder, 3)
    message = done.stderr.splitlines()[-1]
    assert 'changed at step 3, from MULTI_WORKER_MIRRORED with 2 processes' in message
    assert done.returncode == 2


def test_a_step_of_workers_by_functions(data, tmp_path):
    batches = any_machines.train(data, tmp_path / 'run', FUNCTIONS, 2, 3)
    check(tmp_path / 'run', 2, [1, 2], batches[1])
    done = replay(tmp_path / 'run', 2, f'--without={batches[1][0]}')
    assert done.returncode == 0, done.stderr
    (compared,) = (tmp_path / 'run' / 'replay').glob('2-without-*/without.json')
    (losses,) = json.loads(compared.read_text())['losses']
    assert losses['step'] == 2 and losses['with'] != losses['without']
