"""Every published single-shot config: its variables, regularization losses, updates and maps."""

from __future__ import annotations

import functools
import json
import math

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection import generations
from model_fns.detection.networks.feature_extractors import extractor
from protos import pipeline_pb2, ssd_pb2
from tests.conftest import shared_folder
from tests.model_fns.detection import recorded_detectors

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

CONFIGS = shared_folder() / 'configs'
VARIABLES = shared_folder() / 'spec' / 'variables'


def _read(path):
    return text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())


def _published():
    """List the names of the configs of single-shot detectors with listed variables."""
    names = sorted(path.stem for path in CONFIGS.glob('tf1/*.config'))
    return [
        name
        for name in names
        if (VARIABLES / f'{name}.json').is_file()
        and json.loads((VARIABLES / f'{name}.json').read_text())['meta_architecture'] == 'ssd'
    ]


# Fields that do not change what is built here.
OF_OTHER_PARTS = ('loss', 'matcher', 'post_processing', 'encode_background_as_zeros')

# Height and channels of the feature maps, as far as families differ.
MAPS = {
    'ssd_mobilenet_v1_coco': [(19, 512), (10, 1024), (5, 512), (3, 256), (2, 256), (1, 128)],
    'embedded_ssd_mobilenet_v1_coco': [(16, 64), (8, 128), (4, 64), (2, 32), (1, 32)],
    'ssd_mobilenet_v2_coco': [(19, 576), (10, 1280), (5, 512), (3, 256), (2, 256), (1, 128)],
    'ssd_inception_v2_coco': [(19, 576), (10, 1024), (5, 512), (3, 256), (2, 256), (1, 128)],
    'ssd_inception_v3_pets': [(35, 288), (17, 768), (8, 2048), (4, 512), (2, 256), (1, 128)],
    'ssd_mobilenet_v1_ppn_shared_box_predictor_300x300_coco14_sync': [
        (size, 512) for size in (19, 10, 5, 3, 2, 1)
    ],
    'ssd_mobilenet_v1_fpn_shared_box_predictor_640x640_coco14_sync': [
        (size, 256) for size in (80, 40, 20, 10, 5)
    ],
    'ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync': [
        (size, 256) for size in (80, 40, 20, 10, 5)
    ],
    'ssd_mobilenet_v2_mnasfpn_shared_box_predictor_320x320_coco_sync': [
        (size, 48) for size in (40, 20, 10, 5)
    ],
    **{
        f'ssdlite_{name}': [(20, first), (10, second), (5, 512), (3, 256), (2, 256), (1, 128)]
        for name, first, second in (
            ('mobiledet_cpu_320x320_coco_sync_4x4', 72, 144),
            ('mobiledet_edgetpu_320x320_coco_sync_4x4', 96, 384),
            ('mobiledet_gpu_320x320_coco_sync_4x4', 128, 384),
            ('mobilenet_edgetpu_320x320_coco', 384, 192),
            ('mobilenet_v3_large_320x320_coco', 672, 480),
            ('mobilenet_v3_small_320x320_coco', 288, 288),
        )
    },
}


ALIKE = (
    'ssdlite_mobiledet_edgetpu_320x320_coco_sync_4x4',
    'ssdlite_mobiledet_gpu_320x320_coco_sync_4x4',
    'ssdlite_mobilenet_v3_small_320x320_coco',
)


@pytest.mark.parametrize(
    'name',
    [
        # The others have backbones and maps of one of these, or its blocks in another order.
        pytest.param(
            name, marks=[] if name in MAPS and name not in ALIKE else pytest.mark.published
        )
        for name in _published()
    ],
)
def test_variables_are_as_published(name):
    listed = json.loads((VARIABLES / f'{name}.json').read_text())
    config = _read(CONFIGS / 'tf1' / f'{name}.config').model.ssd
    for field in OF_OTHER_PARTS:
        config.ClearField(field)
    graph, network = _build(config.SerializeToString(deterministic=True), *listed['input'])
    trainable = {v.op.name for v in graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)}
    variables = {v.op.name: v for v in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)}
    actual = {name: (list(v.shape), name in trainable) for name, v in variables.items()}
    expected = {name: (shape, is_trainable) for name, shape, is_trainable in listed['variables']}
    assert set(actual) == set(expected), sorted(set(actual) ^ set(expected))
    assert actual == expected
    counts = [math.prod(shape) for shape, is_trainable in actual.values() if is_trainable]
    assert sum(counts) == listed['n_params_trainable']
    penalties = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    assert len(penalties) == listed['n_regularization_losses']
    _check_updates(graph, variables, config.inplace_batchnorm_update)
    _check_maps(name, network)


@functools.cache
def _build(serialized, height, width):
    """A detector's graph in training; several configs differ in their losses alone."""
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [2, height, width, 3])
        return graph, recorded_detectors.build(
            ssd_pb2.Ssd.FromString(serialized), images, is_training=True
        )


@pytest.fixture(scope='module', autouse=True)
def _graphs_end_here():
    yield
    _build.cache_clear()


def _check_updates(graph, variables, inplace):
    """Check that training assigns each moving statistic once."""
    updates = set(graph.get_collection(tf1.GraphKeys.UPDATE_OPS))
    if inplace:
        assert not updates
        updates = {before for op in graph.get_operations() for before in op.control_inputs}
    updated = [op.inputs[0].op.name for op in updates if op.type == 'AssignVariableOp']
    moving = [v.handle.op.name for name, v in variables.items() if '/moving_' in name]
    assert sorted(updated) == sorted(moving)


def _check_maps(name, network):
    sizes = [(one.shape[1], one.shape[3]) for one in network.feature_maps]
    if name in MAPS:
        assert sizes == MAPS[name]
    # As many predictions as anchors: the anchors' levels are those of the feature maps.
    count = len(network.anchors)
    assert network.box_encodings.shape.as_list()[1:] == [count, 4]
    assert network.class_logits.shape.as_list()[1] == count


def _of_other_networks():
    return sorted(
        path
        for path in CONFIGS.glob('tf?/*.config')
        if _read(path).model.HasField('ssd') and path.stem not in _published()
    )


@pytest.mark.parametrize('path', _of_other_networks(), ids=lambda path: path.stem)
def test_keras_types_are_of_the_second_generation(path):
    config = _read(path).model.ssd.feature_extractor
    assert config.type.endswith('_keras')
    made = extractor.build_feature_extractor(Section(config), is_training=True)
    assert made.settings.generation is generations.SECOND
    assert made.scope == 'KerasFeatureExtractor'
    if 'efficientnet' in config.type:
        return  # There are none of the first.
    config.type = config.type[: -len('_keras')]
    counterpart = extractor.build_feature_extractor(Section(config), is_training=True)
    assert type(made) is type(counterpart) and made.backbone_scope == counterpart.backbone_scope
    assert counterpart.scope == 'FeatureExtractor'
