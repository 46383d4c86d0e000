"""Weights of the detectors of torchvision: outputs of their heads, which were recorded."""

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns import build_task
from model_fns.backbones.hub_weights import files
from model_fns.detection.boxes import anchors
from model_fns.detection.networks import torchvision_weights
from tests import initial_values
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.hub_weights.recorded_weights import FakeFile

tf1 = tf.compat.v1


def read_case(name):
    path = shared_folder() / 'golden' / 'torchvision' / f'{name}_resnet50_fpn.npz'
    if not path.is_file():
        pytest.skip(f'no recorded case {path.name} in ../shared/golden/torchvision')
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def state_dict(case):
    init = recorded_backbones.weights_rule().init
    keys = ('torch_names', 'torch_shapes', 'rule_names', 'rule_shapes', 'rule_to_torch', 'factors')
    tensors = {}
    for name, shape, rule, rule_shape, axes, factor in zip(*(case[key].tolist() for key in keys)):
        value = init(rule, json.loads(rule_shape)) * np.float32(factor)
        tensors[name] = value.transpose(json.loads(axes))
        assert list(tensors[name].shape) == json.loads(shape)
    return tensors


class Built:
    """Network of a config with the weights of a case, and a session."""

    def __init__(self, name, config, **overrides):
        self.case = read_case(name)
        self.task = build_task(config_lib.load_pipeline_config(f'configs/{config}.config'))
        self.model = self.task._model
        reader = files.FamilyReader(
            f'{name}.pth',
            FakeFile(state_dict(self.case)),
            torchvision_weights.families(f'{name}.pth'),
        )
        self.graph = tf.Graph()
        with self.graph.as_default(), initial_values.left_out():
            pixels = tf1.placeholder_with_default(
                self.case['input_image_uint8'].astype(np.float32), [1, 160, 224, 3]
            )
            self.outputs = self.build(self.model.preprocess(pixels, None))
            variables = tf1.global_variables()
        held = reader.get_variable_to_shape_map()
        names = {v.op.name: v for v in variables}
        missing = [name for name in names if name not in held and 'global_step' not in name]
        assert (missing, sorted(set(held) - set(names))) == ([], [])
        with tf1.Session(graph=self.graph) as session:
            session.run(
                [v.initializer for v in names.values()],
                {v.initializer.inputs[1]: reader.get_tensor(name) for name, v in names.items()},
            )
            self.values = session.run(self.outputs)

    def build(self, images):
        raise NotImplementedError


class Retina(Built):
    def build(self, images):
        return self.model.predict(images, None, None, False)


class TwoStages(Built):
    def build(self, images):
        features = self.model._backbone.features(images, False)
        found = dict(self.model._regions(images, features, False))
        xyxy = self.case['boxes_xyxy']
        boxes = tf.constant(xyxy[np.newaxis, :, [1, 0, 3, 2]])
        size = tuple(tf.constant(float(side)) for side in (160, 224))
        second = self.model._second
        found['crops'] = second.crops(features, boxes, size)
        hidden = self.model._backbone.box_features(found['crops'], False)
        found['codes'], found['logits'] = second.build_head(False).predict(hidden)
        if second.third is not None:
            crops = second.third.crops(features, boxes, size)
            found['keypoints'] = second.third.predict(crops, False)['keypoint_predictions']
        return found


@pytest.fixture(scope='module')
def retina():
    return Retina('retinanet', 'torchvision_retinanet_resnet50')


@pytest.fixture(
    scope='module',
    params=[pytest.param('fasterrcnn', marks=pytest.mark.published), 'keypointrcnn'],
)
def two_stages(request):
    config = {'fasterrcnn': 'faster_rcnn', 'keypointrcnn': 'keypoint_rcnn'}[request.param]
    return TwoStages(request.param, f'torchvision_{config}_resnet50')


def check(actual, expected):
    """Check values to 1e-4 of the largest."""
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


def to_yx(boxes):
    return boxes[..., [1, 0, 3, 2]]


def test_logits_and_boxes_of_retina_net(retina):
    case, values = retina.case, retina.values
    check(values['class_predictions_with_background'], case['cls_logits'])
    check(values['box_encodings'], to_yx(case['bbox_regression']))
    sides = np.float32([160, 224, 160, 224])
    np.testing.assert_allclose(values['anchors'] * sides, to_yx(case['anchors']), atol=1e-3)


def test_regions_of_two_stages(two_stages):
    case, values = two_stages.case, two_stages.values

    def levels(name, size):
        parts = []
        for level in range(5):
            value = case[f'{name}_{level}'][0]
            value = value.reshape([-1, size, *value.shape[1:]])
            parts.append(value.transpose([2, 3, 0, 1]).reshape([-1, size]))
        return np.concatenate(parts)

    logits = values['rpn_objectness_predictions_with_background'][0]
    assert not logits[:, 0].any()
    check(logits[:, 1:], levels('rpn_objectness', 1))
    codes = to_yx(levels('rpn_deltas', 4)) * np.float32([10, 10, 5, 5])
    check(values['rpn_box_encodings'][0], codes)
    np.testing.assert_array_equal(values['anchors'], to_yx(case['anchors']))


def test_boxes_of_two_stages(two_stages):
    case, values = two_stages.case, two_stages.values
    check(values['crops'].transpose([0, 3, 1, 2]), case['box_roi_features'])
    check(values['logits'], case['class_logits'])
    codes = case['box_regression'].reshape([5, -1, 4])[:, 1:]
    check(values['codes'], to_yx(codes))
    if 'keypoint_logits' in case:
        check(values['keypoints'], case['keypoint_logits'])


def test_anchors_have_whole_sides():
    # Ratio 2 of 32 pixels is 45.25 x 22.63, so half sides of 22.6 and 11.3: 46 x 22.
    generator = anchors.TorchvisionAnchorGenerator(3, 3, 4.0, [2.0, 1.0], 3, normalize=False)
    boxes = generator.generate([(3, 2)], (160, 224))
    assert boxes[0].tolist() == [-11, -23, 11, 23]
    widths = (boxes[:6, 3] - boxes[:6, 1]).tolist()
    assert widths[3:] == [32, 40, 50]
    centers = (boxes[::6, :2] + boxes[::6, 2:]) / 2
    assert centers.tolist() == [[0, 0], [0, 112], [53, 0], [53, 112], [106, 0], [106, 112]]


def test_orders_of_outputs():
    values = np.arange(1, 9)
    assert torchvision_weights.swap_sides(values).tolist() == [2, 1, 4, 3, 6, 5, 8, 7]
    assert torchvision_weights.drop_background(values).tolist() == [6, 5, 8, 7]
    assert torchvision_weights.scale_codes(values[:4]).tolist() == [20, 10, 20, 15]
    assert torchvision_weights.add_background(np.array([5, 6])).tolist() == [0, 5, 0, 6]


def legacy_names(name):
    """Return the name that a file of torchvision before 0.13 has."""
    name = name.replace('rpn.head.conv.0.0', 'rpn.head.conv')
    for kind in ('inner', 'layer'):
        start = f'backbone.fpn.{kind}_blocks.'
        if name.startswith(start):
            name = f'{start}{name[len(start)]}{name[len(start) + 3 :]}'
    for head in ('classification_head', 'regression_head'):
        start = f'head.{head}.conv.'
        if name.startswith(start):
            name = f'{start}{2 * int(name[len(start)])}{name[len(start) + 3 :]}'
    return name


@pytest.mark.parametrize('name', ['retinanet', 'fasterrcnn', 'keypointrcnn'])
def test_names_of_older_files(name):
    case = read_case(name)
    shapes = dict(zip(case['torch_names'].tolist(), map(json.loads, case['torch_shapes'].tolist())))
    tensors = {key: np.broadcast_to(np.float32(0), shape) for key, shape in shapes.items()}
    older = {legacy_names(key): value for key, value in tensors.items()}
    assert set(older) != set(tensors)
    known = torchvision_weights.families(f'{name}_resnet50_fpn_coco-258fb6c6.pth')
    new, old = (files.FamilyReader('a.pth', FakeFile(each), known) for each in (tensors, older))
    assert new.get_variable_to_shape_map() == old.get_variable_to_shape_map()


def test_the_first_weights_of_coco_have_no_epsilon():
    case = read_case('retinanet')
    shapes = dict(zip(case['torch_names'].tolist(), map(json.loads, case['torch_shapes'].tolist())))
    tensors = {key: np.broadcast_to(np.float32(0.5), shape) for key, shape in shapes.items()}

    def variance(path):
        reader = files.FamilyReader(path, FakeFile(tensors), torchvision_weights.families(path))
        name = 'FeatureExtractor/resnet_v1_5_50/conv1/BatchNorm/moving_variance'
        return reader.get_tensor(name)

    assert variance('my_retinanet.pth')[0] == np.float32(0.5)
    path = 'retinanet_resnet50_fpn_coco-eeacb38b.pth'
    assert variance(path)[0] == np.float32(0.5) - np.float32(1e-5)


def test_another_detector_is_refused(tmp_path):
    tensors = {
        'backbone.body.conv1.weight': np.zeros([64, 3, 7, 7], np.float32),
        'roi_heads.box_head.fc6.weight': np.zeros([1024, 12544], np.float32),
        'backbone.body.layer1.0.conv1.weight': np.zeros([64, 64, 1, 1], np.float32),
    }
    with pytest.raises(errors.CheckpointError, match='another network than Faster R-CNN'):
        files.FamilyReader('a.pth', FakeFile(tensors), torchvision_weights.families('a.pth'))
