"""Two-stage detectors of rotated boxes, by cases that are found by hand."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import model as two_stage
from model_fns.detection.boxes import quadrilaterals, rotated, targets
from model_fns.structures import rotated_rectangles
from tests import initial_values, tiny_detection, tiny_rotated

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1

HEIGHT, WIDTH = 64, 80
SIDES = (float(HEIGHT), float(WIDTH))
# Two bars, in the long edge form.
BARS = np.array([[20, 24, 10, 30, 0.4], [40, 56, 12, 36, -1.2]], np.float32)


def config_of(*settings, stages=2, text=tiny_rotated.TWO_STAGES):
    text = text.format(stages=stages, hyperparams=tiny_detection.HYPERPARAMS)
    settings = [f'model.faster_rcnn.{one}' for one in settings]
    return config_lib.parse_pipeline_config(text, 'text', settings=settings).model


def made_of(*settings, **more):
    return detector.build_detector(config_of(*settings, **more))


def groundtruth_of(boxes, classes=(0, 1), num_classes=2):
    boxes = quadrilaterals.from_boxes(tf.constant(boxes[np.newaxis]), *SIDES)
    count = len(classes)
    labels = tf.one_hot([classes], num_classes)
    return targets.Groundtruth(boxes, labels, tf.ones([1, count]), tf.fill([1, count], True))


def predictions_of(boxes, classes=(0, 1), sure=(20.0, 20.0)):
    """Build predictions that are certain of classes, and keep proposals as they are."""
    count = len(classes)
    logits = np.zeros([1, count, 3], np.float32)
    logits[0, np.arange(count), 1 + np.array(classes)] = sure
    return {
        fields.PREPROCESSED: tf.zeros([1, HEIGHT, WIDTH, 3]),
        fields.RPN_BOX_ENCODINGS: tf.zeros([1, count, 5]),
        fields.RPN_OBJECTNESS: tf.constant([[[-20.0, 20.0]] * count]),
        fields.ANCHORS: tf.convert_to_tensor(boxes),
        fields.PROPOSAL_BOXES: tf.convert_to_tensor(boxes)[tf.newaxis],
        fields.PROPOSAL_SCORES: tf.constant([[[0.1, 0.9]] * count]),
        fields.NUM_PROPOSALS: tf.constant([count]),
        fields.REFINED_BOX_ENCODINGS: tf.zeros([1, count, 2, 5]),
        fields.CLASS_LOGITS: tf.constant(logits),
    }


@functools.cache
def built_losses(*settings):
    """Build losses for certain boxes, which are fed, at the bars."""
    with tf.Graph().as_default() as graph:
        tf1.train.get_or_create_global_step()
        fed = tf1.placeholder(tf.float32, BARS.shape)
        values = made_of(*settings).losses(predictions_of(fed), None, groundtruth_of(BARS))
        initializer = tf1.global_variables_initializer()
    return graph, initializer, fed, values


def losses_of(boxes, *settings):
    graph, initializer, fed, values = built_losses(*settings)
    with tf1.Session(graph=graph) as session:
        session.run(initializer)
        return session.run(values, {fed: boxes})


def test_right_predictions_lose_nothing():
    values = losses_of(BARS)
    assert set(values) == {*two_stage.REGION_LOSSES, *two_stage.BOX_LOSSES}
    for value in values.values():
        np.testing.assert_allclose(value, 0, atol=1e-5)


@pytest.mark.parametrize(
    ('coder', 'expected'),
    [
        # 5 times the turn in quarters, 0.1910: half its square, of one of two proposals.
        ((), 0.5 * (5 * 0.06 / (math.pi / 2)) ** 2 / 2),
        # 10 times: 0.382.
        (('rotated_box_coder={ angle_scale: 10 }',), 0.5 * (10 * 0.06 / (math.pi / 2)) ** 2 / 2),
    ],
)
def test_a_turn_is_lost_in_both_stages(coder, expected):
    turned = BARS.copy()
    turned[0, 4] += 0.06
    values = losses_of(turned, *coder)
    for name in (two_stage.REGION_LOSSES[0], two_stage.BOX_LOSSES[0]):
        np.testing.assert_allclose(values[name], expected, rtol=1e-3)


def test_a_turn_by_half_a_circle_is_none():
    turned = BARS + np.float32([0, 0, 0, 0, math.pi])
    values = losses_of(turned)
    np.testing.assert_allclose(values[two_stage.BOX_LOSSES[0]], 0, atol=1e-5)


@pytest.mark.parametrize('stages', [1, 2])
def test_detections_are_corners_of_the_image_without_padding(stages):
    # Of two boxes of a class at one place the worse is suppressed.
    boxes = np.concatenate([BARS, BARS[:1] + [1, 0, 0, 0, 0.05]]).astype(np.float32)
    predictions = predictions_of(boxes, (0, 1, 0), (20.0, 15.0, 5.0))
    shapes = tf.constant([[HEIGHT, WIDTH // 2, 3]])
    found = made_of(stages=stages).postprocess(predictions, shapes)
    expected = rotated_rectangles.corners(BARS.astype(np.float64)) / [HEIGHT, WIDTH / 2]
    corners = found[fields.DETECTION_BOXES].numpy()[0, :2].reshape([2, 4, 2])
    np.testing.assert_allclose(corners, expected, atol=1e-5)
    assert found[fields.RAW_DETECTION_BOXES].shape == [1, 3, 8]
    if stages == 2:
        assert found[fields.NUM_DETECTIONS].numpy().tolist() == [2]
        assert found[fields.DETECTION_CLASSES].numpy()[0, :2].tolist() == [0, 1]
        assert found[fields.SHOWN_PROPOSALS].shape == [1, 3, 8]


@initial_values.left_out()
def test_anchors_that_reach_over_the_image_teach_nothing():
    """Of those that are left no corner is outside; with `clip_anchors_to_image` all stay."""
    counts = []
    for clips in ('true', 'false'):
        made = made_of(f'clip_anchors_to_image={clips}', stages=1)
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.train.get_or_create_global_step()
            images = tf.zeros([1, HEIGHT, WIDTH, 3])
            anchors = made.predict(images, None, groundtruth_of(BARS), True)[fields.ANCHORS]
            anchors = session.run(anchors)
        counts.append(len(anchors))
    corners = rotated_rectangles.corners(anchors.astype(np.float64))
    assert counts[0] == 4 * 5 * 6 and 0 < counts[1] < counts[0]
    assert corners.min() >= -1e-4 and np.all(corners.max(axis=(0, 1)) <= np.add(SIDES, 1e-4))


def test_crops_are_turned_with_their_boxes():
    made = made_of('initial_crop_size=3')
    rows = np.arange(HEIGHT, dtype=np.float32)
    features = np.broadcast_to(rows[:, np.newaxis, np.newaxis], [1, HEIGHT, WIDTH, 1])
    # A vertical bar: its width, which is along x before the rotation, is along y.
    box = np.array([[[31.5, 40, 10, 20, math.pi / 2]]], np.float32)
    crop = made._second.crops([tf.constant(features)], tf.constant(box), (63.0, 79.0))
    np.testing.assert_allclose(crop[0, :, :, 0], [[21.5, 31.5, 41.5]] * 3, atol=1e-3)


def test_how_well_anchors_fit():
    made = made_of()
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf.zeros([1, HEIGHT, WIDTH, 3])
        groundtruth = groundtruth_of(BARS)
        fit = made.anchor_fit(images, groundtruth.boxes[0])
        session.run(tf1.global_variables_initializer())
        similarity, anchors = session.run((fit.similarity, fit.anchors))
    boxes = quadrilaterals.to_boxes(tf.constant(anchors), *SIDES)
    expected = tf.reduce_max(rotated.pairwise_iou(tf.constant(BARS), boxes), axis=1)
    np.testing.assert_allclose(similarity, expected, atol=1e-4)
    assert fit.threshold == 0.4 and anchors.shape[1] == 8


@initial_values.left_out()
def test_the_graph_does_not_grow_and_boxes_have_five_numbers():
    def count(batch, num_classes, proposals):
        made = made_of(f'num_classes={num_classes}', f'first_stage_max_proposals={proposals}')
        with tf.Graph().as_default() as graph:
            tf1.train.get_or_create_global_step()
            images = tf1.placeholder(tf.float32, [batch, HEIGHT, WIDTH, 3])
            one = groundtruth_of(BARS, num_classes=num_classes)
            given = targets.Groundtruth(
                *(tf.repeat(each, batch, 0) for each in (one.boxes, one.classes)),
                *(tf.repeat(each, batch, 0) for each in (one.weights, one.valid)),
            )
            predictions = made.predict(images, None, given, True)
            predictions[fields.PREPROCESSED] = images
            made.losses(predictions, None, given)
            made.postprocess(predictions, None)
            shapes = {one.op.name: one.shape.as_list() for one in tf1.global_variables()}
        assert shapes['FirstStageBoxPredictor/BoxEncodingPredictor/weights'][2:] == [32, 6 * 5]
        head = shapes['SecondStageBoxPredictor/BoxEncodingPredictor/weights']
        assert head == [256, num_classes * 5]
        definition = graph.as_graph_def()
        inner = sum(len(function.node_def) for function in definition.library.function)
        return len(definition.node) + inner

    assert count(2, 2, 8) == count(5, 40, 300)


@pytest.mark.parametrize(
    ('setting', 'path', 'text'),
    [
        (
            'use_combined_nms_in_first_stage=true',
            'box_type',
            'expected use_combined_nms_in_first_stage: false.',
        ),
        (
            'second_stage_post_processing.batch_non_max_suppression.use_combined_nms=true',
            'box_type',
            'expected second_stage_post_processing.batch_non_max_suppression.use_combined_nms: f',
        ),
        (
            'second_stage_box_predictor.mask_rcnn_box_predictor.box_code_size=4',
            'second_stage_box_predictor.mask_rcnn_box_predictor.box_code_size',
            '4; with box_type: ROTATED expected 5',
        ),
        (
            'box_type=AXIS_ALIGNED',
            'first_stage_anchor_generator.grid_anchor_generator.angles',
            'expected box_type: ROTATED',
        ),
    ],
)
def test_what_does_not_go_with_rotated_boxes(setting, path, text):
    with pytest.raises(errors.ConfigError) as caught:
        made_of(setting)
    assert f'model.faster_rcnn.{path}: ' in str(caught.value) and text in str(caught.value)
