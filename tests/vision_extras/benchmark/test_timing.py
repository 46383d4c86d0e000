"""Latency and memory of exported models, in processes of their own."""

import json
import subprocess
import sys

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
    np.testing.assert_array_equal(timing.load(exports['saved_model']).run(IMAGE)['y'], [8.0])
    frozen = timing.load(f'{exports["frozen_graph"]}/frozen_inference_graph.pb')
    np.testing.assert_array_equal(frozen.run(IMAGE)[0], [8.0])
    assert frozen.takes_batches
    tflite = timing.load(f'{exports["tflite"]}/model.tflite')
    assert tflite.run(PIXEL)['y'] == [2.0] and not tflite.takes_batches


def test_batches_are_of_images_of_one_size(monkeypatch):
    shapes = []

    def load(path, threads):
        assert threads == 2
        return timing.Model(lambda images: shapes.append(images.shape), path != 'model.tflite')

    monkeypatch.setattr(timing, 'load', load)
    other = np.zeros([1, 3, 2, 3], np.uint8)
    assert timing.measure('saved_model', [IMAGE, other], 5, 2).batch is not None
    assert set(shapes) == {(1, 2, 2, 3), (1, 3, 2, 3), (5, 2, 2, 3)}
    assert timing.measure('model.tflite', [PIXEL], 5, 2).batch is None


def test_onnx_files_of_any_batch_are_timed_in_batches(tmp_path):
    pytest.importorskip('onnxruntime')
    onnx = pytest.importorskip('onnx')
    helper = onnx.helper
    for batch in (1, 'batch'):
        image, y = (
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, 1, 1, 1])
            for name in ('image', 'y')
        )
        graph = helper.make_graph([helper.make_node('Neg', ['image'], ['y'])], 'g', [image], [y])
        opset = helper.make_opsetid('', 15)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        path = str(tmp_path / 'model.onnx')
        onnx.save(model, path)
        loaded = timing.load(path, threads=1)
        assert loaded.takes_batches == (batch == 'batch')
        np.testing.assert_array_equal(loaded.run(PIXEL)['y'], -PIXEL)
        assert (timing.measure(path, [PIXEL], 4).batch is None) == (batch == 1)


@pytest.mark.skipif(
    not timing.forget_peak_memory(), reason='/proc/self/clear_refs cannot be written here'
)
def test_memory_is_the_peak_of_the_model_alone(monkeypatch):
    before = np.ones(2 * 10**8, np.uint8)
    del before
    size = 5 * 10**7

    def load(path, threads):
        del path, threads
        return timing.Model(lambda images: np.ones(size, np.uint8).sum(), False)

    monkeypatch.setattr(timing, 'load', load)
    measured = timing.measure('model.tflite', [PIXEL]).memory_bytes
    assert 0.9 * size < measured < 2 * size


@pytest.mark.usefixtures('forked_processes')
def test_a_process_measures_a_file_and_names_the_reason_where_it_cannot(exports, tmp_path):
    path = f'{exports["tflite"]}/model.tflite'
    measured = timing.time_apart(path, [PIXEL], str(tmp_path), 4, threads=1)
    assert 0.0 < measured.one.median <= measured.one.percentile_95
    assert measured.batch is None and measured.memory_bytes >= 0
    (tmp_path / 'wrong.tflite').write_bytes(b'no model')
    with pytest.raises(errors.UserError, match='wrong.tflite cannot be run'):
        timing.time_apart(str(tmp_path / 'wrong.tflite'), [PIXEL], str(tmp_path))


def test_a_session_of_tensorflow_has_the_threads_that_are_asked_for(exports, tmp_path):
    """TensorFlow takes a number of threads before it computes anything: in a new process."""
    arrays = tmp_path / 'images.npz'
    np.savez(arrays, IMAGE)
    program = (
        'import sys, tensorflow as tf; from vision_extras.benchmark import timing; '
        'timing.main(sys.argv[1:]); '
        'print(tf.config.threading.get_intra_op_parallelism_threads(), '
        'tf.config.threading.get_inter_op_parallelism_threads())'
    )
    result = str(tmp_path / 'timing.json')
    words = [exports['saved_model'], str(arrays), result, '2', '3']
    ended = subprocess.run(
        [sys.executable, '-c', program, *words], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split()[-2:] == ['3', '3']


def test_a_result_can_be_read_again(exports, tmp_path):
    arrays, result = tmp_path / 'images.npz', tmp_path / 'timing.json'
    np.savez(arrays, IMAGE)
    timing.main([exports['saved_model'], str(arrays), str(result), '2'])
    measured = timing._from_json(json.loads(result.read_text()))
    assert measured.one.median > 0.0 and measured.batch.median > 0.0
