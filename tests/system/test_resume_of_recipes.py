"""A detector with all that draws, mixes and repeats examples resumes exactly when it is killed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from model_fns.structures.label_map import LabelMap
from tests import tiny_detection
from tests.estimator_lib.distribution import curve_cases
from tests.system.test_resume import same_variables

pytestmark = pytest.mark.usefixtures('forked_processes')

STEPS = 7
EVERY = 3  # steps from one checkpoint to the next
IMAGES = 10  # with those that come twice, an epoch ends between two checkpoints

MODEL = (
    tiny_detection.MODEL.replace('ssd_mobilenet_v1_fpn', 'ssd_mobilenet_v1')
    .replace('fpn {{ min_level: 3 max_level: 4 additional_layer_depth: 32 }}', 'num_layers: 2')
    .replace('multiscale_anchor_generator', 'ssd_anchor_generator')
    .replace('min_level: 3 max_level: 4 anchor_scale: 2.0', 'num_layers: 2')
    .replace('scales_per_octave: 2', '')
    .replace('weight_shared_convolutional_box_predictor', 'convolutional_box_predictor')
    .replace('depth: 16\n', '\n')
    .replace('num_layers_before_predictor: 1', '')
)
TRAINING = """
train_config {{
  batch_size: 4
  accumulate_steps: 2
  repeat_factor_threshold: 1.0
  random_seed: 7
  data_augmentation_options {{ mosaic {{ }} }}
  data_augmentation_options {{ mixup {{ probability: 0.5 }} }}
  data_augmentation_options {{ random_horizontal_flip {{ }} }}
  optimizer {{
    momentum_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }} }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: {every} }}
  progress {{ summary_every_n_steps: 1 }}
}}
train_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt"
  coco_input_reader {{
    image_path: "{folder}/images" annotation_path: "{folder}/instances.json"
  }}
}}
"""


def write_coco(folder):
    random = np.random.RandomState(3)
    (folder / 'images').mkdir()
    images, annotations = [], []
    for index in range(IMAGES):
        pixels, boxes, ids = tiny_detection.scene(random)
        name = f'{index}.png'
        Image.fromarray(pixels).save(folder / 'images' / name)
        size = tiny_detection.SIZE
        images.append({'id': index, 'file_name': name, 'width': size, 'height': size})
        for (top, left, bottom, right), class_id in zip((boxes * size).tolist(), ids.tolist()):
            annotations.append(
                {
                    'id': len(annotations) + 1,
                    'image_id': index,
                    'category_id': class_id,
                    'bbox': [left, top, right - left, bottom - top],
                    'area': (right - left) * (bottom - top),
                    'iscrowd': 0,
                }
            )
    categories = [{'id': 1, 'name': 'green'}, {'id': 2, 'name': 'blue'}]
    content = {'images': images, 'annotations': annotations, 'categories': categories}
    (folder / 'instances.json').write_text(json.dumps(content))


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('coco')
    write_coco(folder)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))
    text = MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    text += TRAINING.format(folder=folder, every=EVERY)
    (folder / 'pipeline.config').write_text(text)
    return folder


def start(data, model_dir, steps):
    return subprocess.Popen(
        [sys.executable, curve_cases.__file__, data, model_dir, str(steps), 'published', ''],
        env={**os.environ, 'TF_CONFIG': '{}'},
        stderr=subprocess.PIPE,
        text=True,
    )


def train(data, model_dir):
    """Train to the end; return the losses by step that this process has written."""
    for path in model_dir.glob('events*'):
        path.unlink()
    process = start(data, model_dir, STEPS)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    return curve_cases.losses_by_step(model_dir)


def kill_after_a_checkpoint(data, model_dir):
    process = start(data, model_dir, 10000)
    deadline = time.monotonic() + 300
    while not (model_dir / f'model.ckpt-{EVERY}.index').exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # It may have come to a later checkpoint, from which there would be less to repeat.
    (model_dir / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{EVERY}"')


def test_mixed_repeated_and_accumulated_examples_are_the_same_after_a_kill(data, tmp_path):
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    expected = train(data, whole)
    assert sorted(expected) == list(range(1, STEPS + 1)) and len(set(expected.values())) == STEPS
    kill_after_a_checkpoint(data, killed)
    resumed = train(data, killed)
    assert resumed == {step: loss for step, loss in expected.items() if step > EVERY}
    # The position of the reader is part of the checkpoint. With the images that come twice, an
    # epoch has more than 10.
    assert same_variables(whole, killed)
    first = str(whole / f'model.ckpt-{EVERY}')
    epoch, index, _ = tf.train.load_variable(first, 'input_reader/chief_0/position')[0]
    assert epoch == 0 and index == EVERY * 4 > IMAGES
