"""Files for devices evaluated on records, beside the checkpoint that they were written from."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.export import exporting
from estimator_lib.export.devices.tflite import TfliteWriter
from estimator_lib.task import IMAGE
from estimator_lib.task_interfaces.analysis import Analysis
from estimator_lib.task_interfaces.deployable import Deployable
from estimator_lib.task_interfaces.image_format import ImageFormat
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.analysis.analyzed_line import LineAnalyzer


class LineDeployable(Deployable):
    """y = a x as a file computes it."""

    input_shape = (1, 1, 1)

    def __init__(self, task):
        self.meanings = {'y': 'a x'}
        self._task = task

    def pixels(self, features):
        return features[IMAGE]

    def network(self, pixels):
        return self._task.predict({IMAGE: pixels}, 'infer')

    def outputs(self, found, features):
        return found


class DeployedLine(tiny_task.Presented, line_task.Line):
    """Draws a picture as bright as its output."""

    def deployable(self, ops, options=None):
        del ops, options
        return LineDeployable(self)

    def draw(self, features, outputs, labels=None, shown=None):
        return np.full([2, 2, 3], round(float(outputs['y'])), np.uint8)


@pytest.fixture(scope='module', name='model')
def _model(tmp_path_factory):
    """A config, and the checkpoint and the file of the line y = 2 x at step 5."""
    folder = tmp_path_factory.mktemp('line')
    config = line_task.create_config(folder)
    config.eval_config.num_visualizations = 3
    checkpoint = tiny_task.save(folder / 'model.ckpt-5', {'slope': np.float32(2.0)})
    path = exporting.export(DeployedLine(), config, checkpoint, str(folder), TfliteWriter())
    return config, checkpoint, f'{path}/model.tflite'


def test_the_metrics_of_all_sets_without_losses(model):
    config, _, path = model
    metrics = training.evaluate_file(DeployedLine(), config, path)
    # 2 x instead of 3 x, of the points 1, 2, 3 and 4 in batches of 3 and 1.
    assert metrics == {'0': {'error': 2.5}, 'again': {'error': 2.5}}


def test_events_pictures_and_metrics_are_written_where_there_is_a_folder(model, tmp_path):
    config, _, path = model
    training.evaluate_file(DeployedLine(), config, path, str(tmp_path / 'run'))
    written = json.loads((tmp_path / 'run' / 'model.tflite.metrics.json').read_text())
    assert written == {'0': {'error': 2.5}, 'again': {'error': 2.5}}
    (events,) = (tmp_path / 'run' / 'eval_again_model.tflite').glob('events*')
    scalars, pixels = [], []
    for event in tf.compat.v1.train.summary_iterator(str(events)):
        for value in event.summary.value:
            if value.HasField('image'):
                pixels.append(int(tf.io.decode_png(value.image.encoded_image_string)[0, 0, 0]))
            else:
                scalars.append((event.step, value.tag, value.simple_value))
    assert scalars == [(5, 'error', 2.5)]
    assert pixels == [2, 4, 6]


class AnalyzedFile(DeployedLine):
    analysis = Analysis(LineAnalyzer)


def test_an_analysis_is_written_on_request(model, tmp_path):
    config, _, path = model
    training.evaluate_file(AnalyzedFile(), config, path, str(tmp_path))
    assert not (tmp_path / 'analysis').exists()
    training.evaluate_file(AnalyzedFile(), config, path, str(tmp_path), analyze=True)
    folder = tmp_path / 'analysis' / 'model.tflite'
    # Of points at x from 1 to 4, the line y = 2 x is x below its labels.
    rows = (folder / 'points.csv').read_text().splitlines()
    assert rows[1:5] == ['point 0,1', 'point 1,2', 'point 2,3', 'point 3,4']
    assert (tmp_path / 'analysis' / 'model.tflite_again' / 'report.html').exists()


def test_a_record_that_is_none_is_named(model, tmp_path):
    config, _, path = model
    changed = type(config)()
    changed.CopyFrom(config)
    records = tmp_path / 'points.tfrecord'
    line_task.write_points(records)
    records.write_bytes(records.read_bytes()[:-3])
    del changed.eval_input_reader[1:]
    changed.eval_input_reader[0].tf_record_input_reader.input_path[:] = [str(records)]
    with pytest.raises(errors.DataError, match='points.tfrecord'):
        training.evaluate_file(DeployedLine(), changed, path)


def test_a_file_that_fails_while_it_runs_gives_its_reason(model, monkeypatch):
    def fail(*_):
        raise ValueError('the second input has 3 sides')

    config, _, path = model
    monkeypatch.setattr('estimator_lib.export.exported_file.ExportedFile._run', fail)
    with pytest.raises(errors.UserError) as caught:
        training.evaluate_file(DeployedLine(), config, path)
    assert str(caught.value) == (
        f'{path} fails while it runs: ValueError: the second input has 3 sides.'
    )


class TiledLine(DeployedLine):
    image_format = ImageFormat(additional=-2)  # of one channel

    tiled_outputs = ('y',)

    def merge_tiles(self, tiles, size):
        ((_, outputs),) = tiles
        return outputs


class FailingPredictor:
    path = 'line.onnx'
    max_batch_size = None

    def __init__(self, output='y'):
        self.output_types, self.output_shapes = {output: tf.float32}, {output: []}

    def predict(self, images):
        raise errors.UserError(f'line.onnx: {images.shape[1]} rows; expected two.')


@pytest.mark.parametrize('tile', [0, 64])
def test_a_problem_of_a_predictor_stays_its_sentence(model, tile):
    config = type(model[0])()
    config.CopyFrom(model[0])
    config.eval_config.tiles.size = tile
    with pytest.raises(errors.UserError) as caught:
        training.evaluate_file(TiledLine(), config, 'line.onnx', predictor=FailingPredictor())
    assert str(caught.value) == 'line.onnx: 1 rows; expected two.'


def test_an_output_that_tiles_need_is_missed_in_a_sentence(model):
    config = type(model[0])()
    config.CopyFrom(model[0])
    config.eval_config.tiles.size = 64
    with pytest.raises(errors.UserError) as caught:
        training.evaluate_file(TiledLine(), config, 'line.onnx', predictor=FailingPredictor('z'))
    assert str(caught.value) == (
        "line.onnx has no output 'y', which evaluations by tiles merge; it has z. Expected such a "
        'model, or no tiles.'
    )


def test_a_file_is_measured_beside_its_checkpoint(model, tmp_path):
    config, _, path = model
    # y = 2.5 x is 0.5 x from the labels of 1, 2, 3 and 4.
    better = tiny_task.save(tmp_path / 'model.ckpt', {'slope': np.float32(2.5)})
    pair = training.measure_file(DeployedLine(), config, better, path)
    assert pair == ('error', False, 1.25, 2.5) and pair.loss == 1.25
    assert {name.partition('.')[0] for name in os.listdir(tmp_path)} == {'checkpoint', 'model'}


class Nameless(DeployedLine):
    def metrics(self, outputs, features, labels):
        return {'height': super().metrics(outputs, features, labels)['error']}

    def metric_names(self):
        return ('height',)


def test_a_metric_without_a_direction_measures_no_loss(model):
    config, checkpoint, path = model
    with pytest.raises(errors.ConfigError, match="--max_loss: .* 'height' are better is not known"):
        training.measure_file(Nameless(), config, checkpoint, path)
    chosen = type(config)()
    chosen.CopyFrom(config)
    chosen.export_config.best.metric = 'height'
    chosen.export_config.best.higher_is_better = True
    assert training.measure_file(Nameless(), chosen, checkpoint, path).loss == 0.0


def test_a_file_is_evaluated_by_tiles(model):
    config = type(model[0])()
    config.CopyFrom(model[0])
    config.eval_config.tiles.size = 64
    metrics = training.evaluate_file(TiledLine(), config, model[2])
    assert metrics == {'0': {'error': 2.5}, 'again': {'error': 2.5}}


def test_each_checkpoint_of_a_run_is_evaluated_by_tiles(tmp_path):
    config = line_task.create_config(tmp_path)
    config.eval_config.tiles.size = 64
    training.train_and_evaluate(TiledLine(), config, str(tmp_path / 'run'))
    for name in ('eval_0', 'eval_again'):
        (events,) = (tmp_path / 'run' / name).glob('events*')
        found = {
            event.step: value.simple_value
            for event in tf.compat.v1.train.summary_iterator(str(events))
            for value in event.summary.value
            if value.tag == 'error'
        }
        expected = {step: line_task.error_after(step) for step in (2, 4, 6)}
        assert found == pytest.approx(expected, rel=1e-4)
