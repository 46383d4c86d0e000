"""Files for devices through the front door, and the programs of the page about them."""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from estimator_lib import config as config_lib
from model_fns import build_task
from tests import tiny_data, tiny_deployed, tiny_detection
from tests.test_run_train_eval import front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs' / 'deployment.md').read_text()
FORMATS = [
    'tflite',
    pytest.param(
        'onnx',
        marks=pytest.mark.skipif(
            not all(map(importlib.util.find_spec, ('tf2onnx', 'onnx', 'onnxruntime'))),
            reason='the packages of the extra [onnx] are not installed',
        ),
    ),
]


def evaluated(folder, data):
    """A model_dir with the checkpoint of a network of lively weights, and its evaluation."""
    (folder / 'data').mkdir()
    path = data.write_all(folder / 'data')
    run = folder / 'run'
    run.mkdir()
    shutil.copy(path, run / 'pipeline.config')
    task = build_task(config_lib.load_pipeline_config(str(path)))
    checkpoint = tiny_deployed.save(task, run / 'model.ckpt-3')
    flags = [f'--model_dir={run}', f'--checkpoint_path={checkpoint}']
    assert front_door('--mode=evaluate', *flags) == 0
    return run


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp('classifier'), tiny_data)


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp('detector'), tiny_detection)


def export(run, folder, format_name):
    flags = [f'--model_dir={run}', f'--export_dir={folder}', f'--format={format_name}']
    assert front_door('--mode=export', *flags) == 0
    return latest(folder) / f'model.{format_name}'


@pytest.fixture(scope='module', params=FORMATS)
def file(request, classifier, tmp_path_factory):
    """A file of the classifier, moved to where nothing of its training is."""
    folder = tmp_path_factory.mktemp(request.param)
    path = export(classifier, folder / 'export', request.param)
    shutil.move(path.parent, folder / 'moved')
    return folder / 'moved' / path.name


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp('images')
    for index, (_, image) in enumerate(tiny_data.colored_images(3, size=45)):
        Image.fromarray(image).save(folder / f'{index}.png')
    return folder


def metrics_of(text):
    """Return printed metrics by name: the value, and that of the checkpoint or empty."""
    lines = re.findall(r'^  (.+?) = (\S+)(?: \(checkpoint: (\S+)\))?$', text, re.MULTILINE)
    return {name: (float(value), beside and float(beside)) for name, value, beside in lines}


def test_a_file_has_the_metrics_of_its_checkpoint(classifier, file, capsys, tmp_path):
    assert front_door('--mode=evaluate', f'--model_file={file}', f'--model_dir={tmp_path}') == 0
    found = metrics_of(capsys.readouterr().out)
    (expected,) = [
        one
        for one in json.loads((classifier / 'metrics.json').read_text()).values()
        if isinstance(one, dict)
    ]
    assert {name for name in expected if name not in found} == {
        'loss', *(name for name in expected if name.startswith('Loss/'))
    }  # fmt: skip
    for name, (value, beside) in found.items():
        assert value == pytest.approx(expected[name], abs=1e-4), name
        assert beside == pytest.approx(expected[name], abs=1e-5), name
    written = json.loads((tmp_path / f'{file.name}.metrics.json').read_text())
    assert written['0']['accuracy'] == pytest.approx(found['accuracy'][0], abs=1e-5)
    assert list((tmp_path / f'eval_0_{file.name}').glob('events*'))


def test_a_file_predicts_what_its_checkpoint_does(classifier, file, images, tmp_path):
    found = []
    for model in (f'--saved_model_dir={file}', f'--model_dir={classifier}'):
        out = tmp_path / str(len(found))
        flags = [f'--images={images}', f'--output_dir={out}', '--raw']
        assert front_door('--mode=predict', model, *flags) == 0
        found.append(json.loads((out / 'predictions.json').read_text()))
        assert (out / '0.png').exists()
    assert sorted(found[0]) == sorted(found[1]) and len(found[0]) == 3
    for name, expected in found[1].items():
        assert found[0][name]['classes'][0]['class'] == expected['classes'][0]['class']
        for key, value in expected['raw'].items():
            np.testing.assert_allclose(found[0][name]['raw'][key], value, atol=1e-4, err_msg=key)


@pytest.mark.parametrize('format_name', FORMATS[1:])
def test_a_detector_as_a_file_has_the_metrics_of_its_checkpoint(
    detector, tmp_path, capsys, format_name
):
    path = export(detector, tmp_path, format_name)
    capsys.readouterr()
    assert front_door('--mode=evaluate', f'--checkpoint_path={path}') == 0
    found = metrics_of(capsys.readouterr().out)
    assert 'DetectionBoxes_Precision/mAP@.50IOU' in found
    for name, (value, beside) in found.items():
        assert value == pytest.approx(beside, abs=1e-3), name


@pytest.mark.skipif(*FORMATS[1].marks[0].args, **FORMATS[1].marks[0].kwargs)
def test_an_onnx_export_is_a_model_of_triton(classifier, tmp_path, capsys):
    folder = tmp_path / 'models' / 'colors'
    flags = [f'--model_dir={classifier}', f'--export_dir={folder}', '--repository=triton']
    assert front_door('--mode=export', *flags) == 2
    assert '--repository=triton is of --format=onnx' in capsys.readouterr().err
    assert not folder.exists()
    assert front_door('--mode=export', *flags, '--format=onnx') == 0
    assert sorted(path.name for path in folder.iterdir()) == [latest(folder).name, 'config.pbtxt']
    config = (folder / 'config.pbtxt').read_text()
    assert config.startswith('name: "colors"\nplatform: "onnxruntime_onnx"\nmax_batch_size: 0\n')
    about = json.loads((latest(folder) / 'export.json').read_text())
    for name, details in [*about['inputs'].items(), *about['outputs'].items()]:
        assert f'name: "{name}"' in config and f'dims: {details["shape"]}' in (
            config.replace('[ ', '[').replace(' ]', ']')
        )


def programs(ending):
    """The programs of the page that open a file."""
    blocks = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)
    return [block for block in blocks if f"'model.{ending}'" in block]


def test_the_page_has_a_program_for_each_format():
    assert [len(programs(ending)) for ending in ('tflite', 'onnx')] == [1, 1]


def test_the_program_of_the_page_names_the_class(file, images, tmp_path, monkeypatch):
    folder = tmp_path / 'device'
    shutil.copytree(file.parent, folder)
    Image.open(images / '0.png').save(folder / 'photo.jpg')
    monkeypatch.chdir(folder)
    (program,) = programs(file.suffix[1:])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue().strip() in tiny_data.COLORS


def test_the_analysis_of_a_file_needs_a_folder(capsys):
    assert front_door('--mode=evaluate', '--model_file=a.onnx', '--analyze') == 2
    assert '--mode=evaluate needs --model_dir.' in capsys.readouterr().err
