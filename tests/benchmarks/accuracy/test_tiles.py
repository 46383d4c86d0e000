"""Canvases of micrographs, and the runs that learn from them."""

import itertools
import json
import os
import pathlib

import numpy as np
import pytest
from google.protobuf import text_format
from PIL import Image

from benchmarks import measuring
from benchmarks.accuracy import runs, tiles
from estimator_lib import config as config_lib
from model_fns import build_task
from protos import pipeline_pb2


def test_objects_of_a_canvas_keep_ids_of_their_own(monkeypatch):
    monkeypatch.setattr(tiles, '_SIDE', 2)
    monkeypatch.setattr(tiles, '_ROWS', 2)
    objects = np.array([[0, 1], [3, 3]])
    squares = ((np.full([2, 2, 3], number), objects) for number in itertools.count(1))
    canvas, ids = tiles.draw_canvas(squares)
    assert canvas[..., 0].tolist() == [[1, 1, 2, 2]] * 2 + [[3, 3, 4, 4]] * 2
    assert ids.tolist() == [[0, 1, 0, 4], [3, 3, 6, 6], [0, 7, 0, 10], [9, 9, 12, 12]]


def test_all_micrographs_come_equally_often_with_their_objects(tmp_path):
    for kind in ('images', 'instance_masks'):
        (tmp_path / kind).mkdir()
        for value in (40, 80):
            pixels = np.zeros([300, 260], np.uint8)
            pixels[:3, :7] = value
            Image.fromarray(pixels).save(tmp_path / kind / f'{value}.png')
    squares = tiles.read_squares(str(tmp_path), np.random.default_rng(0))
    values = []
    for image, objects in itertools.islice(squares, 6):
        assert image.shape == (256, 256, 3) and (image == objects[..., np.newaxis]).all()
        assert (objects > 0).sum() == 3 * 7
        values.append(objects.max())
    assert sorted(values[:2]) == sorted(values[2:4]) == sorted(values[4:]) == [40, 80]


@pytest.mark.parametrize('settings', [tiles._TILES, tiles._RESIZED])
def test_both_detectors_are_models_that_there_are(settings, tmp_path, monkeypatch):
    square = np.zeros([8, 8, 3], np.uint8), np.ones([8, 8])
    monkeypatch.setattr(tiles, 'read_squares', lambda *_: itertools.repeat(square))
    monkeypatch.setattr(tiles, '_SIDE', 8)
    monkeypatch.setattr(tiles, '_CANVASES', {'train': 2, 'val': 1})
    tiles.write_canvases('', str(tmp_path))
    assert sorted(os.listdir(tmp_path / 'train' / 'objects')) == ['00.png', '01.png']
    text = tiles._CONFIG.format(**settings, work=tmp_path, steps=7, seed=2)
    config = config_lib.load_pipeline_config(tiles._BASE, overrides=[text])
    assert config.train_config.batch_size * settings['side'] ** 2 == 16 * 128**2
    assert build_task(config)


def test_each_row_is_an_evaluation_of_a_last_checkpoint(tmp_path, monkeypatch):
    commands = []

    def run_process(command, **_):
        flags = [word for word in command if word.startswith('--')]
        commands.append(flags)
        folder = pathlib.Path(flags[0].partition('=')[2])
        content = {'checkpoint': 'model.ckpt-7', 'eval_0': {tiles.METRIC: len(commands) / 10}}
        (folder / 'metrics.json').write_text(json.dumps(content))

    monkeypatch.setattr(measuring, 'run_process', run_process)
    rows = tiles.measure(str(tmp_path), 7, 2)
    assert [row[-1] for row in rows] == ['0.200', '0.300', '0.400', '0.600']
    folders = [pathlib.Path(flags[0]).name for flags in commands]
    assert folders == ['tiles-7-2'] * 4 + ['resized-7-2'] * 2
    assert commands[1][1:] == ['--mode=evaluate', '--tile=128', '--overlap=32']
    assert commands[2][1:] == commands[5][1:] == ['--mode=evaluate']
    configs = [
        text_format.Parse(flags[2].partition('=')[2], pipeline_pb2.TrainEvalPipelineConfig())
        for flags in (commands[0], commands[4])
    ]
    assert [config.train_input_reader.tiles.size for config in configs] == [128, 0]


def test_without_images_it_ends_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, 'ROOT', str(tmp_path / 'checkout'))
    with pytest.raises(SystemExit, match='shared/data/nuclei is not there'):
        runs.find_data('nuclei')
