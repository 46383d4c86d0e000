"""Round trips of classifiers: artifact -> config and checkpoint."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.structures.label_map import LabelMap
from tests.vision_extras.recover import recovered
from vision_extras.recover import classification, kernels
from vision_extras.recover.artifacts import graphs, reading
from vision_extras.recover.facts import Proposal

tf1 = tf.compat.v1
NETWORK = registry.get_network('mobilenet_v1')

MODEL = """
model {
  classification {
    num_classes: 5
    image_height: 64
    image_width: 96
    preprocessing: "vgg"
    labels_offset: 1
    backbone { name: "mobilenet_v1" depth_multiplier: 0.25 }
  }
}
"""


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('classifier'))
    config, path = recovered.freeze(MODEL, folder)
    return config, *recovered.recover(path, folder)


def test_recovered_config_equals_the_original(round_trip):
    config, _, found = round_trip
    training = ['batch_norm_decay']
    assert recovered.plain(found.model, training) == recovered.plain(config.model)


def test_comments_mark_what_the_artifact_does_not_tell(round_trip):
    _, files, _ = round_trip
    lines = pathlib.Path(files.config).read_text(encoding='utf-8').splitlines()
    assert any('batch_size' in line and '# for a fine-tuning; published' in line for line in lines)
    assert any('input_path' in line and '# not told' in line for line in lines)
    assert not any('num_classes' in line and '#' in line for line in lines)


def test_training_is_a_fine_tuning_of_the_checkpoint_beside_the_config(round_trip):
    _, files, found = round_trip
    train_config = found.train_config
    assert train_config.fine_tune_checkpoint == os.path.abspath(files.checkpoint)
    assert not train_config.optimizer.use_moving_average
    label_map = LabelMap.read(found.train_input_reader.label_map_path)
    assert [(item.id, item.name) for item in label_map.items][:2] == [
        (1, 'class_1'),
        (2, 'class_2'),
    ]


def test_report_has_the_evidence(round_trip):
    _, files, _ = round_trip
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '`model.classification.image_width` | 96' in report
    assert 'probabilities: ' in report


@pytest.fixture(scope='module')
def converted(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('converted'))
    config, path = recovered.convert(MODEL, folder, 'float16')
    return config, *recovered.recover(path, folder), path


def test_tflite_file_tells_what_its_network_is(converted):
    """Its weights are float16, and its input is pixels of the size of the network."""
    config, files, found, _ = converted
    # A file has no classes, so it does not tell the offset of labels.
    expected = recovered.plain(config.model.classification, without=['labels_offset'])
    untold = ['labels_offset', 'batch_norm_decay']
    assert recovered.plain(found.model.classification, without=untold) == expected
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert 'A TFLite file with' in report
    assert '* logits: ' in report and '* probabilities: ' in report
    assert 'it does not tell how images become it' in report
    name = 'MobilenetV1/Conv2d_0/weights'
    original = recovered.read_checkpoint(f'{files.checkpoint}/../../source/model.ckpt')[name]
    scale = recovered.read_checkpoint(files.checkpoint)[name] / original
    # The batch norm is a factor of each of the 8 channels.
    np.testing.assert_allclose(scale, np.broadcast_to(scale[0, 0, 0], scale.shape), rtol=1e-2)


def test_tflite_file_that_computes_something_else_is_refused(converted, tmp_path, monkeypatch):
    *_, path = converted

    def other(self, name, epsilons):
        value = read(self, name, epsilons)
        return value if value is None or 'Conv2d_13' not in name else value * 1.01

    read = kernels.Kernels._value
    monkeypatch.setattr(kernels.Kernels, '_value', other)
    with pytest.raises(errors.UserError, match='the recovered model differs: logits by'):
        recovered.recover(path, str(tmp_path))
    assert not os.listdir(tmp_path / 'recovered')


def artifact(build):
    with tf.Graph().as_default() as graph:
        build()
    found = graphs.Graph(graph.as_graph_def())
    return reading.Artifact('a.pb', reading.FROZEN_GRAPH, dict(found.constants()), found)


def proposed():
    return Proposal(recovered.parse('model { classification { num_classes: 2 } }'), '')


@pytest.mark.parametrize('has_bias, biases', [(True, [13, 14]), (False, [1, 0])])
def test_further_layer_and_logits_become_one(has_bias, biases):
    """[[1, 2], [3, 4]] [[5, 6], [7, 8]] = [[19, 22], [43, 50]]; [1, 1] V + [1, 0] = [13, 14]."""
    scope = 'MobilenetV1/Logits/Conv2d_1c_1x1'

    def build():
        images = tf1.placeholder(tf.float32, [1, 2], name='images')
        weights = tf.constant([[1.0, 2.0], [3.0, 4.0]], name=f'{scope}/weights')
        logits = tf.matmul(images, weights, name=f'{scope}/MatMul')
        if has_bias:
            logits = tf.nn.bias_add(logits, tf.constant([1.0, 1.0]), name=f'{scope}/BiasAdd')
        further = tf.constant([[5.0, 6.0], [7.0, 8.0]], name='final/weights')
        product = tf.matmul(logits, further, name='final/MatMul')
        tf.nn.bias_add(product, tf.constant([1.0, 0.0]), name='final/BiasAdd')

    found = artifact(build)
    arrays = kernels.Kernels(found)
    classification._merge_further_layer(found.graph, arrays, NETWORK, proposed())
    assert arrays.arrays[f'{scope}/weights'].tolist() == [[19, 22], [43, 50]]
    assert arrays.arrays[f'{scope}/biases'].tolist() == biases


@pytest.mark.parametrize('channels', [1, 3])
@pytest.mark.parametrize('window, side', [(4, 128), (None, 224)])
def test_size_without_an_input_shape_is_told_by_the_last_pooling_only(window, side, channels):
    def build():
        images = tf1.placeholder(tf.float32, name='images')
        features = images[:, ::32, ::32]
        if window is None:
            tf.reduce_mean(features, [1, 2], name='logits')
        else:
            tf.nn.avg_pool2d(features, window, 1, 'VALID', name='logits')

    found, proposal = artifact(build), proposed()
    proposal.config.model.classification.use_grayscale = channels == 1
    classification._read_graph(found, found.graph, NETWORK, proposal)
    assert proposal.input_shape == (side, side, channels)
    assert proposal.config.model.classification.image_height == side
    is_told = window is not None
    assert proposal.knows('model.classification.image_height') == is_told
    said = f'{side} is the first published size that its graph computes.'
    assert any(said in sentence for sentence in proposal.unknown) != is_told
