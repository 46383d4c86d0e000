"""Files of a single-shot detector, run by TFLite's interpreter."""

import shlex

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.export import formats, samples
from estimator_lib.export.devices import device_files, int8_tensors
from estimator_lib.task_interfaces.deployable import DeploymentOptions, Ops
from model_fns import build_task
from model_fns.detection import fields
from protos import pipeline_pb2
from tests import tiny_center_net, tiny_deployed, tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.detection.architectures.center_net import test_build

pytestmark = pytest.mark.usefixtures('shallow_networks')

DETECTIONS = (
    fields.DETECTION_BOXES,
    fields.DETECTION_CLASSES,
    fields.DETECTION_SCORES,
    fields.NUM_DETECTIONS,
)
PADDED = """
  keep_aspect_ratio_resizer {
    min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true
    per_channel_pad_value: [0.0, 0.5, -1.0]
  }
"""
SUPPRESSION = 'post_processing.batch_non_max_suppression'


def config_of(text='', resizer='', model=tiny_detection.MODEL):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(model.format(hyperparams=tiny_detection.HYPERPARAMS), config)
    if resizer:
        config.model.ssd.ClearField('image_resizer')
        text = f'model {{ ssd {{ image_resizer {{ {resizer} }} }} }} {text}'
    text_format.Merge(text, config)
    return config


def model(config, folder):
    task = build_task(config)
    return task, config, tiny_deployed.save(task, folder / 'model.ckpt')


OF_SUPPRESSION = 'model { ssd { post_processing { batch_non_max_suppression { %s } } } }'
UNCHANGED = OF_SUPPRESSION % 'change_coordinate_frame: false'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    return model(config_of(resizer=PADDED), tmp_path_factory.mktemp('model'))


@pytest.fixture(scope='module')
def deployed(trained, tmp_path_factory):
    return tiny_deployed.Deployed(*trained, tmp_path_factory.mktemp('file'))


def test_a_file_answers_as_the_export_does(trained, deployed):
    served = tiny_deployed.Served(trained[0], trained[2])
    assert set(deployed.file.about['outputs']) == set(deployed.deployable.meanings)
    # The order of the outputs of TFLite_Detection_PostProcess, by which other programs go.
    assert [one.value for one in deployed.deployable.contents.values()] == [
        'location', 'category', 'score', 'number of detections'
    ]  # fmt: skip
    assert list(deployed.deployable.contents) == list(deployed.deployable.meanings)
    for image in tiny_deployed.images(3, 50, 64):
        expected, found = served(image), deployed(image)
        assert expected[fields.NUM_DETECTIONS] >= 2
        # A box in the padding takes a place: a file does not know where that begins.
        rows = int(found[fields.NUM_DETECTIONS][0])
        most = 2 if deployed.deployable.resize.padding else 0
        assert 0 <= expected[fields.NUM_DETECTIONS][0] - rows <= most
        for name in DETECTIONS[:3]:
            np.testing.assert_allclose(
                found[name][0, :rows], expected[name][0, :rows], rtol=1e-3, atol=1e-3, err_msg=name
            )


def test_boxes_are_cut_at_the_border_and_none_without_area_stays():
    deployable = build_task(config_of()).deployable(Ops.CORE)
    outside, across, inside = [1.1, 0.0, 1.3, 0.5], [-0.2, 0.5, 0.5, 1.5], [0.1, 0.2, 0.3, 0.4]
    found = {
        fields.DETECTION_BOXES: tf.constant([[across, outside, inside, inside]]),
        fields.DETECTION_CLASSES: tf.constant([[1.0, 0.0, 1.0, 0.0]]),
        fields.DETECTION_SCORES: tf.constant([[0.9, 0.8, 0.7, 0.6]]),
        fields.NUM_DETECTIONS: tf.constant([3.0]),
    }
    outputs = {name: one.numpy()[0] for name, one in deployable.outputs(found, {}).items()}
    expected = [[0.0, 0.5, 0.5, 1.0], inside, [0.0] * 4, [0.0] * 4]
    np.testing.assert_allclose(outputs[fields.DETECTION_BOXES], expected)
    # Ids of label maps, which are from 1.
    np.testing.assert_allclose(outputs[fields.DETECTION_CLASSES], [2, 2, 1, 1])
    np.testing.assert_allclose(outputs[fields.DETECTION_SCORES], [0.9, 0.7, 0.0, 0.0])
    assert outputs[fields.NUM_DETECTIONS] == 2


def test_boxes_are_those_of_the_image_and_not_of_the_padded_input():
    features = {
        fields.IMAGE: tf.zeros([1, 64, 64, 3]),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[32, 64, 3]]),
    }
    found = {
        fields.DETECTION_BOXES: tf.constant([[[0.1, 0.2, 0.6, 0.4]]]),
        fields.DETECTION_CLASSES: tf.constant([[0.0]]),
        fields.DETECTION_SCORES: tf.constant([[0.9]]),
        fields.NUM_DETECTIONS: tf.constant([1.0]),
    }
    for change, expected in ((UNCHANGED, [0.1, 0.2, 0.5, 0.4]), ('', [0.2, 0.2, 1.0, 0.4])):
        deployable = build_task(config_of(change, PADDED)).deployable(Ops.CORE)
        boxes = deployable.outputs(found, features)[fields.DETECTION_BOXES]
        np.testing.assert_allclose(boxes.numpy()[0, 0], expected, atol=1e-6)


def test_options():
    task = build_task(config_of())
    deployable = task.deployable(Ops.CORE, DeploymentOptions(max_detections=3, fast_nms=True))
    raw = {
        fields.BOX_ENCODINGS: tf.zeros([1, 6, 4]),
        'class_predictions': tf.constant(
            [[[0.9, 0.8], [0.1, 0.7], [0.6, 0.1], [0.5, 0.2], [0.2, 0.4], [0.3, 0.1]]]
        ),
        fields.ANCHORS: tf.constant(
            [[0.1 * i, 0.0, 0.1 * i + 0.1, 1.0] for i in (0, 0, 2, 3, 4, 5)]
        ),
    }
    found = {name: one.numpy()[0] for name, one in deployable.finish(raw, Ops.CORE).items()}
    # The second anchor's box is that of the first, whose best class is another.
    np.testing.assert_allclose(found[fields.DETECTION_SCORES], [0.9, 0.6, 0.5])
    np.testing.assert_allclose(found[fields.DETECTION_CLASSES], [0, 0, 0])
    by_class = task.deployable(Ops.CORE).finish(raw, Ops.CORE)[fields.DETECTION_SCORES]
    assert by_class.shape == [1, 10]  # max_total_detections
    np.testing.assert_allclose(by_class.numpy()[0, :3], [0.9, 0.8, 0.6])
    with pytest.raises(errors.UserError, match='--confidence_masks: detection does not know it'):
        task.deployable(Ops.TFLITE, DeploymentOptions(confidence_masks=True))


def test_int8_keeps_the_op_and_outputs_of_floats(deployed, tmp_path):
    images = tiny_deployed.images(6, 50, 64)
    pixels = [deployed.pixels(image) for image in images]
    writer, path = formats.create_writer('tflite'), str(tmp_path / 'model.tflite')
    writer.convert(deployed.graph, path, 'int8', pixels)
    file = writer.load(path)
    assert file.about['inputs']['image']['dtype'] == 'uint8'
    found, expected = [file.run(one) for one in pixels], deployed.graph.run(pixels)
    assert {one.dtype for one in found[0].values()} == {np.dtype(np.float32)}
    scores = np.array([one[fields.DETECTION_SCORES] for one in found])
    wanted = np.array([one[fields.DETECTION_SCORES] for one in expected])
    # The largest of 60 differences is between 0.10 and 0.17, and changes with the images and with
    # the version of the converter. The mean does not: 0.043 on TensorFlow 2.15 and 2.21, for 6 and
    # for 30 images. Scores of other images differ by 0.19, sqrt(2) times their deviation.
    assert np.sqrt(np.mean((scores - wanted) ** 2)) < 0.06


def test_tensors_of_a_detector_that_lose_most_are_listed_and_stay_float(deployed, tmp_path):
    pixels = [deployed.pixels(image) for image in tiny_deployed.images(4, 50, 64)]
    writer, path = formats.create_writer('tflite'), str(tmp_path / 'model.tflite')
    device_model = device_files.DeviceModel(deployed.graph, 'int8', pixels, {})
    listed = [line.rpartition('--keep_float=')[2] for line in writer.explain(device_model)[1:]]
    assert len(listed) == 5
    (name,) = shlex.split(listed[0])
    writer = formats.create_writer('tflite', {'keep_float': (name,)})
    writer.convert(deployed.graph, path, 'int8', pixels)
    with open(path, 'rb') as file:
        kinds = [op.kind for op in int8_tensors.read_ops(file.read())]
    assert 'CUSTOM' in kinds and kinds.count('QUANTIZE') > 1  # after the tensor again
    # In 8 bits it is not known which boxes have an area.
    assert 'EXP' not in kinds and 'SELECT_V2' not in kinds
    assert writer.load(path).run(pixels[0])[fields.NUM_DETECTIONS] > 0


EFFICIENT = 'type: "ssd_efficientnet-b0_bifpn_keras" bifpn { max_level: 4 }'
GRAY = PADDED.replace('pad_to_max', 'convert_to_grayscale: true pad_to_max')


@pytest.mark.parametrize(
    ('resizer', 'extractor', 'pixel'),
    [
        # Pad values times the deviation plus the mean of each color.
        (
            PADDED,
            EFFICIENT,
            [255 * 0.485, 255 * (0.456 + 0.5 * 0.224), 255 * (0.406 - 0.225)],
        ),
        # Of all grays x the one whose 0.9999 (x / 127.5 - 1) is 0.587 * 0.5 - 0.114.
        (GRAY, '', [127.5 * (1 + 0.1795 / 0.9999)] * 3),
    ],
)
def test_the_padding_of_pixels_is_normalized_and_gray_as_images_are(resizer, extractor, pixel):
    text = f'model {{ ssd {{ feature_extractor {{ {extractor} }} }} }}'
    task = build_task(config_of(text, resizer.replace('64', '128')), 'export')
    image = np.full([40, 80, 3], 250, np.uint8)
    deployable = task.deployable(Ops.CORE)
    (found,) = samples.pixels(task, deployable, [image])
    assert deployable.input_shape == (128, 128, 3)
    np.testing.assert_allclose(found[0, -1, -1], pixel, atol=1e-2)
    np.testing.assert_allclose(found[0, 0, 0], 250, atol=1e-3)


def test_the_padding_of_pixels_is_what_the_network_makes_its_padding_of():
    task = build_task(config_of(resizer=PADDED))
    deployable = task.deployable(Ops.CORE)
    (image,) = tiny_deployed.images(1, 32, 64)
    (found,) = samples.pixels(task, deployable, [image])
    np.testing.assert_allclose(found[0, :32], image)
    # Of MobileNet, which has pixels from -1 to 1: 0 is 127.5.
    np.testing.assert_allclose(found[0, 32:], np.broadcast_to([127.5, 191.25, 0.0], [32, 64, 3]))


def center_net_of(resizer):
    """The config of a tiny CenterNet without suppression."""
    config = config_lib.parse_pipeline_config(tiny_center_net.MODEL, 'text')
    config.model.center_net.ClearField('post_processing')
    config.model.center_net.ClearField('image_resizer')
    text_format.Parse(resizer, config.model.center_net.image_resizer)
    return config


def test_a_center_net_without_suppression_answers_as_the_export_does(tmp_path):
    config = center_net_of('fixed_shape_resizer { height: 64 width: 64 }')
    (tmp_path / 'map.pbtxt').write_text(test_build.LABEL_MAP)
    keypoints = test_build.TASK % ('a', 'blue', '') + test_build.TASK % ('b', 'green', '')
    text_format.Merge(
        f'keypoint_label_map_path: "{tmp_path}/map.pbtxt" {keypoints}', config.model.center_net
    )
    task = build_task(config)
    checkpoint = tiny_deployed.save(task, tmp_path / 'model.ckpt', lively=False)
    served = tiny_deployed.Served(task, checkpoint)
    deployed = tiny_deployed.Deployed(task, config, checkpoint, tmp_path)
    assert set(deployed.deployable.contents) == set(DETECTIONS)
    for image in tiny_deployed.images(2, 50, 64):
        expected, found = served(image), deployed(image)
        assert len(np.unique(found[fields.DETECTION_SCORES])) > 5
        for name in (*DETECTIONS, fields.DETECTION_KEYPOINTS, fields.DETECTION_KEYPOINT_SCORES):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4, err_msg=name)


def test_one_class_is_suppressed_without_the_bound_of_a_class():
    many = OF_SUPPRESSION % 'max_detections_per_class: 150 max_total_detections: 200'
    task = build_task(config_of(f'model {{ ssd {{ num_classes: 1 }} }} {many}'))
    with tf.Graph().as_default() as graph:
        raw = {
            fields.BOX_ENCODINGS: tf.zeros([1, 300, 4]),
            'class_predictions': tf.zeros([1, 300, 1]),
            fields.ANCHORS: tf.zeros([300, 4]),
        }
        task.deployable(Ops.TFLITE).finish(raw, Ops.TFLITE)
        attributes = [str(function) for function in graph.as_graph_def().library.function]
    assert any('use_regular_nms' in text and 'b: false' in text for text in attributes)


@pytest.mark.parametrize(
    ('config', 'said'),
    [
        (
            config_of(resizer='keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 }'),
            'model.ssd.image_resizer: inputs differ in size',
        ),
        (
            config_of(OF_SUPPRESSION % 'soft_nms_sigma: 0.5'),
            f'model.ssd.{SUPPRESSION}.soft_nms_sigma: 0.5: ',
        ),
        (
            config_of(OF_SUPPRESSION % 'max_detections_per_class: 150 max_total_detections: 200'),
            "model.ssd.post_processing: 150 detections of a class; TFLite's op keeps 100. Expected "
            '--max_detections=100, --fast_nms or --format=onnx.',
        ),
        (
            config_of(
                'model { ssd { box_coder { square_box_coder {} } box_predictor { '
                'weight_shared_convolutional_box_predictor { box_code_size: 3 } } } }'
            ),
            'model.ssd.box_coder: square_box_coder',
        ),
        (
            config_of(OF_SUPPRESSION % 'use_class_agnostic_nms: true max_classes_per_detection: 2'),
            f'model.ssd.{SUPPRESSION}.max_classes_per_detection: 2: ',
        ),
        (
            config_of(model=tiny_rotated.MODEL),
            'model.ssd.box_type: ROTATED; expected AXIS_ALIGNED, as rotated boxes have no place in '
            'a TFLite file, or --format=onnx.',
        ),
        (
            config_lib.parse_pipeline_config(tiny_two_stage.MODEL.format(stages=2), 'text'),
            'model.faster_rcnn: such a detector has no place in a TFLite file',
        ),
        (
            config_lib.parse_pipeline_config(tiny_center_net.MODEL, 'text'),
            'model.center_net: such a detector has no place in a TFLite file, whose only '
            'suppression by class is that of single-shot detectors; ',
        ),
        (
            center_net_of(
                'keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 '
                'pad_to_max_dimension: true }'
            ),
            'model.center_net.image_resizer: a TFLite file takes images of one size, without ',
        ),
    ],
)
def test_what_a_file_has_no_place_for_is_refused_by_name(config, said):
    task = build_task(config)
    with tf.Graph().as_default() as graph:
        with pytest.raises(errors.ConfigError) as caught:
            task.deployable(Ops.TFLITE)
        assert not graph.get_operations()
    assert str(caught.value).startswith(said)
    assert '\n' not in str(caught.value)
