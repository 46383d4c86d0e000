"""Exported models, ours and others', as functions of images."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from estimator_lib import errors
from estimator_lib.checkpoints import evaluated
from estimator_lib.export import exported_model, exporting, saved_model, serving
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(0).randint(0, 255, [2, 6, 6, 3]).astype(np.uint8)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('models')


@pytest.fixture(scope='module')
def checkpoint(folder):
    return tiny_task.save(folder / 'model.ckpt-7', tiny_task.values())


@pytest.mark.parametrize('kind', serving.SERVING_INPUTS)
def test_all_kinds_of_input_take_the_same_images(folder, checkpoint, kind):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    exports = str(folder / f'kind_{kind}')
    path = exporting.export(
        tiny_task.TinyTask(), config, checkpoint, exports, saved_model.SavedModelWriter(kind)
    )
    for place in (path, exports):
        predictor = exported_model.Predictor(place)
        assert predictor.path == path
    assert predictor.output_names == ['classes', 'logits']
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    np.testing.assert_allclose(predictor.predict(IMAGES)['logits'], expected, rtol=1e-4)
    assert predictor.config_path.endswith('pipeline.config')


def test_how_good_the_model_is_travels_with_it(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    task = tiny_task.TinyTask()
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt-7', tiny_task.values())

    def metrics(name):
        path = exporting.export(
            task, config, checkpoint, str(tmp_path / name), saved_model.SavedModelWriter()
        )
        return [
            exported_model.Predictor(path).metrics,
            exported_model.CheckpointPredictor(task, config, checkpoint).metrics,
        ]

    assert metrics('before') == [{}, {}]
    evaluated.write(str(tmp_path), 7, {'val': {'accuracy': 0.5}, 'another': {'accuracy': 0.1}})
    assert metrics('after') == 2 * [{'accuracy': 0.5}]


def save_other(path, key='serving_default', dtype=tf.float32):
    """Write a SavedModel of another program."""
    with tf.Graph().as_default(), tf1.Session() as session:
        one = tf1.placeholder(dtype, [None], 'x')
        signature = tf1.saved_model.predict_signature_def({'x': one}, {'y': tf.identity(one)})
        builder = tf1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ['serve'], {key: signature})
        builder.save()
    return str(path)


def test_what_is_no_model_of_images_is_refused(folder):
    with pytest.raises(errors.UserError, match='holds no exported model'):
        exported_model.Predictor(str(folder / 'nowhere'))
    with pytest.raises(errors.UserError, match="no signature 'serving_default'; it has: other"):
        exported_model.Predictor(save_other(folder / 'other', key='other'))
    with pytest.raises(errors.UserError, match=r'takes x \(float32\); expected one input, of im'):
        exported_model.Predictor(save_other(folder / 'floats'))


def test_the_folder_of_a_run_names_its_export(tmp_path):
    export = tmp_path / 'export' / 'final' / '12'
    export.mkdir(parents=True)
    (export / 'saved_model.pb').write_bytes(b'')
    with pytest.raises(errors.UserError) as caught:
        exported_model.Predictor(str(tmp_path))
    assert str(caught.value).endswith(f'The newest one of the run is {export}.')


def test_a_damaged_model_is_named(folder):
    (folder / 'damaged').mkdir()
    (folder / 'damaged' / 'saved_model.pb').write_bytes(b'damaged')
    with pytest.raises(errors.UserError, match='damaged cannot be loaded as a SavedModel'):
        exported_model.Predictor(str(folder / 'damaged'))


def test_a_corrupt_graph_is_named(folder):
    path = save_other(folder / 'corrupt')
    file = folder / 'corrupt' / 'saved_model.pb'
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    model.meta_graphs[0].graph_def.node[-1].input.append('no_such_node')
    file.write_bytes(model.SerializeToString())
    with pytest.raises(errors.UserError, match='corrupt cannot be loaded as a SavedModel'):
        exported_model.Predictor(path)


def test_a_flipped_bit_is_found(folder, checkpoint):
    """Most flipped bits of weights load and predict, wrongly."""
    path = exporting.export(
        tiny_task.TinyTask(),
        pipeline_pb2.TrainEvalPipelineConfig(),
        checkpoint,
        str(folder / 'flipped'),
        saved_model.SavedModelWriter(),
    )
    file = pathlib.Path(path, 'saved_model.pb')
    content = file.read_bytes()
    file.write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    with pytest.raises(errors.UserError, match='is not what was exported: sha256 is'):
        exported_model.Predictor(path)
    file.write_bytes(content)
    exported_model.Predictor(path)
