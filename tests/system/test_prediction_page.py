"""Programs of docs/prediction.md, on files that the predictions of a detector become."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from estimator_lib.commands import predict
from estimator_lib.task import Description
from model_fns.datasets import image_sources
from model_fns.detection.detections import descriptions
from tests import documents
from tests.estimator_lib import tiny_task

PAGE = 'docs/prediction.md'
HEIGHT, WIDTH = 50, 80
CLASSES = ['cat', 'dog', 'ring']
# Of the first image; the second has none. Sides are ymin, xmin, ymax, xmax in pixels.
BOXES = np.array([[10, 20, 40, 60], [5, 8, 15, 72]], np.float64)
IDS, SCORES = [3, 1], [0.75, 0.5]
XYXY = [[20, 10, 60, 40], [8, 5, 72, 15]]


class Detector(tiny_task.Presented, tiny_task.TinyTask):
    """A predictor of fixed boxes, and the task that describes them."""

    max_batch_size = 1

    def predict(self, images):
        return {'count': np.where(images.max((1, 2, 3)) > 0, len(BOXES), 0)}

    class_names = CLASSES

    def describe(self, features, outputs, shown=None):
        found = find(outputs)
        rows = descriptions.rows(found, dict(enumerate(CLASSES, 1)))
        return Description(descriptions.values(found, rows), rows)

    def regions(self, features, outputs, shown=None):
        return descriptions.regions(find(outputs))


def find(outputs):
    count = int(outputs['count'])
    ids, scores = np.array(IDS, int)[:count], np.array(SCORES)[:count]
    return descriptions.Found((HEIGHT, WIDTH), ids, scores, BOXES[:count])


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """The folder of a user after the commands of the page."""
    path = tmp_path_factory.mktemp('page')
    (path / 'photos').mkdir()
    for name, color in (('a.png', 255), ('b.png', 0)):
        Image.new('RGB', (WIDTH, HEIGHT), (color,) * 3).save(path / 'photos' / name)
    images = image_sources.find_images(str(path / 'photos'))
    for output_format in ('json', 'csv', 'yolo', 'voc'):
        options = predict.Options(output_format=output_format)
        predict.predict_images(Detector(), Detector(), images, str(path / output_format), options)
    frames = json.loads((path / 'json' / 'predictions.json').read_text()).values()
    lines = [{'frame': index, 'time': index / 25, **frame} for index, frame in enumerate(frames)]
    (path / 'video').mkdir()
    (path / 'video' / 'clip.jsonl').write_text(''.join(f'{json.dumps(line)}\n' for line in lines))
    (path / 'video' / 'clip.mp4').touch()
    return path


def run_programs(package, folder, monkeypatch):
    """Run the programs of the page that have a package's name in them, in one namespace."""
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f'{package} is not installed')
    programs = [block.text for block in documents.blocks('python') if block.page == PAGE]
    mark = {'supervision': 'sv.', 'fiftyone': 'fo.', '': 'tasks.json'}[package]
    monkeypatch.chdir(folder)
    names = {}
    own = [program for program in programs if mark in program]
    assert own
    for program in own:
        exec(compile(program, PAGE, 'exec'), names)
    return names


def test_every_program_is_run():
    programs = [block.text for block in documents.blocks('python') if block.page == PAGE]
    assert [sum(mark in text for mark in ('sv.', 'fo.', 'tasks.json')) for text in programs] == (
        [1] * len(programs)
    )


def test_supervision(folder, monkeypatch):
    names = run_programs('supervision', folder, monkeypatch)
    first, second = names['photos'].values()
    assert len(second) == 0
    for found in (first, *names['frames'][:1], *names['tables'].values()):
        np.testing.assert_allclose(found.xyxy, XYXY)
        np.testing.assert_allclose(found.confidence, SCORES)
        assert found.class_id.tolist() == IDS
    assert first.data['class_name'].tolist() == ['ring', 'cat'] and len(names['frames']) == 2
    assert names['yolo'].classes == CLASSES
    boxes = {os.path.basename(path): found.xyxy for path, _, found in names['yolo']}
    np.testing.assert_allclose(boxes['a.png'], XYXY, atol=1e-4)
    assert len(boxes['b.png']) == 0
    boxes = {os.path.basename(path): found.xyxy for path, _, found in names['voc']}
    np.testing.assert_allclose(boxes['a.png'], np.subtract(XYXY, [1, 1, 0, 0]), atol=1e-4)


def test_fiftyone(folder, monkeypatch):
    names = run_programs('fiftyone', folder, monkeypatch)
    first, second = names['samples']
    assert os.path.basename(first.filepath) == 'a.png'
    assert not second.predictions.detections and len(names['video'].frames) == 2
    for labels in (first.predictions, names['video'].frames[1].predictions):
        assert [box.label for box in labels.detections] == ['ring', 'cat']
        assert [box.confidence for box in labels.detections] == SCORES
        # Left, top, width, height as normalized.
        np.testing.assert_allclose(
            [box.bounding_box for box in labels.detections],
            [[0.25, 0.2, 0.5, 0.6], [0.1, 0.1, 0.8, 0.2]],
        )


def test_label_studio(folder, monkeypatch):
    run_programs('', folder, monkeypatch)
    first, second = json.loads((folder / 'tasks.json').read_text())
    assert first['data']['image'].endswith('/photos/a.png')
    (prediction,) = first['predictions']
    assert prediction['score'] == 0.5 and second['predictions'][0]['result'] == []
    region = prediction['result'][0]
    assert (region['original_width'], region['original_height']) == (WIDTH, HEIGHT)
    box = {'x': 25, 'y': 20, 'width': 50, 'height': 60, 'rotation': 0}
    assert region['value'] == {'rectanglelabels': ['ring'], **box}


def test_label_studio_accepts_the_tasks(folder, monkeypatch):
    interface = pytest.importorskip(
        'label_studio_sdk.label_interface', reason='label-studio-sdk is not installed'
    )
    run_programs('', folder, monkeypatch)
    (config,) = (block.text for block in documents.blocks('xml') if block.page == PAGE)
    labels = interface.LabelInterface(config.replace('star', 'cat'))
    for task in json.loads((folder / 'tasks.json').read_text()):
        assert not labels.validate_prediction(task['predictions'][0], return_errors=True)


def test_the_archive_for_cvat_is_flat(folder):
    (command,) = (block.text for block in documents.blocks('sh') if 'annotations.zip' in block.text)
    command = command.replace('python3', sys.executable)
    subprocess.run(command, shell=True, cwd=folder, check=True)
    with zipfile.ZipFile(folder / 'annotations.zip') as archive:
        assert sorted(archive.namelist()) == ['a.xml', 'b.xml']
