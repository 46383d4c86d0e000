"""A user's first day through the command line: raw files, records, a trained and moved model.

Raw data of each task goes all the way: converted, checked, trained, evaluated, exported, and the
export, moved away from everything else, run on the raw images. What each format becomes is tested
in `tests/model_fns/datasets`.
"""

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests import shallow, tiny_data, tiny_detection, tiny_segmentation
from tests.model_fns.datasets import converted
from tests.test_run_train_eval import ROOT, front_door, latest

pytestmark = pytest.mark.usefixtures('forked_processes')

COUNT = 10  # images of a data set: 8 to train on
NAMES = {1: 'green', 2: 'blue'}  # of what tiny_detection draws
STEPS = 2


def scenes():
    """(stem, uint8 image, boxes [n, 4] of ymin, xmin, ymax, xmax in pixels, ids from 1)."""
    random = np.random.RandomState(5)
    for index in range(COUNT):
        image, boxes, ids = tiny_detection.scene(random)
        yield f'{index:03d}', image, np.rint(boxes * tiny_detection.SIZE).astype(int), ids


def save(folder, stem, image, ending='.png'):
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / f'{stem}{ending}')


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_folders(raw):
    """Photographs, a folder a class."""
    for index, (label, image) in enumerate(tiny_data.colored_images(12)):
        save(raw / 'images' / tiny_data.COLORS[label - 1], f'{index:03d}', image, '.jpg')
    return []


def write_coco(raw):
    """The JSON of instances, with category ids as COCO's: not from 1, and with gaps."""
    categories = {class_id: 16 + 3 * class_id for class_id in NAMES}
    images, annotations = [], []
    for number, (stem, image, boxes, ids) in enumerate(scenes(), 100):
        save(raw / 'images', stem, image)
        side = tiny_detection.SIZE
        images.append({'id': number, 'file_name': f'{stem}.png', 'height': side, 'width': side})
        for (top, left, bottom, right), class_id in zip(boxes.tolist(), ids.tolist()):
            annotations.append(
                {
                    'id': len(annotations) + 1,
                    'image_id': number,
                    'category_id': categories[class_id],
                    'bbox': [left, top, right - left, bottom - top],
                    'area': (right - left) * (bottom - top),
                    'iscrowd': 0,
                }
            )
    content = {
        'images': images,
        'annotations': annotations,
        'categories': [{'id': categories[key], 'name': name} for key, name in NAMES.items()],
    }
    write_text(raw / 'instances.json', json.dumps(content))
    return [f'--annotations={raw / "instances.json"}']


def write_masks(raw):
    """Gray PNGs of 0 and 255."""
    random = np.random.RandomState(6)
    for index in range(COUNT):
        image, classes, _ = tiny_segmentation.scene(random)
        save(raw / 'images', f'{index:03d}', image)
        save(raw / 'masks', f'{index:03d}', np.where(classes, 255, 0).astype(np.uint8))
    return [f'--annotations={raw / "masks"}', '--mask_values=0:background,255:square']


WRITERS = {
    'folders': write_folders,
    'coco': write_coco,
    'masks': write_masks,
}
CLASSES = {'folders': {'red', 'green', 'blue'}, 'masks': {'background', 'square'}}


def convert_flags(kind, folder, *more):
    """The command line of the conversion of raw data that is written by the way."""
    raw = folder / 'raw'
    flags = WRITERS[kind](raw)
    return [
        f'--from={kind}',
        f'--images={raw / "images"}',
        f'--label_map={folder / "data" / "label_map.pbtxt"}',
        f'--output_prefix={folder / "data"}/',
        '--split=train:0.8,val:0.2',
        '--num_shards=2',
        *flags,
        *more,
    ]


def write_config(kind, folder):
    """A config of the tests' small networks for the records of a kind; its path."""
    if kind == 'folders':
        text = tiny_data.CONFIG.format(folder=folder / 'data')
    elif kind == 'masks':
        text = tiny_segmentation.CONFIG.format(folder=folder / 'data', heads='')
        text = text.replace('num_classes: 3', 'num_classes: 2')
    else:
        text = tiny_detection.config_text(folder / 'data')
    for split in ('train', 'val'):
        text = text.replace(f'{split}*.tfrecord', f'{split}.tfrecord')
        text = text.replace(f'{split}.tfrecord', f'{split}-*.tfrecord')
    path = folder / 'my.config'
    path.write_text(text)
    return path


def train_flags(folder):
    flags = [f'--model_dir={folder / "run"}', f'--pipeline_config_path={folder / "my.config"}']
    # What is measured is the way, not the picture: one export, and no pictures on it.
    text = f'export_config {{ latest {{ keep_max: 1 }} }} train_config {{ num_steps: {STEPS} }}'
    return [*flags, f'--config_override={text}', '--set=eval_config.num_visualizations=0']


def predict_flags(kind, folder):
    """The moved export on the raw images; nothing of the training is left."""
    shutil.move(latest(folder / 'run' / 'export' / 'final'), folder / 'moved')
    for name in ('run', 'data', 'my.config'):
        path = folder / name
        path.unlink() if path.is_file() else shutil.rmtree(path)
    more = [] if kind in ('folders', 'masks') else ['--score_threshold=0', '--top_k=3']
    return [
        '--mode=predict',
        f'--saved_model_dir={folder / "moved"}',
        f'--images={folder / "raw" / "images"}',
        f'--output_dir={folder / "out"}',
        *more,
    ]


def check_metrics(folder):
    metrics = json.loads((folder / 'run' / 'metrics.json').read_text())
    assert metrics['global_step'] == STEPS
    assert math.isfinite(metrics['0']['loss'])


def check_predictions(kind, folder):
    """Each raw image has its entry and its picture, in the words of the raw data."""
    found = json.loads((folder / 'out' / 'predictions.json').read_text())
    images = sorted(path for path in (folder / 'raw' / 'images').rglob('*') if path.is_file())
    assert list(found) == [str(path) for path in images]
    stems = {path.stem for path in images}
    assert {path.stem for path in (folder / 'out').glob('*.png')} >= stems
    names = set()
    for entry in found.values():
        rows = entry['detections' if 'detections' in entry else 'classes']
        assert rows
        names |= {row.get('class', row.get('name')) for row in rows}
        for row in rows if 'detections' in entry else ():
            assert 0 <= row['ymin'] < row['ymax'] <= tiny_detection.SIZE
            assert 0 <= row['xmin'] < row['xmax'] <= tiny_detection.SIZE
    expected = CLASSES.get(kind, set(NAMES.values()))
    assert names and names <= expected
    if kind == 'folders':  # all classes are told of each photograph
        assert names == expected


@pytest.fixture
def few_layers():
    """Build few layers: the way is looked at, not the network."""
    with shallow.networks():
        yield


@pytest.mark.usefixtures('few_layers')
@pytest.mark.parametrize('kind', ['coco', 'masks'])
def test_from_raw_files_to_predictions(kind, tmp_path, capsys):
    assert converted.run(*convert_flags(kind, tmp_path)) == 0
    said = capsys.readouterr().out
    assert f'8 records in {tmp_path}/data/train-' in said
    assert f'2 records in {tmp_path}/data/val-' in said
    write_config(kind, tmp_path)
    # Evaluated is one detector; what all records have to do with it, `train` does too.
    mode = 'train_and_evaluate' if kind == 'coco' else 'train'
    assert front_door(f'--mode={mode}', *train_flags(tmp_path)) == 0
    if mode == 'train_and_evaluate':
        check_metrics(tmp_path)
    assert front_door(*predict_flags(kind, tmp_path)) == 0
    assert f'images predicted: {COUNT}, skipped: 0' in capsys.readouterr().out
    check_predictions(kind, tmp_path)


def command(*arguments):
    """A process of its own, which ends well and without a traceback; what it prints."""
    run = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    assert 'Traceback' not in run.stderr
    return run.stdout


def test_from_photographs_to_predictions(tmp_path, capsys):
    """Conversion and training as processes; then a look at the data, and an export by command."""
    said = command('-m', 'model_fns.datasets.convert', *convert_flags('folders', tmp_path))
    assert '10 records in' in said and '2 records in' in said
    write_config('folders', tmp_path)
    command(ROOT / 'run_train_eval.py', *train_flags(tmp_path))
    check_metrics(tmp_path)
    assert front_door('--mode=check', *train_flags(tmp_path)) == 0
    assert 'red' in capsys.readouterr().out
    final = tmp_path / 'run' / 'export' / 'final'
    shutil.rmtree(final)
    flags = [f'--model_dir={tmp_path / "run"}', f'--export_dir={final}']
    assert front_door('--mode=export', *flags) == 0
    assert capsys.readouterr().out.strip() == str(latest(final))
    assert front_door(*predict_flags('folders', tmp_path)) == 0
    assert 'images predicted: 12, skipped: 0' in capsys.readouterr().out
    check_predictions('folders', tmp_path)
