import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.detections import post_processing
from protos import post_processing_pb2

tf1 = tf.compat.v1

# Two images of three anchors that do not overlap.
BOXES = np.array([[[0, 0, 0.4, 0.4], [0.5, 0, 0.9, 0.4], [0.2, 0.5, 0.8, 1.0]]] * 2, np.float32)
LOGITS = np.array(
    [
        [[0, 1, -9], [0, -9, 2], [0, -9, -9]],
        [[0, -9, -9], [0, 3, 1], [0, -2, -9]],
    ],
    np.float32,
)
NMS = 'batch_non_max_suppression { score_threshold: 0.1 max_detections_per_class: 4 '
NMS += 'max_total_detections: 4 %s}'


def build(text='score_converter: SIGMOID', nms='', num_classes=2, background_column=True):
    config = text_format.Parse(f'{text} {NMS % nms}', post_processing_pb2.PostProcessing())
    return post_processing.build_post_processing(
        Section(config, 'here.post_processing'), num_classes, axis_aligned, background_column
    )


def run(processor, boxes=BOXES[:, :, None], logits=LOGITS, **options):
    with tf.Graph().as_default(), tf1.Session() as session:
        options = {
            name: tf.nest.map_structure(tf.constant, value) for name, value in options.items()
        }
        return session.run(processor.apply(tf.constant(boxes), tf.constant(logits), **options))


def sigmoid(logit):
    return 1 / (1 + np.exp(-np.asarray(logit, np.float64)))


def test_by_hand():
    outputs = run(build())
    assert outputs[fields.NUM_DETECTIONS].tolist() == [2, 3]
    assert outputs[fields.DETECTION_CLASSES].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert outputs[fields.DETECTION_ANCHOR_INDICES].tolist() == [[1, 0, 0, 0], [1, 1, 2, 0]]
    np.testing.assert_allclose(
        outputs[fields.DETECTION_SCORES],
        [[*sigmoid([2, 1]), 0, 0], [*sigmoid([3, 1, -2]), 0]],
        rtol=1e-6,
    )
    expected = np.zeros([2, 4, 4])
    expected[0, :2] = BOXES[0, [1, 0]]
    expected[1, :3] = BOXES[0, [1, 1, 2]]
    np.testing.assert_array_equal(outputs[fields.DETECTION_BOXES], expected)


def test_names_types_and_shapes():
    outputs = run(build())
    found = {name: (value.dtype.name, value.shape) for name, value in outputs.items()}
    assert found == {
        'detection_boxes': ('float32', (2, 4, 4)),
        'detection_scores': ('float32', (2, 4)),
        'detection_classes': ('float32', (2, 4)),
        'num_detections': ('float32', (2,)),
        'detection_anchor_indices': ('int32', (2, 4)),
        'detection_multiclass_scores': ('float32', (2, 4, 3)),
        'raw_detection_boxes': ('float32', (2, 3, 4)),
        'raw_detection_scores': ('float32', (2, 3, 3)),
    }


def test_shapes_are_static():
    with tf.Graph().as_default():
        boxes = tf1.placeholder(tf.float32, [None, 1917, 1, 4])
        logits = tf1.placeholder(tf.float32, [None, 1917, 3])
        outputs = build().apply(boxes, logits)
    assert outputs[fields.DETECTION_BOXES].shape.as_list() == [None, 4, 4]
    assert outputs[fields.DETECTION_MULTICLASS_SCORES].shape.as_list() == [None, 4, 3]
    assert outputs[fields.NUM_DETECTIONS].shape.as_list() == [None]


def test_raw_detections_and_all_scores_of_a_detection():
    outputs = run(build())
    np.testing.assert_array_equal(outputs[fields.RAW_DETECTION_BOXES], BOXES)
    np.testing.assert_allclose(outputs[fields.RAW_DETECTION_SCORES], sigmoid(LOGITS), rtol=1e-5)
    expected = np.zeros([2, 4, 3])
    expected[0, :2] = sigmoid(LOGITS[0, [1, 0]])
    expected[1, :3] = sigmoid(LOGITS[1, [1, 1, 2]])
    np.testing.assert_allclose(outputs[fields.DETECTION_MULTICLASS_SCORES], expected, rtol=1e-5)


def test_without_a_background_column():
    outputs = run(build(num_classes=3, background_column=False))
    # Of each image the first class has three scores of 0.5.
    assert outputs[fields.DETECTION_CLASSES].tolist() == [[2, 1, 0, 0], [1, 2, 0, 0]]


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('score_converter: IDENTITY', lambda z: z),
        ('', lambda z: z),
        ('score_converter: SIGMOID logit_scale: 2', lambda z: sigmoid(z / 2)),
        (
            'score_converter: SOFTMAX logit_scale: 0.5',
            lambda z: np.exp(2 * z) / np.exp(2 * z).sum(-1, keepdims=True),
        ),
        (
            'score_converter: SIGMOID calibration_config { '
            'temperature_scaling_calibration { scaler: 4 } }',
            lambda z: sigmoid(z / 4),
        ),
        (
            'score_converter: SIGMOID calibration_config { function_approximation { x_y_pairs { '
            'x_y_pair { x: 0 y: 0.5 } x_y_pair { x: 1 y: 1 } } } }',
            lambda z: 0.5 + sigmoid(z) / 2,
        ),
        (
            'score_converter: SIGMOID calibration_config { class_id_sigmoid_calibrations { '
            'class_id_sigmoid_parameters_map { key: 1 value { a: -2 } } } }',
            lambda z: sigmoid(z * [1, 2, 1]),
        ),
    ],
)
def test_scores(text, expected):
    logits = LOGITS.astype(np.float64)
    scores = run(build(text))[fields.RAW_DETECTION_SCORES]
    np.testing.assert_allclose(scores, expected(logits), rtol=1e-4, atol=1e-6)


def test_windows():
    windows = np.array([[0, 0, 0.8, 0.5], [0, 0, 1, 1]], np.float32)
    logits = np.zeros([2, 3, 2], np.float32)
    within = run(
        build(nms='change_coordinate_frame: false', num_classes=1), logits=logits, windows=windows
    )
    assert within[fields.NUM_DETECTIONS].tolist() == [2, 3]
    np.testing.assert_allclose(
        within[fields.DETECTION_BOXES][0, :2], [[0, 0, 0.4, 0.4], [0.5, 0, 0.8, 0.4]]
    )
    relative = run(build(num_classes=1), logits=logits, windows=windows)
    np.testing.assert_allclose(
        relative[fields.DETECTION_BOXES][0, :2],
        [[0, 0, 0.5, 0.8], [0.625, 0, 1, 0.8]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(relative[fields.DETECTION_BOXES][1, :3], BOXES[1])
    np.testing.assert_array_equal(relative[fields.RAW_DETECTION_BOXES], BOXES)


def test_combined_suppression_keeps_empty_boxes():
    windows = np.array([[0, 0, 0.8, 0.5]], np.float32)
    nms = 'change_coordinate_frame: false use_combined_nms: true'
    outputs = run(
        build(nms=nms, num_classes=1), logits=np.zeros([2, 3, 2], np.float32), windows=windows
    )
    assert outputs[fields.NUM_DETECTIONS].tolist() == [3, 3]
    np.testing.assert_allclose(outputs[fields.DETECTION_BOXES][0, 2], [0.2, 0.5, 0.8, 0.5])


def test_boxes_masks_and_values_by_class():
    boxes = np.stack([BOXES, BOXES + 0.05], axis=2)
    masks = np.arange(2 * 3 * 2 * 2, dtype=np.float32).reshape([2, 3, 2, 2, 1])
    depths = np.arange(6, dtype=np.float32).reshape([2, 3])
    outputs = run(build(), boxes=boxes, masks=masks, per_anchor={'depth': depths})
    np.testing.assert_allclose(outputs[fields.DETECTION_BOXES][0, 0], BOXES[0, 1] + 0.05)
    np.testing.assert_allclose(outputs[fields.DETECTION_BOXES][0, 1], BOXES[0, 0])
    assert outputs[fields.DETECTION_MASKS].shape == (2, 4, 2, 1)
    np.testing.assert_array_equal(outputs[fields.DETECTION_MASKS][0, 0], masks[0, 1, 1])
    np.testing.assert_array_equal(outputs[fields.DETECTION_MASKS][0, 1], masks[0, 0, 0])
    assert not outputs[fields.DETECTION_MASKS][0, 2:].any()
    assert outputs['depth'].tolist() == [[1, 0, 0, 0], [4, 4, 5, 0]]
    # Raw boxes are those of the best class.
    np.testing.assert_allclose(outputs[fields.RAW_DETECTION_BOXES][0, 0], BOXES[0, 0])
    np.testing.assert_allclose(outputs[fields.RAW_DETECTION_BOXES][0, 1], BOXES[0, 1] + 0.05)


def test_rows_that_are_not_real():
    outputs = run(build(), counts=np.array([1, 3], np.int32))
    assert outputs[fields.NUM_DETECTIONS].tolist() == [1, 3]


@pytest.mark.parametrize(
    'nms',
    [
        'use_static_shapes: true',
        'use_partitioned_nms: true',
        'use_hard_nms: true',
        'use_cpu_nms: true',
    ],
)
def test_what_says_how_does_not_change_what(nms):
    expected, outputs = run(build()), run(build(nms=nms))
    for name, value in outputs.items():
        np.testing.assert_array_equal(value, expected[name])


def test_suppression_is_on_the_cpu_when_asked():
    def devices(nms):
        with tf.Graph().as_default() as graph:
            build(nms=nms).apply(tf.constant(BOXES[:, :, None]), tf.constant(LOGITS))
        operations = graph.get_operations()
        return {one.device for one in operations if one.type == 'CombinedNonMaxSuppression'}

    assert devices('') == {''}
    assert devices('use_cpu_nms: true') == {'/device:CPU:0'}


@pytest.mark.parametrize(
    ('text', 'nms', 'message'),
    [
        ('', 'iou_threshold: -0.5', 'iou_threshold: -0.5'),
        ('', 'iou_threshold: nan', 'iou_threshold: nan'),
        ('', 'soft_nms_sigma: 1 use_hard_nms: true', 'use_hard_nms'),
        ('', 'use_combined_nms: true', 'expected change_coordinate_frame: false'),
    ],
)
def test_what_cannot_be_is_refused(text, nms, message):
    with pytest.raises(errors.ConfigError) as error:
        build(text, nms)
    assert str(error.value).startswith('here.post_processing.') and message in str(error.value)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (
            'max_total_detections: 50',
            'max_detections_per_class: 100; expected at most 50, max_total',
        ),
    ],
)
def test_numbers_of_detections_that_cannot_be(text, message):
    config = text_format.Parse(text, post_processing_pb2.BatchNonMaxSuppression())
    with pytest.raises(errors.ConfigError, match=message):
        post_processing.build_rules(Section(config, 'nms'), axis_aligned)
