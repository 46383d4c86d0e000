"""`--mode=evaluate --tile` through the front door, of a checkpoint and of a file."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.evaluation import evaluators
from model_fns import build_task
from model_fns.datasets import codecs, records
from model_fns.structures.images import image_header
from tests import tiny_data, tiny_deployed, tiny_detection, tiny_segmentation
from tests.test_run_train_eval import front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')


def model_of(folder, data):
    """A model_dir with the checkpoint of a network that has not been trained."""
    path = data.write_all(folder)
    run = folder / 'run'
    run.mkdir()
    shutil.copy(path, run / 'pipeline.config')
    task = build_task(config_lib.load_pipeline_config(str(path)))
    tiny_deployed.save(task, run / 'model.ckpt-3')
    return run


def evaluate(run, output_dir, *flags):
    output_dir.mkdir()
    model = [] if any(flag.startswith('--model_file') for flag in flags) else [f'--model_dir={run}']
    assert front_door('--mode=evaluate', *model, f'--output_dir={output_dir}', *flags) == 0
    (path,) = output_dir.glob('*metrics.json')
    return json.loads(path.read_text())['0']


def test_images_that_fit_in_a_tile_have_the_numbers_of_whole_ones(tmp_path):
    run = model_of(tmp_path, tiny_segmentation)
    checkpoint = f'--checkpoint_path={run}/model.ckpt-3'
    whole = evaluate(run, tmp_path / 'whole', checkpoint)
    tiled = evaluate(run, tmp_path / 'tiled', checkpoint, '--tile=96')
    losses = {name for name in whole if name == 'loss' or name.startswith('Loss/')}
    assert losses and set(tiled) == set(whole) - losses and tiled['miou_1.0_overall'] > 0
    assert tiled == pytest.approx({name: whole[name] for name in tiled}, abs=1e-6, nan_ok=True)


def write_large(path):
    """An image of 128 x 192 pixels, of six scenes."""
    random = np.random.RandomState(4)
    scenes = [tiny_detection.scene(random) for _ in range(6)]
    image = np.concatenate(
        [np.concatenate([scene[0] for scene in scenes[row : row + 3]], axis=1) for row in (0, 3)]
    )
    boxes = [
        (box + [index // 3, index % 3] * 2) / [2, 3, 2, 3]
        for index, scene in enumerate(scenes)
        for box in scene[1]
    ]
    encoded = codecs.encode_png(image)
    features = records.image_features(encoded, image_header(encoded), 'a.png', 'a')
    for side, values in zip(('ymin', 'xmin', 'ymax', 'xmax'), np.transpose(boxes)):
        features[f'image/object/bbox/{side}'] = values.astype(np.float32)
    features['image/object/class/label'] = np.concatenate([scene[2] for scene in scenes])
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(records.serialize(features))


def test_checkpoint_and_file_have_the_same_detections_of_tiles(tmp_path):
    run = model_of(tmp_path, tiny_detection)
    write_large(tmp_path / 'val.tfrecord')
    tiles = '--set=eval_config.tiles.size=64', '--set=eval_config.tiles.overlap=20'
    out = tmp_path / 'checkpoint'
    evaluate(run, out, f'--checkpoint_path={run}/model.ckpt-3', *tiles, '--coco_files')
    found = json.loads((out / 'coco_files' / 'results.json').read_text())
    # A network finds at most 10 objects in each of its inputs; there are 3 x 4 tiles.
    assert len(found) > 20
    flags = [f'--model_dir={run}', f'--export_dir={tmp_path / "export"}', '--format=tflite']
    assert front_door('--mode=export', *flags) == 0
    file = latest(tmp_path / 'export') / 'model.tflite'
    tiles = '--tile=64', '--overlap=20'
    evaluate(run, tmp_path / 'file', f'--model_file={file}', *tiles, '--coco_files')
    others = json.loads((tmp_path / 'file' / 'coco_files' / 'results.json').read_text())
    # Detections of nearly equal scores may come in another order, or be left out.
    assert len(others) == pytest.approx(len(found), abs=5)
    numbers = [np.array([[*one['bbox'], one['score']] for one in each]) for each in (found, others)]
    best = numbers[0][np.argsort(-numbers[0][:, -1])[:10]]
    # Pixels, and scores in thousandths.
    distances = np.abs(best[:, np.newaxis] - numbers[1]) * [1, 1, 1, 1, 1000]
    assert distances.max(axis=2).min(axis=1).max() < 1


def test_what_has_no_tiles_is_refused_in_a_sentence(tmp_path, capsys):
    path = tiny_data.write_all(tmp_path)
    flags = [f'--model_dir={tmp_path / "run"}', f'--pipeline_config_path={path}']
    assert front_door('--mode=check', *flags, '--set=eval_config.tiles.size=64') == 2
    assert 'a label of a whole image is not one of its tiles' in capsys.readouterr().err
    assert front_door('--mode=evaluate', *flags, '--overlap=64') == 2
    assert '--overlap has no effect without --tile' in capsys.readouterr().err
    path = tiny_segmentation.write_all(tmp_path, tiny_segmentation.ALL_HEADS)
    config = config_lib.load_pipeline_config(str(path))
    config.eval_config.tiles.size = 64
    with pytest.raises(errors.ConfigError, match='metrics of this segmentation model need outputs'):
        evaluators.check(build_task(config), config)
