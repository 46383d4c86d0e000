"""Models far from where they were trained: moved exports and runs, published configs."""

import importlib.util
import json
import os
import shutil

import pytest
from PIL import Image

from tests import tiny_data
from tests.test_run_train_eval import front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

COLORS = set(tiny_data.COLORS)
FORMATS = [
    'saved_model',
    'frozen_graph',
    'tflite',
    pytest.param(
        'onnx',
        marks=pytest.mark.skipif(
            not all(map(importlib.util.find_spec, ('tf2onnx', 'onnx', 'onnxruntime'))),
            reason='the packages of the extra [onnx] are not installed',
        ),
    ),
]


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A run of one step whose label map and training records are gone, and an export of it."""
    folder = tmp_path_factory.mktemp('travel')
    data = folder / 'data'
    data.mkdir()
    config = tiny_data.write_all(data)
    model_dir = folder / 'run'
    flags = [f'--model_dir={model_dir}', f'--pipeline_config_path={config}', '--num_train_steps=1']
    assert front_door('--mode=train', *flags) == 0
    for name in ('label_map.pbtxt', 'train.tfrecord'):
        (data / name).unlink()
    return model_dir


@pytest.fixture(scope='module')
def evaluated(trained, tmp_path_factory):
    """The same run, whose checkpoint was evaluated."""
    moved = tmp_path_factory.mktemp('evaluated') / 'run'
    shutil.copytree(trained, moved)
    assert front_door('--mode=evaluate', f'--model_dir={moved}') == 0
    return moved


@pytest.fixture(scope='module')
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp('image') / 'one.png'
    Image.fromarray(next(tiny_data.colored_images(1))[1]).save(path)
    return path


def predicted(model, image, out):
    """What is predicted of the one image."""
    assert front_door('--mode=predict', model, f'--images={image}', f'--output_dir={out}') == 0
    return json.loads((out / 'predictions.json').read_text())[str(image)]


def names(prediction):
    return {one['class'] for one in prediction['classes']}


def test_a_run_has_its_label_map(trained):
    text = (trained / 'label_map.pbtxt').read_text()
    assert all(name in text for name in tiny_data.COLORS)


def test_an_export_is_moved_and_run_elsewhere(trained, image, tmp_path, monkeypatch):
    assert front_door('--mode=export', f'--model_dir={trained}', f'--export_dir={tmp_path}') == 0
    moved = tmp_path / 'elsewhere' / 'model'
    shutil.move(latest(tmp_path), moved)
    assert {'label_map.pbtxt', 'pipeline.config'} <= set(os.listdir(moved / 'assets.extra'))
    monkeypatch.chdir(tmp_path)
    prediction = predicted('--saved_model_dir=elsewhere/model', image, tmp_path / 'out')
    assert names(prediction) == COLORS


@pytest.mark.parametrize('name', FORMATS)
def test_all_formats_have_the_files_of_the_page(evaluated, tmp_path, name):
    """What `docs/deployment.md` says of every export."""
    flags = [f'--model_dir={evaluated}', f'--export_dir={tmp_path}', f'--format={name}']
    assert front_door('--mode=export', *flags) == 0
    folder = latest(tmp_path)
    folder = folder / 'assets.extra' if name == 'saved_model' else folder
    assert {
        'labels.txt',
        'label_map.pbtxt',
        'pipeline.config',
        'metrics.json',
        'export.json',
    } <= set(os.listdir(folder))
    assert (folder / 'labels.txt').read_text().split() == list(tiny_data.COLORS)
    metrics = json.loads((folder / 'metrics.json').read_text())
    assert metrics == json.loads((evaluated / 'metrics.json').read_text())
    assert json.loads((folder / 'export.json').read_text())['format'] == name


def test_an_export_keeps_its_names_where_its_paths_mean_another_file(trained, image, tmp_path):
    """The path of the label map exists again, and is of other data."""
    other = trained.parent / 'data' / 'label_map.pbtxt'
    assert front_door('--mode=export', f'--model_dir={trained}', f'--export_dir={tmp_path}') == 0
    other.write_text("item { id: 1 name: 'wrong' }")
    try:
        prediction = predicted(f'--saved_model_dir={latest(tmp_path)}', image, tmp_path / 'out')
    finally:
        other.unlink()
    assert names(prediction) == COLORS


def test_a_moved_run_predicts_exports_and_evaluates(trained, image, tmp_path):
    moved = tmp_path / 'run'
    shutil.copytree(trained, moved)
    prediction = predicted(f'--model_dir={moved}', image, tmp_path / 'out')
    assert names(prediction) == COLORS
    assert predicted(f'--checkpoint_path={moved}/model.ckpt-1', image, tmp_path / 'out2') == (
        prediction
    )
    flags = [f'--model_dir={moved}', f'--export_dir={tmp_path / "export"}']
    assert front_door('--mode=export', *flags) == 0
    exported = latest(tmp_path / 'export')
    assert predicted(f'--saved_model_dir={exported}', image, tmp_path / 'out3') == prediction
    label_map = f'--set=eval_input_reader.0.label_map_path={trained.parent / "data" / "none"}'
    assert front_door('--mode=evaluate', f'--model_dir={moved}') == 0
    assert 'accuracy' in json.loads((moved / 'metrics.json').read_text())['0']
    # A path that is asked for is no path of the training: that it is wrong is said.
    assert front_door('--mode=evaluate', f'--model_dir={moved}', label_map) == 2


def test_a_published_config_with_placeholders_is_exported(trained, image, tmp_path, capfd):
    """Published checkpoints come without a label map: classes are called by their ids."""
    text = (trained / 'pipeline.config').read_text()
    folder = str(trained.parent / 'data')
    assert folder in text
    config = tmp_path / 'pipeline.config'
    config.write_text(text.replace(folder, 'PATH_TO_BE_CONFIGURED'))
    checkpoint = tmp_path / 'published'
    checkpoint.mkdir()
    for path in trained.glob('model.ckpt-1.*'):
        shutil.copy(path, checkpoint)
    model = [f'--pipeline_config_path={config}', f'--checkpoint_path={checkpoint}/model.ckpt-1']
    assert front_door('--mode=export', *model, f'--export_dir={tmp_path / "export"}') == 0
    assert 'PATH_TO_BE_CONFIGURED/label_map.pbtxt: it is not there' in capfd.readouterr().err
    exported = latest(tmp_path / 'export')
    prediction = predicted(f'--saved_model_dir={exported}', image, tmp_path / 'out')
    assert {one['id'] for one in prediction['classes']} == {1, 2, 3}
    assert not names(prediction) & COLORS
