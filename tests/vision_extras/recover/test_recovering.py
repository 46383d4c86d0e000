"""Checkpoints and files that are no known model."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.vision_extras.recover import recovered
from vision_extras.recover import files as files_lib
from vision_extras.recover import recovering

tf1 = tf.compat.v1

MODEL = """
model { classification { num_classes: 4 backbone { name: "mobilenet_v1" depth_multiplier: 0.25 } } }
"""


@pytest.fixture(scope='module')
def frozen(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('frozen'))
    text = MODEL.replace('num_classes', 'image_height: 32 image_width: 32 num_classes')
    config, path = recovered.freeze(text, folder)
    graph_def = tf1.GraphDef()
    graph_def.ParseFromString(pathlib.Path(path).read_bytes())
    return config.model.classification, graph_def


def plain(backbone):
    return recovered.plain(backbone, without=['batch_norm_decay'])


def told(path, folder):
    return recovered.recover(path, str(folder))[1].model.classification


def test_frozen_graph_with_a_prefix_and_other_nodes(frozen, tmp_path):
    model, graph_def = frozen
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(graph_def, name='import')
        tf.constant(3.0, name='import/learning_rate')
    path = tmp_path / 'a.pb'
    path.write_bytes(graph.as_graph_def().SerializeToString())
    found = told(str(path), tmp_path)
    assert (found.num_classes, found.image_height) == (4, 32)
    assert plain(found.backbone) == plain(model.backbone)


def test_saved_model(frozen, tmp_path):
    model, graph_def = frozen
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.import_graph_def(graph_def, name='')
        inputs, outputs = (
            {name: graph.get_tensor_by_name(f'{node}:0') for name, node in names.items()}
            for names in (
                {'inputs': 'image_tensor'},
                {'logits': 'logits', 'probabilities': 'probabilities', 'classes': 'classes'},
            )
        )
        tf1.saved_model.simple_save(session, str(tmp_path / 'saved'), inputs, outputs)
    found = told(str(tmp_path / 'saved'), tmp_path)
    assert plain(found.backbone) == plain(model.backbone)
    assert found.preprocessing == 'inception'


def test_other_scores_are_refused(frozen, tmp_path):
    """A graph with the kernels of a known network may compute something else."""
    _, graph_def = frozen
    changed = tf1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.op == 'Relu6':
            node.op = 'Relu'
    path = tmp_path / 'a.pb'
    path.write_bytes(changed.SerializeToString())
    with pytest.raises(errors.UserError, match='the recovered model differs: '):
        recovered.recover(str(path), str(tmp_path))
    assert not os.listdir(tmp_path / 'recovered')


@pytest.mark.parametrize('name', ['pipeline.config', 'label_map.pbtxt', 'recovery.md'])
def test_files_of_the_user_are_not_replaced(frozen, tmp_path, name):
    _, graph_def = frozen
    path = tmp_path / 'a.pb'
    path.write_bytes(graph_def.SerializeToString())
    mine = tmp_path / 'recovered' / name
    mine.parent.mkdir()
    mine.write_text('mine')
    with pytest.raises(errors.UserError, match=f'recovered holds {name} already'):
        recovered.recover(str(path), str(tmp_path))
    assert mine.read_text() == 'mine'


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    """The file that names the checkpoint comes last: a kill leaves no checkpoint of half a run."""
    source = tmp_path / 'made'
    source.mkdir()
    for name in ('checkpoint', 'a.index', 'pipeline.config'):
        (source / name).write_text(name)
    target = tmp_path / 'out'
    (target / 'pipeline.config').mkdir(parents=True)
    with pytest.raises(errors.UserError, match='out/pipeline.config cannot be written: '):
        recovering._copy_files(str(source), str(target))
    assert sorted(os.listdir(target)) == ['a.index', 'pipeline.config']


def write_graph(path, scope):
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.uint8, [1, 8, 8, 3])
        weights = tf.constant(np.ones([3, 3, 3, 2], np.float32), name=f'{scope}/weights')
        tf.nn.conv2d(tf.cast(images, tf.float32), weights, 1, 'SAME', name=f'{scope}/Conv2D')
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


def test_checkpoint_without_a_config(tmp_path):
    config, _, prefix = recovered.write_checkpoint(MODEL, str(tmp_path))
    files, found = recovered.recover(prefix, str(tmp_path))
    model = found.model.classification
    assert plain(model.backbone) == plain(config.model.classification.backbone)
    assert model.num_classes == 4
    values, original = map(recovered.read_checkpoint, (files.checkpoint, prefix))
    assert set(values) - {'global_step'} == set(original) - {'global_step'}
    name = 'MobilenetV1/Conv2d_0/BatchNorm/gamma'
    np.testing.assert_array_equal(values[name], original[name])
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert 'Nothing was compared' in report


def test_moving_averages_of_a_checkpoint_are_taken(tmp_path):
    prefix = recovered.write_checkpoint(MODEL, str(tmp_path))[-1]
    name = 'MobilenetV1/Conv2d_0/weights'
    values = recovered.read_checkpoint(prefix)
    values.pop('global_step', None)
    averages = values[f'{name}/ExponentialMovingAverage'] = values[name] + 1.0
    prefix = files_lib.write_checkpoint(values, str(tmp_path / 'averaged'))
    files, _ = recovered.recover(prefix, str(tmp_path))
    np.testing.assert_array_equal(recovered.read_checkpoint(files.checkpoint)[name], averages)
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '| moving averages of 1 variables |' in report


def test_model_without_layers_is_no_vision_model(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.add(tf1.placeholder(tf.float32, [2], name='x'), 1.0)
    path = tmp_path / 'a.pb'
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(errors.UserError, match='a.pb is no vision model'):
        recovered.recover(str(path), str(tmp_path))


def test_unknown_network_names_its_kernels(tmp_path):
    path = write_graph(tmp_path / 'a.pb', 'mine/first')
    with pytest.raises(errors.UserError, match='of no known network.*mine/first/weights') as caught:
        recovered.recover(path, str(tmp_path))
    assert 'nearest' not in str(caught.value)
    assert not os.path.exists(tmp_path / 'recovered')


def test_nearest_scope_of_an_unknown_network_is_named(tmp_path):
    path = write_graph(tmp_path / 'a.pb', 'MobilenetV9/first')
    with pytest.raises(errors.UserError, match='scope of the nearest is Mobilenet'):
        recovered.recover(path, str(tmp_path))


def test_model_of_keras_is_named(tmp_path):
    path = write_graph(tmp_path / 'a.pb', 'model/conv2d_3')
    with pytest.raises(errors.UserError, match='a.pb is a model of Keras: its layers are '):
        recovered.recover(path, str(tmp_path))


def test_nearest_networks_are_listed_with_their_differences(tmp_path):
    path = write_graph(tmp_path / 'a.pb', 'MobilenetV1/Conv2d_0')
    with pytest.raises(errors.UserError) as caught:
        recovered.recover(path, str(tmp_path))
    first, nearest = str(caught.value).split('\n')[:2]
    assert 'its kernels are of no known classifier' in first
    assert 'differences: ' in nearest and 'is missing' in nearest


def test_quantized_graph_is_refused(tmp_path):
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 8, 8, 3])
        weights = tf.constant(
            np.ones([3, 3, 3, 2], np.float32), name='MobilenetV1/Conv2d_0/weights'
        )
        tf.nn.conv2d(images, tf.quantization.fake_quant_with_min_max_args(weights), 1, 'SAME')
    path = tmp_path / 'a.pb'
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(errors.UserError, match='a.pb is quantized, or trained for it'):
        recovered.recover(str(path), str(tmp_path))


def write_tflite(path, padding='SAME', kernel=np.float32):
    """Write a TFLite file by the converter: a convolution of normalized pixels."""
    weights = np.linspace(-1.0, 1.0, 54).reshape(3, 3, 3, 2).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        image = tf1.placeholder(tf.float32, [1, 8, 8, 3], 'image')
        features = tf.nn.conv2d(image - 9.0, weights, 1, padding, name='MobilenetV1/one/Conv2D')
        converter = tf1.lite.TFLiteConverter.from_session(session, [image], [features])
    if kernel != np.float32:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([np.ones([1, 8, 8, 3], np.float32)],)
    path.write_bytes(converter.convert())
    return str(path)


def test_unknown_network_of_a_tflite_file_names_the_nearest(tmp_path):
    path = write_tflite(tmp_path / 'a.tflite')
    with pytest.raises(errors.UserError, match='its kernels are of no known classifier') as caught:
        recovered.recover(path, str(tmp_path))
    assert 'mobilenet_v1: ' in str(caught.value)
    assert not os.path.exists(tmp_path / 'recovered')


def test_normalization_that_the_converter_has_merged_is_found(tmp_path):
    """Without padding, the converter makes it a part of the bias of the first layer."""
    path = write_tflite(tmp_path / 'a.tflite', 'VALID')
    with pytest.raises(errors.UserError, match='has merged the normalization of pixels'):
        recovered.recover(path, str(tmp_path))


def test_tflite_file_of_integers_is_refused(tmp_path):
    path = write_tflite(tmp_path / 'a.tflite', kernel=np.int8)
    with pytest.raises(errors.UserError, match='a.tflite is quantized, or trained for it'):
        recovered.recover(path, str(tmp_path))


def test_tflite_file_without_layers_is_no_vision_model(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        value = tf1.placeholder(tf.float32, [1, 10], 'x')
        converter = tf1.lite.TFLiteConverter.from_session(session, [value], [value * 2.0])
        path = tmp_path / 'a.tflite'
        path.write_bytes(converter.convert())
    with pytest.raises(errors.UserError, match='a.tflite is no vision model') as caught:
        recovered.recover(str(path), str(tmp_path))
    assert '\n' not in str(caught.value)
