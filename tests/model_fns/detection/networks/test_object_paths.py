"""Paths of all variables against the published lists; and of layers that no list has."""

import re

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.detection import detector
from model_fns.detection.architectures.faster_rcnn import extractors
from model_fns.detection.networks import object_paths
from protos import pipeline_pb2
from tests.conftest import shared_folder
from tests.model_fns.detection import recorded_objects

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def build(name, sides):
    """Build a published detector and its variables, in a graph that never runs."""
    path = shared_folder() / 'configs' / 'tf2' / f'{name}.config'
    if not path.is_file():
        pytest.skip(f'the published config {path.name} is not in ../shared/configs')
    text = path.read_text().replace('PATH_TO_BE_CONFIGURED', '/data')
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model
    model = detector.build_detector(config)
    with tf.Graph().as_default():
        model.predict(tf1.placeholder(tf.float32, [1, *sides, 3]), None, None, False)
        return model, tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)


def check(name, sides):
    """Check that all variables have the published paths and shapes; return model and variables."""
    model, variables = build(name, sides)
    found = model.object_paths(variables, 'full')
    shapes, trained = recorded_objects.listed(name)
    assert {path: tuple(one.shape) for path, one in found.items()} == shapes
    assert {path for path, one in found.items() if one.trainable} == trained
    assert len(found) == len(variables)
    return model, variables


@pytest.fixture(scope='module')
def lite():
    return check('ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8', (64, 64))


def test_mobilenet_v2_has_the_published_paths(lite):
    assert len(lite[1]) == 384


def test_mobilenet_v1_has_the_published_paths():
    check('ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8', (64, 64))


def test_resnet_50_has_the_published_paths():
    check('ssd_resnet50_v1_fpn_1024x1024_coco17_tpu-8', (129, 129))


@pytest.fixture(scope='module')
def efficient():
    return check('ssd_efficientdet_d0_512x512_coco17_tpu-8', (128, 128))


def test_efficientdet_has_the_published_paths_those_of_its_classifier_too(efficient):
    model, variables = efficient
    assert len(variables) == 683
    backbone = model.object_paths(variables, 'classification')
    assert {path.split('/')[1] for path in backbone} == {
        f'layer_with_weights-{index}' for index in range(131)
    }
    assert {one.op.name.split('/')[1] for one in backbone.values()} == {'EfficientNet'}
    logits = backbone['feature_extractor/layer_with_weights-130/kernel']
    everything = model.object_paths(variables, 'full')
    unused = 'model/_feature_extractor/classification_backbone/layer_with_weights-130/kernel'
    assert logits is everything[unused]


@pytest.mark.published
def test_a_larger_efficientdet_that_sums_has_the_published_paths():
    check('ssd_efficientdet_d6_1408x1408_coco17_tpu-32', (128, 128))


@pytest.fixture(scope='module')
def two_stage():
    return check('faster_rcnn_resnet50_v1_640x640_coco17_tpu-8', (160, 160))


def test_a_two_stage_detector_has_the_published_paths(two_stage):
    assert len(two_stage[1]) == 275


def test_both_stages_are_a_part_of_that_and_a_classifier_has_one_network(two_stage):
    model, variables = two_stage
    part = model.object_paths(variables, 'detection')
    starts = tuple(
        f'model/_feature_extractor_for_{name}_features/' for name in ('proposal', 'box_classifier')
    )
    everything = model.object_paths(variables, 'full')
    assert set(part) == {path for path in everything if path.startswith(starts)}
    backbone = model.object_paths(variables, 'classification')
    assert {one.op.name for one in backbone.values()} == {one.op.name for one in part.values()}
    layers = {path.split('/')[1] for path in backbone}
    assert layers == {f'layer_with_weights-{index}' for index in range(106)}


@pytest.fixture(scope='module')
def two_stage_pyramid():
    return check('faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8', (128, 128))


def test_a_two_stage_detector_with_a_pyramid_has_the_published_paths(two_stage_pyramid):
    assert len(two_stage_pyramid[1]) == 327


def test_its_pyramid_is_no_part_of_a_classifier(two_stage_pyramid):
    model, variables = two_stage_pyramid
    backbone = model.object_paths(variables, 'classification')
    # 53 convolutions, with a batch norm each.
    layers = {path.split('/')[1] for path in backbone}
    assert layers == {f'layer_with_weights-{index}' for index in range(106)}
    network = 'KerasFirstStageFeatureExtractor/resnet_v1_50/'
    names = {one.op.name for one in variables if one.op.name.startswith(network)}
    found = {one.op.name for one in backbone.values()}
    assert found == {name for name in names if not name.startswith(f'{network}fpn/')}


def test_the_feature_extractor_is_a_part_of_that(lite):
    model, variables = lite
    everything = model.object_paths(variables, 'full')
    part = model.object_paths(variables, 'detection')
    inside = {path for path in everything if path.startswith('model/_feature_extractor/')}
    assert set(part) == inside
    assert all(one is everything[path] for path, one in part.items())


def test_a_classifier_gives_the_backbone_by_another_edge(lite):
    model, variables = lite
    everything = model.object_paths(variables, 'full')
    backbone = model.object_paths(variables, 'classification')
    inner = 'model/_feature_extractor/classification_backbone/'
    inside = {path for path in everything if path.startswith(inner)}
    assert {path.replace('feature_extractor/', inner, 1) for path in backbone} == inside
    for path, one in backbone.items():
        assert one is everything[path.replace('feature_extractor/', inner, 1)]


@pytest.mark.parametrize('drops', [False, True])
def test_heads_of_two_stages(drops):
    rules = object_paths.two_stage_head_rules([], drops)
    names = [
        'Conv/BatchNorm/gamma',
        'FirstStageBoxPredictor/ClassPredictor/weights',
        'FirstStageBoxPredictor_3/BoxEncodingPredictor/weights',
        'SecondStageBoxPredictor/BoxEncodingPredictor/biases',
    ]
    assert list(object_paths.map_paths(map(Named, names), rules)) == [
        'model/_first_stage_box_predictor_first_conv/layer_with_weights-1/gamma',
        'model/_first_stage_box_predictor/_prediction_heads/class_predictions_with_background/0/'
        '_class_predictor_layers/0/kernel',
        'model/_first_stage_box_predictor/_prediction_heads/box_encodings/3/_box_encoder_layers/0/'
        'kernel',
        f'model/_mask_rcnn_box_predictor/_box_prediction_head/_box_encoder_layers/{1 + drops}/bias',
    ]


@pytest.mark.parametrize('enlarged, places', [(None, (0, 3, 6)), (2, (0, 3, 7)), (1, (0, 4, 7))])
def test_the_layer_that_enlarges_masks_counts_in_their_list(enlarged, places):
    rules = object_paths.two_stage_head_rules([], False, enlarged)
    names = [f'SecondStageBoxPredictor/Conv{index}/weights' for index in ('', '_1', '_2')]
    start = 'model/_mask_rcnn_box_predictor/_third_stage_heads/mask_predictions/'
    assert list(object_paths.map_paths(map(Named, names), rules)) == [
        f'{start}_mask_predictor_layers/{place}/kernel' for place in places
    ]
    norm = Named('SecondStageBoxPredictor/Conv/BatchNorm/beta')
    assert list(object_paths.map_paths([norm], rules)) == [f'{start}_mask_predictor_layers/1/beta']


def test_a_classifier_has_both_stages_of_inception_resnet():
    made = extractors.EXTRACTORS.get('faster_rcnn_inception_resnet_v2_keras')
    names = {
        'KerasFirstStageFeatureExtractor/InceptionResnetV2/Repeat_1/block17_20/Conv2d_1x1': 341,
        'KerasSecondStageFeatureExtractor/InceptionResnetV2/Mixed_7a/Branch_2/Conv2d_0a_1x1': 342,
        'KerasSecondStageFeatureExtractor/InceptionResnetV2/Repeat/block8_1/Conv2d_1x1': 364,
    }
    variables = [Named(f'{name}/weights') for name in names]
    found = object_paths.map_paths(variables, made.object_rules(variables, whole=True))
    assert list(found) == [
        f'feature_extractor/layer_with_weights-{index}/kernel' for index in names.values()
    ]


@pytest.mark.parametrize('size', [101, 152])
def test_deeper_residual_networks_are_numbered_alike(size):
    shapes, _ = recorded_objects.listed(f'ssd_resnet{size}_v1_fpn_1024x1024_coco17_tpu-8')
    path = 'model/_feature_extractor/classification_backbone/'
    listed = {one for one in shapes if one.startswith(path)}
    network = registry.get_network(f'resnet_v1_{size}')
    kernels = {
        f'{path}layer_with_weights-{index}/kernel': name
        for index, name in enumerate(network.keras_layers)
        if not name.endswith('/BatchNorm')
    }
    assert set(kernels) == {one for one in listed if one.endswith('/kernel')}
    assert len(network.keras_layers) == len({one.rpartition('/')[0] for one in listed})
    # Kernels have the sizes of what is told to be at their place.
    for one, name in kernels.items():
        size_of = {'conv1': (7, 7)} if name == 'conv1' else {'conv2': (3, 3)}
        assert shapes[one][:2] == size_of.get(name.rpartition('/')[2], (1, 1))
        if name.endswith('shortcut'):
            assert shapes[one][3] == 2 * shapes[one][2] or shapes[one][2:] == (64, 256)


class Named:
    """A variable, as far as its name goes."""

    def __init__(self, name):
        self.op = self
        self.name = name


STACKED = {
    'KerasFeatureExtractor/MobilenetV2/layer_19_1_Conv2d_2_1x1_256/weights': '2/0/kernel',
    'KerasFeatureExtractor/MobilenetV2/layer_19_1_Conv2d_2_1x1_256/BatchNorm/beta': '2/1/beta',
    'KerasFeatureExtractor/MobilenetV2/layer_19_2_Conv2d_3_3x3_s2_256/weights': '3/{3}/kernel',
    'KerasFeatureExtractor/MobilenetV2/layer_19_2_Conv2d_3_3x3_s2_256/BatchNorm/beta': '3/{4}/beta',
}
HEADS = {
    'BoxPredictor_0/BoxEncodingPredictor/weights': 'box_encodings/0/_box_encoder_layers/{0}/kernel',
    'BoxPredictor_1/ClassPredictor/biases': (
        'class_predictions_with_background/1/_class_predictor_layers/{0}/bias'
    ),
}
LITE_HEADS = {
    'BoxPredictor_2/ClassPredictor_depthwise/depthwise_weights': (
        'class_predictions_with_background/2/_class_predictor_layers/{0}/depthwise_kernel'
    ),
    'BoxPredictor_2/ClassPredictor_depthwise/BatchNorm/gamma': (
        'class_predictions_with_background/2/_class_predictor_layers/{1}/gamma'
    ),
    'BoxPredictor_2/ClassPredictor/weights': (
        'class_predictions_with_background/2/_class_predictor_layers/{3}/kernel'
    ),
}


def paths(names, pads=False, drops=False):
    network = registry.get_network('mobilenet_v2', task='detection')
    variables = [Named(name) for name in names]
    found = object_paths.map_single_shot_paths(
        variables, network, 'KerasFeatureExtractor', pads, drops, 'full'
    )
    return {one.name: path for path, one in found.items()}


def shifted(text, by):
    return re.sub(r'\{(\d)\}', lambda place: str(int(place[1]) + by), text)


@pytest.mark.parametrize('pads', [False, True])
def test_maps_stacked_on_a_backbone(pads):
    start = 'model/_feature_extractor/feature_map_generator/convolutions/'
    assert paths(STACKED, pads=pads) == {
        name: start + shifted(place, int(pads)) for name, place in STACKED.items()
    }


@pytest.mark.parametrize('heads', [HEADS, LITE_HEADS])
@pytest.mark.parametrize('drops', [False, True])
def test_a_head_for_each_map(heads, drops):
    start = 'model/_box_predictor/_prediction_heads/'
    assert paths(heads, drops=drops) == {
        name: start + shifted(place, int(drops and 'ClassPredictor' in name))
        for name, place in heads.items()
    }


@pytest.mark.parametrize(
    'name', ['BoxPredictor_0/Conv2d_0_1x1_32/weights', 'BoxPredictor_0/ClassPredictor/other']
)
def test_what_has_no_place_there_is_named(name):
    with pytest.raises(errors.ConfigError, match=f'^{name}: the published checkpoints'):
        paths([name])


def test_a_network_of_the_first_generation_has_none():
    with pytest.raises(errors.ConfigError, match="expected 'ssd_a_keras', where there is one"):
        object_paths.require_objects('ssd_a', 'model.ssd.feature_extractor')
    object_paths.require_objects('ssd_a_keras', '')
