"""Round trips of object-based checkpoints: objects -> config and checkpoint."""

import concurrent.futures
import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import object_graphs
from model_fns.detection.task import DetectionTask
from tests import tiny_center_net
from tests.model_fns.detection import recorded_objects
from tests.vision_extras.recover import recovered
from vision_extras.recover import bases
from vision_extras.recover.detection import object_checkpoints, published

tf1 = tf.compat.v1

PYRAMID = 'ssd_mobilenet_v2_fpn_keras'


def values_of(config):
    """Return values for the variables of a config's model, by path and by name."""
    task = DetectionTask.from_config(config)
    random = np.random.RandomState(0)
    with tf.Graph().as_default():
        features = task.serving_features(tf.zeros([1, 64, 64, 3], tf.uint8))
        task.predict(features, tf_estimator.ModeKeys.PREDICT)
        paths = task.checkpoints.object_paths(tf1.global_variables(), None)
        values = {
            path: random.rand(*each.shape.as_list()).astype(np.float32)
            for path, each in paths.items()
        }
        return values, {paths[path].op.name: value for path, value in values.items()}


def write(values, folder):
    """Write objects in a thread without a default graph."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(object_graphs.write, values, str(folder)).result()


def pyramid():
    config = published.single_shot(PYRAMID, 'weight_shared_convolutional_box_predictor')
    ssd = config.model.ssd
    ssd.num_classes = 3
    ssd.image_resizer.fixed_shape_resizer.height = 320
    ssd.image_resizer.fixed_shape_resizer.width = 320
    ssd.feature_extractor.use_depthwise = True
    ssd.feature_extractor.depth_multiplier = 0.5
    levels = ssd.feature_extractor.fpn
    levels.min_level, levels.max_level, levels.additional_layer_depth = 3, 6, 48
    head = ssd.box_predictor.weight_shared_convolutional_box_predictor
    head.depth, head.num_layers_before_predictor, head.kernel_size = 20, 2, 3
    head.use_depthwise = head.share_prediction_tower = True
    multiscale = ssd.anchor_generator.multiscale_anchor_generator
    multiscale.min_level, multiscale.max_level, multiscale.anchor_scale = 3, 6, 4.0
    multiscale.aspect_ratios.extend([1.0, 2.0, 0.5])
    multiscale.scales_per_octave = 2
    ssd.post_processing.CopyFrom(bases.published('ssd_fpn').ssd.post_processing)
    return config


def center_net():
    config = recovered.parse(tiny_center_net.MODEL)
    model = config.model.center_net
    model.num_classes = 5
    return config


CASES = {'pyramid': pyramid, 'center_net': center_net}


@pytest.fixture(scope='module', params=list(CASES))
def round_trip(request, tmp_path_factory):
    config = CASES[request.param]()
    paths, names = values_of(config)
    folder = tmp_path_factory.mktemp(request.param)
    files, found = recovered.recover(write(paths, folder), str(folder))
    return config, names, files, found


def fields_of(config):
    kind = config.model.WhichOneof('model')
    model = getattr(config.model, kind)
    known = [model.num_classes, model.feature_extractor.type]
    if kind == 'center_net':
        task = model.object_detection_task
        return [*known, *task.scale_head_params.num_filters, *task.offset_head_params.num_filters]
    extractor = model.feature_extractor
    shared = model.box_predictor.weight_shared_convolutional_box_predictor
    names = ('depth', 'num_layers_before_predictor', 'share_prediction_tower', 'use_depthwise')
    known += [getattr(shared, name) for name in names]
    known += [extractor.depth_multiplier, extractor.use_depthwise]
    return [*known, extractor.fpn, model.image_resizer, model.anchor_generator]


def test_config_equals_the_original(round_trip):
    config, _, _, found = round_trip
    assert fields_of(found) == fields_of(config)


def test_variables_equal_the_original(round_trip):
    _, names, files, _ = round_trip
    values = recovered.read_checkpoint(files.checkpoint)
    for name, value in names.items():
        np.testing.assert_array_equal(values[name], value)


def test_objects_of_no_known_detector_are_refused(tmp_path):
    prefix = write({'model/net/kernel': np.ones([3, 3, 3, 2], np.float32)}, tmp_path)
    with pytest.raises(errors.UserError, match='object-based checkpoint.*of no known detector'):
        recovered.recover(prefix, str(tmp_path))


class Published:
    """Objects of a published checkpoint by its list of variables, with values of zero."""

    def __init__(self, name):
        path = recorded_objects.VARIABLES / f'{name}.json'
        rows = json.loads(path.read_text(encoding='utf-8'))['variables']
        end = -len(recorded_objects.ENDING)
        self.shapes = {row[4][:end]: row[1] for row in rows}

    def children(self, path):
        start = f'{path}/'
        names = {each[len(start) :].split('/')[0] for each in self.shapes if each.startswith(start)}
        return sorted(names)

    def array(self, path):
        return np.zeros(self.shapes[path], np.float32) if path in self.shapes else None

    width = object_checkpoints.Objects.width


def test_published_efficient_detector_is_recognized():
    objects = Published('ssd_efficientdet_d0_512x512_coco17_tpu-8')
    (proposal,) = object_checkpoints._candidates(objects)
    kind, config = proposal.network, proposal.config
    assert kind == 'ssd_efficientnet-b0_bifpn_keras' and config.model.ssd.num_classes == 90
    match = object_checkpoints._match(config, objects)
    assert match.differences == [] and len(match.arrays) == len(objects.shapes)


def test_large_efficient_detector_sums_without_weights():
    objects = Published('ssd_efficientdet_d6_1408x1408_coco17_tpu-32')
    proposal = next(object_checkpoints._candidates(objects))
    kind = proposal.network
    levels = proposal.config.model.ssd.feature_extractor.bifpn
    assert kind == 'ssd_efficientnet-b6_bifpn_keras'
    assert (levels.combine_method, levels.num_iterations, levels.num_filters) == ('sum', 8, 384)
    assert (levels.min_level, levels.max_level) == (3, 7)


def test_other_heads_of_a_center_net_are_refused(tmp_path):
    kernel = np.ones([3, 3, 3, 2], np.float32)
    heads = ('object_center', 'segmentation.Sheatmap')
    values = {f'model/_prediction_head_dict/{head}/0/kernel': kernel for head in heads}
    with pytest.raises(errors.UserError, match='a CenterNet with segmentation'):
        recovered.recover(write(values, tmp_path), str(tmp_path))
