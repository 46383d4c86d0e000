"""Checkpoints by objects and by scopes of one small model: the same values, either way."""

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, object_graphs
from estimator_lib.commands import convert_checkpoint
from estimator_lib.export import exported_file, exported_model, exporting, formats
from estimator_lib.task import CheckpointMapping
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

CONFIG = pipeline_pb2.TrainEvalPipelineConfig()
PATHS = {
    'Tiny/conv/weights': 'model/layers/0/kernel',
    **{
        f'Tiny/conv/BatchNorm/{name}': f'model/layers/1/{name}'
        for name in ('gamma', 'beta', 'moving_mean', 'moving_variance')
    },
}


class Objects(CheckpointMapping):
    def object_paths(self, variables, checkpoint_type):
        assert checkpoint_type is None
        return {PATHS[variable.op.name]: variable for variable in variables}


class Tiny(tiny_task.TinyTask):
    """A model that programs of TensorFlow 2 have too."""

    checkpoints = Objects()


@pytest.fixture(scope='module')
def objects(tmp_path_factory):
    values = {PATHS[name]: value for name, value in tiny_task.values().items()}
    folder = tmp_path_factory.mktemp('objects')
    return object_graphs.write({**values, 'step': np.int64(70)}, str(folder))


def contents(prefix):
    reader = checkpoint_files.open_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_objects_become_scopes_and_come_back(objects, tmp_path, caplog):
    with caplog.at_level('INFO', 'estimator_lib'):
        scopes = convert_checkpoint.convert(Tiny(), CONFIG, objects, str(tmp_path / 'scopes'))
    assert scopes == str(tmp_path / 'scopes' / 'model.ckpt-70')
    assert f'Restore from {objects}' in caplog.text
    found = contents(scopes)
    assert found.pop('global_step') == 70
    assert found.keys() == PATHS.keys()
    for name, value in tiny_task.values().items():
        np.testing.assert_array_equal(found[name], value)
    back = convert_checkpoint.convert(Tiny(), CONFIG, scopes, str(tmp_path / 'back'))
    assert back == str(tmp_path / 'back' / 'ckpt-0')
    first, last = contents(objects), contents(back)
    assert first.keys() == last.keys()
    for name in first.keys() - {object_graphs.GRAPH_KEY}:
        np.testing.assert_array_equal(first[name], last[name])


@pytest.mark.parametrize('takes', [False, True])
def test_moving_averages_are_taken_or_named(tmp_path, caplog, takes):
    values = tiny_task.values()
    average = 2 * values['Tiny/conv/weights']
    values['Tiny/conv/weights/ExponentialMovingAverage'] = average
    scopes = tiny_task.save(tmp_path / 'model.ckpt-3', values)
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.eval_config.use_moving_averages = takes
    with caplog.at_level('INFO', 'estimator_lib'):
        found = convert_checkpoint.convert(Tiny(), config, scopes, str(tmp_path / 'out'))
    kernel = contents(found)['model/layers/0/kernel/.ATTRIBUTES/VARIABLE_VALUE']
    np.testing.assert_array_equal(kernel, average if takes else values['Tiny/conv/weights'])
    said = (
        'of 1 variable replace them' if takes else 'of 1 variable are left out; --set=eval_config'
    )
    assert f'Moving averages {said}' in caplog.text


@pytest.mark.parametrize('name', ['saved_model', 'tflite'])
def test_an_export_of_objects_computes_the_same(objects, tmp_path, name):
    images = np.random.RandomState(0).randint(0, 255, [2, 6, 6, 3]).astype(np.uint8)
    expected = tiny_task.expected_logits(images, tiny_task.values())
    path = exporting.export(Tiny(), CONFIG, objects, str(tmp_path), formats.create_writer(name))
    if name == 'saved_model':
        predictor = exported_model.Predictor(path)
    else:
        predictor = exported_file.FilePredictor(Tiny(), f'{path}/model.tflite')
    predicted = predictor.predict(images)
    np.testing.assert_allclose(predicted['logits'], expected, rtol=1e-4, atol=1e-5)


def test_a_folder_with_a_checkpoint_is_not_written_to(objects, tmp_path):
    tiny_task.save(tmp_path / 'model.ckpt-3', tiny_task.values())
    with pytest.raises(errors.UserError, match='--output_dir: .* holds a checkpoint already'):
        convert_checkpoint.convert(Tiny(), CONFIG, objects, str(tmp_path))


def test_a_model_without_such_checkpoints_is_named(tmp_path):
    scopes = tiny_task.save(tmp_path / 'model.ckpt-3', tiny_task.values())
    with pytest.raises(errors.CheckpointError, match='this tiny model has no form of TensorFlow 2'):
        convert_checkpoint.convert(tiny_task.TinyTask(), CONFIG, scopes, str(tmp_path / 'out'))


def test_another_model_is_refused_with_what_differs(tmp_path):
    scopes = tiny_task.save(tmp_path / 'model.ckpt-3', tiny_task.values(channels=3))
    with pytest.raises(errors.CheckpointError, match='is not a checkpoint of this model'):
        convert_checkpoint.convert(Tiny(), CONFIG, scopes, str(tmp_path / 'out'))
