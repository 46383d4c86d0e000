import re

import pytest
import tensorflow as tf

from model_fns import layers
from model_fns.detection import generations
from model_fns.detection.generations import FIRST, SECOND

STYLE = layers.LayerStyle(
    initializer=layers.truncated_normal(0.03),
    regularizer=layers.l2(4e-5),
    regularize_depthwise=True,
    activation=tf.nn.relu6,
)


def test_the_ending_of_a_type_tells_its_generation():
    assert generations.find_generation('ssd_mobilenet_v2_fpn') is FIRST
    assert generations.find_generation('ssd_mobilenet_v2_fpn_keras') is SECOND
    assert generations.counterpart('ssd_mobilenet_v1') == 'ssd_mobilenet_v1_keras'
    assert generations.counterpart('ssd_mobilenet_v1_keras') == 'ssd_mobilenet_v1'


def test_the_ending_of_a_type_of_two_stages_tells_that_it_has_a_pyramid():
    assert generations.with_pyramid('faster_rcnn_resnet50') == 'faster_rcnn_resnet50_fpn_keras'
    assert generations.has_pyramid('faster_rcnn_resnet50_fpn_keras')
    assert not generations.has_pyramid('faster_rcnn_resnet50_keras')


@pytest.mark.parametrize('asked', [False, True])
def test_the_first_generation_has_one_style(asked):
    assert FIRST.separable(STYLE, asked) is FIRST.separable_head(STYLE, asked) is STYLE


def test_pointwise_weights_of_the_second_are_bare_unless_asked_for():
    bare = SECOND.separable(STYLE)
    assert (bare.pointwise_initializer, bare.regularize_pointwise) == (layers.XAVIER, False)
    assert (bare.initializer, bare.regularizer) == (STYLE.initializer, STYLE.regularizer)
    assert SECOND.separable(STYLE, asked=True) is STYLE
    head = SECOND.separable_head(STYLE)
    assert (head.initializer, head.regularizer) == (layers.XAVIER, None)
    assert SECOND.separable_head(STYLE, asked=True) is STYLE


@pytest.mark.parametrize(
    ('type_name', 'expected'), [('net', ''), ('net_keras', r'TensorFlow 1 \(resnet/[.]{3}\)')]
)
def test_a_residual_classifier_is_of_the_first_generation(type_name, expected):
    said = generations.foreign(['resnet/a'], 'FeatureExtractor', type_name, 'resnet')
    assert re.search(expected, said) if expected else said == ''


@pytest.mark.parametrize(
    ('names', 'type_name', 'expected'),
    [
        (['FeatureExtractor/a'], 'net', ''),
        (['KerasFeatureExtractor/a'], 'net_keras', ''),
        (['Backbone/a'], 'net_keras', ''),
        (['KerasFeatureExtractor/a'], 'net', 'of TensorFlow 2 .* or the type net_keras'),
        (['FeatureExtractor/a', 'b'], 'net_keras', 'of TensorFlow 1 .* or the type net[.]'),
    ],
)
def test_a_checkpoint_of_the_other_generation_is_told(names, type_name, expected):
    said = generations.foreign(names, 'FeatureExtractor', type_name)
    assert re.search(expected, said) if expected else said == ''


def test_no_type_is_named_where_the_other_generation_has_none():
    names, scope = ['FeatureExtractor/a'], 'FeatureExtractor'
    said = generations.foreign(names, scope, 'a_keras', has_twin=False)
    assert said.endswith('with them; expected a checkpoint of a_keras.')
