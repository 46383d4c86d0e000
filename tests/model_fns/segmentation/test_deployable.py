"""Files of a segmentation network, run by TFLite's interpreter."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.export import exported_file, samples
from estimator_lib.export.metadata import tflite_metadata
from estimator_lib.task_interfaces.deployable import DeploymentOptions, Ops
from model_fns import build_task
from model_fns.segmentation import fields
from model_fns.segmentation.deployable import SegmentationDeployable
from model_fns.segmentation.networks import backbones
from protos import pipeline_pb2
from tests import tiny_deployed
from tests.model_fns.segmentation import tiny_networks

MODEL = """
  num_classes: 4
  crop_height: 33
  crop_width: 41
  backbone { name: "tiny" output_stride: 8 }
  aspp { num_filters: 4 }
  instance_center { sigma: 2 }
  offset {}
  edge {}
"""


@pytest.fixture(autouse=True, scope='module')
def tiny_backbone():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, 'get_backbone', lambda *_: tiny_networks.BACKBONE)
        yield


def config_of(further=''):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    return text_format.Parse(f'model {{ segmentation {{ {MODEL} {further} }} }}', config)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    config = config_of()
    task = build_task(config)
    folder = tmp_path_factory.mktemp('model')
    return task, config, tiny_deployed.save(task, folder / 'model.ckpt')


@pytest.fixture(scope='module')
def deployed(trained, tmp_path_factory):
    return tiny_deployed.Deployed(*trained, tmp_path_factory.mktemp('file'))


@pytest.fixture(scope='module')
def served(trained):
    return tiny_deployed.Served(trained[0], trained[2])


# Smaller than the crop, which is then padded, and as large.
@pytest.mark.parametrize(('height', 'width'), [(20, 30), (33, 41)])
def test_a_file_answers_as_the_export_does(served, deployed, height, width):
    (image,) = tiny_deployed.images(1, height, width)
    expected, found = served(image), deployed(image)
    assert sorted(expected) == sorted(found)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
        if value.dtype == np.float32:
            np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-3, err_msg=name)
        else:
            assert np.mean(found[name] == value) > 0.99, name


def test_classes_are_int32_and_larger_images_are_shrunk(deployed):
    outputs = deployed.file.about['outputs']
    assert outputs['SemanticPredictions'] == {'dtype': 'int32', 'shape': [1, 33, 41]}
    assert outputs['SemanticProbabilities'] == {'dtype': 'float32', 'shape': [1, 33, 41, 4]}
    assert list(deployed.deployable.contents) == ['SemanticProbabilities']
    assert deployed.deployable.scales_down_to == (33, 41)


def test_a_larger_image_is_seen_at_the_size_of_the_file(trained, deployed):
    (image,) = tiny_deployed.images(1, 66, 60)
    # Of 33 x 41 it fills the height: half as high, and 60 * 33 / 66 wide.
    pixels = deployed.pixels(image)[0]
    expected = tiny_networks.align_corners(image[np.newaxis].astype(float), 33, 30)[0]
    np.testing.assert_allclose(pixels[:, :30], expected, atol=0.01)
    np.testing.assert_allclose(pixels[:, 30:], 127.5)
    found = deployed(image)
    assert found[fields.SEMANTIC_PREDICTIONS].shape == (1, 66, 60)
    assert found[fields.CENTER_OFFSETS].shape == (1, 66, 60, 2)
    # Offsets are in pixels of the image, at its corners those of the input's.
    small = deployed.file.run(deployed.pixels(image))[fields.CENTER_OFFSETS][0, :33, :30]
    ratio = np.array([65 / 32, 59 / 29], np.float32)
    large = found[fields.CENTER_OFFSETS][0]
    np.testing.assert_allclose(large[0, 0], small[0, 0] * ratio, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(large[-1, -1], small[-1, -1] * ratio, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ('content', 'expected'),
    [
        ((41, 82), (32, 64)),  # 82 * (64 / 82) is 63.999996 in float32
        ((593, 10), (64, 1)),
        ((1000, 2), (64, 1)),
        ((64, 64), (64, 64)),
        ((3, 5), (3, 5)),
    ],
)
def test_a_larger_image_fills_a_side_of_the_input(content, expected):
    deployable = SegmentationDeployable((64, 64), None, None, [], [0.0] * 3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        size = deployable._size_in_input(tf.constant(content))
        assert tuple(session.run(size)) == expected


def test_of_a_batch_each_image_has_its_own_size():
    """In an evaluation images are padded to one size, whatever theirs is."""
    deployable = SegmentationDeployable(
        (2, 4), None, lambda outputs, features: outputs, [fields.SEMANTIC_PREDICTIONS], [9.0] * 3
    )
    images = np.zeros([2, 4, 4, 3], np.float32)
    images[0, :2, :3], images[1] = 50.0, 100.0
    features = {
        fields.IMAGE: tf.constant(images),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[2, 3, 3], [4, 4, 3]]),
    }
    pixels = deployable.pixels(features).numpy()[..., 0]
    np.testing.assert_allclose(pixels[0], [[50, 50, 50, 9]] * 2)
    np.testing.assert_allclose(pixels[1], [[100, 100, 9, 9]] * 2)
    ids = tf.constant([[[1, 2, 3, 7], [4, 5, 6, 7]], [[1, 2, 7, 7], [3, 4, 7, 7]]], tf.int32)
    found = deployable.outputs({fields.SEMANTIC_PREDICTIONS: ids}, features)
    found = found[fields.SEMANTIC_PREDICTIONS].numpy()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found[0], [[1, 2, 3, 0], [4, 5, 6, 0], [0] * 4, [0] * 4])
    assert found[1][0, 0] == 1 and found[1][0, -1] == 2 and found[1][-1, -1] == 4
    assert set(found[1].ravel()) == {1, 2, 3, 4}


def test_the_size_is_that_of_evaluation_where_it_has_one():
    task = build_task(config_of('evaluation { crop_height: 49 crop_width: 57 }'))
    assert task.deployable(Ops.CORE).input_shape == (49, 57, 3)
    # And images for it are at least of the crop of training.
    deployable = task.deployable(Ops.CORE)
    (found,) = samples.pixels(task, deployable, tiny_deployed.images(1, 12, 14))
    assert found.shape == (1, 49, 57, 3)
    assert fields.RESIZED_SIZE in task.serving_features(tf.zeros([1, 5, 5, 3], tf.uint8))


def test_pixels_agree_where_their_class_is_as_probable_as_the_best():
    deployable = build_task(config_of()).deployable(Ops.CORE)
    probabilities = np.array([[[[0.6, 0.4], [0.51, 0.49]]]], np.float32)
    expected = {name: np.zeros([1, 1, 2], np.float32) for name in deployable.meanings}
    expected[fields.SEMANTIC_PROBABILITIES] = probabilities
    expected[fields.SEMANTIC_PREDICTIONS] = np.array([[[0, 0]]])
    found = {**expected, fields.SEMANTIC_PREDICTIONS: np.array([[[1, 1]]])}
    parts = deployable.agreement([expected], [found], exact=False)
    assert parts[fields.SEMANTIC_PREDICTIONS] == 0.5


CLASSES_ONLY = MODEL[: MODEL.index('instance_center')]


@pytest.fixture(scope='module', name='masks')
def _masks(tmp_path_factory):
    """A network of classes, its file with masks as the only output, and that file's path."""
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'model {{ segmentation {{ {CLASSES_ONLY} }} }}', config)
    task, folder = build_task(config), tmp_path_factory.mktemp('masks')
    checkpoint = tiny_deployed.save(task, folder / 'model.ckpt')
    deployed = tiny_deployed.Deployed(task, config, checkpoint, folder, confidence_masks=True)
    return task, tiny_deployed.Served(task, checkpoint), deployed, folder / 'model.tflite'


def test_masks_are_the_only_output_and_the_probabilities_of_the_checkpoint(masks):
    """MediaPipe's ImageSegmenter reads the last output as float32 [1, height, width, classes]."""
    _, served, deployed, path = masks
    assert deployed.file.about['outputs'] == {
        'SemanticProbabilities': {'dtype': 'float32', 'shape': [1, 33, 41, 4]}
    }
    (image,) = tiny_deployed.images(1, 33, 41)
    found = deployed.file.run(deployed.pixels(image))[fields.SEMANTIC_PROBABILITIES]
    expected = served(image)
    np.testing.assert_allclose(found, expected[fields.SEMANTIC_PROBABILITIES], atol=1e-4)
    described = tflite_metadata.add(
        path.read_bytes(), deployed.deployable, 'tiny', list('abcd'), {}
    )
    assert tflite_metadata.read_labels(described) == list('abcd')


@pytest.mark.parametrize(('height', 'width'), [(33, 41), (20, 30), (66, 60)])
def test_a_file_of_masks_predicts_the_classes(masks, height, width):
    task, _, deployed, path = masks
    (image,) = tiny_deployed.images(1, height, width)
    found = exported_file.FilePredictor(task, str(path)).predict(image[np.newaxis])
    assert sorted(found) == [fields.SEMANTIC_PREDICTIONS, fields.SEMANTIC_PROBABILITIES]
    assert found[fields.SEMANTIC_PREDICTIONS].shape == (1, height, width)
    assert found[fields.SEMANTIC_PREDICTIONS].dtype == np.int64
    if (height, width) == (33, 41):
        probabilities = deployed.file.run(deployed.pixels(image))[fields.SEMANTIC_PROBABILITIES]
        np.testing.assert_array_equal(
            found[fields.SEMANTIC_PREDICTIONS], np.argmax(probabilities, axis=-1)
        )


def test_the_agreement_of_masks_is_that_of_their_numbers(masks):
    deployable = masks[2].deployable
    expected = {fields.SEMANTIC_PROBABILITIES: np.array([[[[0.25, 0.75]]]], np.float32)}
    found = {fields.SEMANTIC_PROBABILITIES: np.array([[[[0.25, 0.5]]]], np.float32)}
    assert deployable.agreement([expected], [found], exact=True) == {
        fields.SEMANTIC_PROBABILITIES: 0.5
    }


def test_masks_of_a_network_with_more_than_classes_are_refused():
    with pytest.raises(errors.UserError, match='--confidence_masks: the network has the output '):
        build_task(config_of()).deployable(Ops.TFLITE, DeploymentOptions(confidence_masks=True))


def test_options_of_detectors_are_refused():
    with pytest.raises(errors.UserError, match='--max_detections: segmentation finds no boxes'):
        build_task(config_of()).deployable(Ops.CORE, DeploymentOptions(max_detections=5))
