import tensorflow as tf

from model_fns import checkpoint_scopes
from model_fns.detection.networks.feature_extractors import extractor


def test_the_scope_of_a_detector_is_the_one_that_its_variables_have():
    assert checkpoint_scopes.PREFIXES == {
        'classification': '',
        'detection': 'FeatureExtractor/',
        'segmentation': '',
    }
    assert f'{extractor.SCOPE}/' == checkpoint_scopes.PREFIXES['detection']


def test_a_scope_that_is_in_a_name_twice_is_renamed_twice():
    def rename(name):
        return f'Outer/{name}'

    for name, expected in {
        'a/b/weights': 'Outer/a/b/weights',
        'a/act_quant/min': 'Outer/a/act_quant/min',
        'a/act_quant/a/act_quant/max/biased': 'Outer/a/act_quant/Outer/a/act_quant/max/biased',
        'b/a/min/biased': 'Outer/b/a/min/biased',
    }.items():
        assert checkpoint_scopes.rename_scope(name, rename) == expected


def test_the_example_of_the_docstring():
    name = 'resnet_v1_50/conv1/weights'
    with tf.Graph().as_default():
        weights = tf.compat.v1.get_variable(name, [])
        restored = checkpoint_scopes.restore_map('detection', [weights])
        assert restored == {f'FeatureExtractor/{name}': weights}
        assert checkpoint_scopes.restore_map('classification', [weights]) == {name: weights}


def test_names_in_an_outer_scope():
    with tf.Graph().as_default():
        kept = [tf.compat.v1.get_variable(name, []) for name in ('a/x', 'q/q/min/biased')]
        assert checkpoint_scopes.add_scope('F/', kept) == {
            'F/a/x': kept[0],
            'F/q/F/q/min/biased': kept[1],
        }
