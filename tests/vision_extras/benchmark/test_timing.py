"""Latency and memory of exported models, in processes of their own."""

import json

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.export import exporting
from estimator_lib.export.devices.tflite import TfliteWriter
from estimator_lib.export.frozen_graph import FrozenGraphWriter
from estimator_lib.export.saved_model import SavedModelWriter
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.evaluation.test_file_evaluation import DeployedLine
from vision_extras.benchmark import timing

PIXEL = np.ones([1, 1, 1, 1], np.float32)
IMAGE = np.full([1, 2, 2, 3], 4, np.uint8)


@pytest.fixture(scope='module', name='exports')
def _exports(tmp_path_factory):
    """Exports of the line y = 2 x in three formats, by the format's name."""
    folder = tmp_path_factory.mktemp('line')
    config = line_task.create_config(folder)
    checkpoint = tiny_task.save(folder / 'model.ckpt-5', {'slope': np.float32(2.0)})
    return {
        writer.name: exporting.export(
            DeployedLine(), config, checkpoint, str(folder / writer.name), writer
        )
        for writer in (SavedModelWriter(), FrozenGraphWriter(), TfliteWriter())
    }


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch):
    monkeypatch.setattr(timing, '_MOST_RUNS', 12)


def test_median_and_percentile_by_hand():
    seconds = [0.003, 0.001, 0.002, 0.010]
    assert timing.summarize(seconds) == timing.Latency(2.5, 10.0)
    hundred = [index / 1000 for index in range(100, 0, -1)]
    assert timing.summarize(hundred) == timing.Latency(pytest.approx(50.5), pytest.approx(95.0))
    assert timing.summarize([0.5]) == timing.Latency(500.0, 500.0)


def test_each_call_gets_the_next_image_after_those_that_warm_up():
    seen = []
    timing._time(seen.append, ['a', 'b'])
    assert ''.join(seen) == 'aba' + 'ab' * 6


def test_slow_models_run_fewer_times(monkeypatch):
    monkeypatch.setattr(timing, '_SECONDS', 0.0)
    seen = []
    timing._time(seen.append, ['a'])
    assert len(seen) == timing._WARM_UP + timing._LEAST_RUNS


def test_all_kinds_of_models_are_loaded(exports):
    np.testing.assert_array_equal(timing.load(exports['saved_model'])(IMAGE)['y'], [8.0])
    frozen = timing.load(f'{exports["frozen_graph"]}/frozen_inference_graph.pb')
    np.testing.assert_array_equal(frozen(IMAGE)[0], [8.0])
    assert timing.load(f'{exports["tflite"]}/model.tflite')(PIXEL)['y'] == [2.0]


def test_batches_are_of_images_of_one_size(exports, monkeypatch):
    shapes = []

    def run(path):
        del path
        return lambda images: shapes.append(images.shape)

    monkeypatch.setattr(timing, 'load', run)
    other = np.zeros([1, 3, 2, 3], np.uint8)
    assert timing.measure(exports['saved_model'], [IMAGE, other]).batch is not None
    assert set(shapes) == {(1, 2, 2, 3), (1, 3, 2, 3), (8, 2, 2, 3)}
    frozen = f'{exports["frozen_graph"]}/frozen_inference_graph.pb'
    assert timing.measure(frozen, [IMAGE]).batch is not None
    assert timing.measure(f'{exports["tflite"]}/model.tflite', [PIXEL]).batch is None


@pytest.mark.skipif(
    not timing.forget_peak_memory(), reason='/proc/self/clear_refs cannot be written here'
)
def test_memory_is_the_peak_of_the_model_alone(monkeypatch):
    before = np.ones(2 * 10**8, np.uint8)
    del before
    size = 5 * 10**7

    def load(path):
        del path
        return lambda images: np.ones(size, np.uint8).sum()

    monkeypatch.setattr(timing, 'load', load)
    measured = timing.measure('model.tflite', [PIXEL]).memory_bytes
    assert 0.9 * size < measured < 2 * size


@pytest.mark.usefixtures('forked_processes')
def test_a_process_measures_a_file_and_names_the_reason_where_it_cannot(exports, tmp_path):
    path = f'{exports["tflite"]}/model.tflite'
    measured = timing.time_apart(path, [PIXEL], str(tmp_path))
    assert 0.0 < measured.one.median <= measured.one.percentile_95
    assert measured.batch is None and measured.memory_bytes >= 0
    (tmp_path / 'wrong.tflite').write_bytes(b'no model')
    with pytest.raises(errors.UserError, match='wrong.tflite cannot be run'):
        timing.time_apart(str(tmp_path / 'wrong.tflite'), [PIXEL], str(tmp_path))


def test_a_result_can_be_read_again(exports, tmp_path):
    arrays, result = tmp_path / 'images.npz', tmp_path / 'timing.json'
    np.savez(arrays, IMAGE)
    timing.main([exports['saved_model'], str(arrays), str(result)])
    measured = timing._from_json(json.loads(result.read_text()))
    assert measured.one.median > 0.0 and measured.batch.median > 0.0
