"""Round trips of classifiers: artifact -> config and checkpoint."""

import os
import pathlib

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.structures.label_map import LabelMap
from tests.vision_extras.recover import recovered
from vision_extras.recover import kernels

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
