"""The interface between the task and an architecture, with an architecture of a few lines."""

import types

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, registry
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import detector
from model_fns.detection.architectures.ssd.model import SsdModel
from protos import model_pb2, pipeline_pb2
from tests import tiny_detection

tf1 = tf.compat.v1


def model(text):
    return text_format.Parse(text, model_pb2.DetectionModel())


def tiny(merged=''):
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    return text_format.Merge(merged, config.model)


def test_the_single_shot_detector_is_found_by_its_field():
    built = detector.build_detector(tiny())
    assert isinstance(built, SsdModel)
    assert built.resizer.static_size == (64, 64)
    assert (built.num_classes, built.family.SIZE, built.outputs) == (2, 4, frozenset())


def test_an_architecture_adds_itself(monkeypatch):
    detectors = registry.Registry('detector')
    monkeypatch.setattr(detector, 'DETECTORS', detectors)

    def build(*arguments):
        return types.SimpleNamespace(arguments=arguments)

    detectors.add('faster_rcnn', build)
    settings = layers.Quantization()
    config = model('faster_rcnn { num_classes: 7 }')
    made = detector.build_detector(config, settings)
    assert made.arguments == (Section(config.faster_rcnn, 'model.faster_rcnn'), settings)
    with pytest.raises(errors.ConfigError, match=r"model\.ssd: unknown detector 'ssd'"):
        detector.build_detector(model('ssd {}'))


def test_a_model_that_is_empty():
    with pytest.raises(errors.ConfigError, match='^model: empty; expected one of center_net, '):
        detector.build_detector(model(''))


@pytest.mark.parametrize(
    ('text', 'path'),
    [
        ('matcher { argmax_matcher { matched_threshold: 0.1 } }', 'matcher.argmax_matcher.unm'),
        (
            'loss { classification_loss { weighted_softmax { logit_scale: 0 } } }',
            'loss.classification_loss.weighted_softmax.logit_scale: 0',
        ),
    ],
)
def test_parts_name_the_path_that_they_were_built_from(text, path):
    with pytest.raises(errors.ConfigError) as caught:
        detector.build_detector(tiny(f'ssd {{ {text} }}'))
    assert str(caught.value).startswith(f'model.ssd.{path}')


def test_padding_is_filled():
    images = tf.ones([2, 2, 3, 2])
    filled = detector.fill_padding(images, tf.constant([[1, 3, 2], [2, 2, 2]]), (5.0, 6.0)).numpy()
    np.testing.assert_array_equal(filled[..., 0], [[[1, 1, 1], [5, 5, 5]], [[1, 1, 5], [1, 1, 5]]])
    np.testing.assert_array_equal(filled[0, 1, 0], [5, 6])


def test_how_much_of_an_input_is_image():
    shares = detector.content_shares(
        tf.constant([[30, 50, 3], [40, 25, 3]]), tf.zeros([2, 40, 50, 3])
    )
    np.testing.assert_allclose(shares, [[0.75, 1.0], [1.0, 0.5]])


def test_variables_of_a_scope_by_their_names_in_a_checkpoint():
    with tf.Graph().as_default():
        one = tf1.get_variable('Extractor/conv/weights', [1])
        others = [tf1.get_variable(name, [1]) for name in ('ExtractorB/weights', 'Head/weights')]
        variables = [one, *others]
        assert detector.strip_scope(variables, 'Extractor', 'classification') == {
            'conv/weights': one
        }
        assert detector.strip_scope(variables, 'Extractor', 'detection') == {
            'Extractor/conv/weights': one
        }


def test_raw_padding_gets_the_values_before_images_are_normalized():
    images = tf.zeros([1, 2, 2, 3]) + [[[[5.0]], [[0.0]]]]
    shapes = tf.constant([[1, 2, 3]])
    filled = detector.fill_raw_padding(images, shapes, (1.0, 2.0, 3.0))
    np.testing.assert_array_equal(filled, [[[[5.0] * 3] * 2, [[1.0, 2.0, 3.0]] * 2]])
    assert detector.fill_raw_padding(images, shapes, (0.0, 0.0, 0.0)) is images
    assert detector.fill_raw_padding(images, None, (1.0, 2.0, 3.0)) is images
