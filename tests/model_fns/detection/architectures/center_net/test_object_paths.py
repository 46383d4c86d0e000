"""Paths in published checkpoints, against the recorded lists of their variables."""

import functools
import json

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from model_fns.detection import detector
from model_fns.detection.architectures.center_net import extractors, object_paths
from tests.conftest import shared_folder

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

ENDING = '/.ATTRIBUTES/VARIABLE_VALUE'
PUBLISHED = (
    'centernet_hourglass104_1024x1024_coco17_tpu-32',
    'centernet_hourglass104_512x512_coco17_tpu-8',
    'centernet_resnet101_v1_fpn_512x512_coco17_tpu-8',
    'centernet_resnet50_v2_512x512_kpts_coco17_tpu-8',
)
# The two hourglasses have the same variables.
BUILT = PUBLISHED[1:]


def read(name, folder):
    """Read the model of a published config, with a label map of its keypoints."""
    path = shared_folder() / 'configs' / 'tf2' / f'{name}.config'
    if not path.is_file():
        pytest.skip(f'{path.name} is not in ../shared/configs')
    config = config_lib.parse_pipeline_config(path.read_text(), name).model
    for task in config.center_net.keypoint_estimation_task:
        labels = sorted(task.keypoint_label_to_std)
        keypoints = ' '.join(
            f'keypoints {{ id: {number} label: "{label}" }}' for number, label in enumerate(labels)
        )
        label_map = folder / 'keypoints.pbtxt'
        label_map.write_text(f'item {{ id: 1 name: "{task.keypoint_class_name}" {keypoints} }}')
        config.center_net.keypoint_label_map_path = str(label_map)
    return config


@functools.cache
def listed(name):
    """Return the shapes of the published variables by path."""
    path = shared_folder() / 'spec' / 'variables' / 'tf2' / f'{name}.json'
    if not path.is_file():
        pytest.skip(f'{path.name} is not in ../shared/spec')
    rows = json.loads(path.read_text())['variables']
    return {key[: -len(ENDING)]: tuple(shape) for _, shape, _, _, key in rows}


@pytest.mark.parametrize('name', BUILT)
def test_all_variables_have_the_published_paths_and_shapes(name, tmp_path):
    model = detector.build_detector(read(name, tmp_path))
    with tf.Graph().as_default():
        model.predict(tf.zeros([1, 128, 128, 3]), None, None, is_training=False)
        variables = tf1.global_variables()
        found = model.object_paths(variables, 'full')
        assert len(found) == len(variables)
        shapes = {path: tuple(one.shape.as_list()) for path, one in found.items()}
        assert shapes == listed(name)
        extractor = model.object_paths(variables, 'detection')
        assert set(extractor) == {path for path in shapes if '/_feature_extractor/' in path}
        classifier = model.object_paths(variables, 'classification')
    base = 'model/_feature_extractor/_base_model'
    expected = {path.replace(base, 'feature_extractor') for path in shapes if base in path}
    assert set(classifier) == expected  # none of an hourglass


def test_both_published_hourglasses_have_the_same_variables():
    assert listed(PUBLISHED[0]) == listed(PUBLISHED[1])


def test_small_resnets_have_a_path_for_each_layer():
    kind = extractors.EXTRACTORS.get('resnet_v1_18_fpn')
    named = object_paths.base_layers(kind)
    # Two convolutions with their batch norms and one before them a unit, a projection a block.
    assert len(named) == len(set(named)) == 1 + 8 * 5 + 4 + 1
    assert named[:8] == (
        'conv1',
        'block1/unit_1/basic_v2/preact',
        'block1/unit_1/basic_v2/conv1',
        'block1/unit_1/basic_v2/conv1/BatchNorm',
        'block1/unit_1/basic_v2/conv2',
        'block1/unit_1/basic_v2/conv2/BatchNorm',
        'block1/unit_1/basic_v2/shortcut',
        'block1/unit_2/basic_v2/preact',
    )
