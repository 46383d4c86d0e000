from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import (
    anchors,
    axis_aligned,
    box_coders,
    matcher_builder,
    matchers,
    similarities,
    targets,
)
from tests.model_fns.detection import recorded_detectors

tf1 = tf.compat.v1

IOU = similarities.iou(axis_aligned)
NO, SKIP = matchers.UNMATCHED, matchers.IGNORED

# Four unit squares in a row; with stddev 1 a code is the difference to the anchor.
ANCHORS = np.array([[0, 0, 1, 1], [0, 1, 1, 2], [0, 2, 1, 3], [0, 3, 1, 4]], np.float32)
CODER = box_coders.MeanStddevBoxCoder(1.0)
# Overlaps the anchors by 0.8, 0, 0, 0 and 0, 0.45, 0.02, 0.
FIRST, SECOND = [0, 0, 1, 0.8], [0, 1.1, 0.5, 2.1]
WITH_BACKGROUND = np.array([1, 0, 0], np.float32)


def assign(
    boxes,
    classes,
    weights,
    valid,
    background=WITH_BACKGROUND,
    matcher=None,
    similarity=IOU,
    negative_class_weight=1.0,
    coder=CODER,
    ignored_coverage=None,
    labeled=None,
):
    """Compute targets of a batch as arrays; classes are indices of two, or rows of them."""
    classes = np.asarray(classes)
    if classes.ndim == 2:
        classes = np.eye(2)[classes]
    assigner = targets.TargetAssigner(
        similarity, matcher or matchers.ArgMaxMatcher(0.5), coder, negative_class_weight
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        found = assigner.assign(
            tf.constant(ANCHORS),
            targets.Groundtruth(
                tf.constant(boxes, tf.float32),
                tf.constant(classes, tf.float32),
                tf.constant(weights, tf.float32),
                tf.constant(valid, tf.bool),
                ignored_coverage=ignored_coverage,
                labeled_classes=None if labeled is None else tf.constant(labeled, tf.float32),
            ),
            background,
        )
        return targets.Targets(**session.run(vars(found)))


def test_by_hand():
    found = assign([[FIRST, SECOND]], [[1, 0]], [[0.5, 1]], [[True, True]])
    assert found.matches.tolist() == [[0, NO, NO, NO]]
    np.testing.assert_array_equal(
        found.class_targets, [[[0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]]
    )
    np.testing.assert_array_equal(found.class_weights, [[[0.5] * 3, [1] * 3, [1] * 3, [1] * 3]])
    np.testing.assert_allclose(found.box_targets, [[[0, 0, 0, -0.2]] + [[0] * 4] * 3], atol=1e-6)
    np.testing.assert_array_equal(found.box_weights, [[0.5, 0, 0, 0]])


def test_without_a_background_column():
    found = assign([[FIRST]], [[1]], [[1]], [[True]], background=np.zeros([2], np.float32))
    np.testing.assert_array_equal(found.class_targets, [[[0, 1], [0, 0], [0, 0], [0, 0]]])
    assert found.class_weights.shape == (1, 4, 2)


def test_background_as_zeros():
    found = assign([[FIRST]], [[1]], [[1]], [[True]], background=np.zeros([3], np.float32))
    np.testing.assert_array_equal(
        found.class_targets, [[[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]]
    )


def test_ignored_anchors_count_for_nothing():
    between = matchers.ArgMaxMatcher(0.5, 0.3)
    boxes = [[FIRST, [0, 1.4, 1, 2.4]]]  # the second overlaps an anchor by 0.6 / 1.4
    found = assign(boxes, [[1, 0]], [[1, 1]], [[True] * 2], matcher=between)
    assert found.matches.tolist() == [[0, SKIP, NO, NO]]
    np.testing.assert_array_equal(found.class_weights[0, :, 0], [1, 0, 1, 1])
    np.testing.assert_array_equal(found.class_targets[0, 1], [1, 0, 0])
    np.testing.assert_array_equal(found.box_weights, [[1, 0, 0, 0]])


def test_the_weight_of_negatives():
    found = assign([[FIRST]], [[1]], [[1]], [[True]], negative_class_weight=0.25)
    np.testing.assert_array_equal(found.class_weights[0, :, 0], [1, 0.25, 0.25, 0.25])


def test_boxes_without_weight_keep_their_anchors_from_being_negatives():
    found = assign([[FIRST]], [[1]], [[0]], [[True]])
    assert found.matches.tolist() == [[0, NO, NO, NO]]
    np.testing.assert_array_equal(found.class_weights[0, :, 0], [0, 1, 1, 1])
    np.testing.assert_array_equal(found.box_weights, [[0, 0, 0, 0]])


def test_boxes_without_weight_force_no_match():
    forced = matchers.ArgMaxMatcher(0.9, force_match_for_each_row=True)
    found = assign([[FIRST, SECOND]], [[1, 0]], [[0, 1]], [[True] * 2], matcher=forced)
    assert found.matches.tolist() == [[NO, 1, NO, NO]]


def test_classes_that_were_not_looked_for_are_no_background():
    boxes, classes, weights, valid = [[FIRST]] * 2, [[1]] * 2, [[1]] * 2, [[True]] * 2
    labeled = [[0, 1], [1, 1]]  # in the first image, only the second class
    found = assign(boxes, classes, weights, valid, labeled=labeled)
    # The matched anchor has its weight; of the others, background is not known either.
    np.testing.assert_array_equal(found.class_weights[0], [[1, 1, 1]] + [[0, 0, 1]] * 3)
    np.testing.assert_array_equal(found.class_weights[1], np.ones([4, 3]))
    no_column = np.zeros([2], np.float32)
    found = assign(boxes, classes, weights, valid, background=no_column, labeled=labeled)
    np.testing.assert_array_equal(found.class_weights[0], [[1, 1]] + [[0, 1]] * 3)


def test_images_of_a_batch_and_their_padding():
    boxes = [[FIRST, [0, 0, 0, 0]], [[0, 2, 1, 3], FIRST]]
    found = assign(boxes, [[1, 0], [0, 1]], [[1, 0], [1, 1]], [[True, False], [True, True]])
    assert found.matches.tolist() == [[0, NO, NO, NO], [1, NO, 0, NO]]
    np.testing.assert_array_equal(found.class_targets[:, 0], [[0, 0, 1]] * 2)
    np.testing.assert_array_equal(found.class_targets[1, 2], [0, 1, 0])


def test_what_padding_holds_does_not_matter():
    valid = [[True, False, False]]
    padding = [[0, 1, 1, 2], [np.nan] * 4]
    found = assign([[FIRST, *padding]], [[1, 0, 0]], [[1, 1, 1]], valid)
    plain = assign([[FIRST]], [[1]], [[1]], [[True]])
    for name, values in vars(plain).items():
        np.testing.assert_array_equal(getattr(found, name), values, name)


def test_a_batch_without_boxes():
    found = assign(np.zeros([2, 3, 4]), np.zeros([2, 3], int), np.zeros([2, 3]), np.zeros([2, 3]))
    assert (found.matches == NO).all()
    np.testing.assert_array_equal(found.class_targets, np.tile(WITH_BACKGROUND, [2, 4, 1]))
    assert (found.class_weights == 1).all()
    assert not found.box_targets.any() and not found.box_weights.any()


def test_infinite_codes_are_no_targets():
    """The code of a box without area has an infinite logarithm but for the coder's guard."""

    class Infinite(box_coders.MeanStddevBoxCoder):
        def encode(self, boxes, anchors):
            return tf.fill(tf.shape(boxes), float('inf'))

    found = assign([[FIRST]], [[1]], [[1]], [[True]], coder=Infinite())
    assert np.isinf(found.box_targets[0, 0]).all()
    assert (found.box_targets[0, 1:] == 0).all()


def test_classes_may_be_uncertain():
    found = assign([[FIRST]], [[[0.3, 0.6]]], [[1]], [[True]])
    np.testing.assert_allclose(found.class_targets[0, 0], [0, 0.3, 0.6])


def test_thresholded_iou_sees_how_little_a_box_is_background():
    """Its scores are 1 less the background column of the labels."""
    found = assign(
        [[FIRST]],
        [[1]],
        [[1]],
        [[True]],
        similarity=similarities.thresholded_iou(axis_aligned, 0.5),
        matcher=matchers.ArgMaxMatcher(0.9),
    )
    assert found.matches.tolist() == [[0, NO, NO, NO]]


def test_columns_that_do_not_fit():
    with pytest.raises(ValueError, match='4 columns of targets for 2 classes'):
        assign([[FIRST]], [[1]], [[1]], [[True]], background=np.zeros([4], np.float32))


def test_trimming_keeps_all_that_is_real():
    with tf.Graph().as_default(), tf1.Session() as session:
        valid = tf.constant([[True, False, False], [True, True, False]])
        rows = tf.reshape(tf.range(6.0), [2, 3])
        trimmed = targets.Groundtruth(
            tf.tile(rows[..., tf.newaxis], [1, 1, 4]),
            rows[..., tf.newaxis],
            rows,
            valid,
            mask_weights=rows,
        ).trimmed()
        given = {name: one for name, one in vars(trimmed).items() if one is not None}
        groundtruth = targets.Groundtruth(**session.run(given))
    assert groundtruth.boxes.shape == (2, 2, 4)
    assert groundtruth.classes.shape == (2, 2, 1)
    assert groundtruth.weights.tolist() == groundtruth.mask_weights.tolist() == [[0, 1], [3, 4]]
    assert groundtruth.valid.tolist() == [[True, False], [True, True]]


def test_the_graph_does_not_grow_with_boxes_images_or_classes():
    def count(batch, rows, classes):
        with tf.Graph().as_default() as graph:
            targets.TargetAssigner(IOU, matchers.ArgMaxMatcher(), CODER).assign(
                tf1.placeholder(tf.float32, [10, 4]),
                targets.Groundtruth(
                    tf1.placeholder(tf.float32, [batch, rows, 4]),
                    tf1.placeholder(tf.float32, [batch, rows, classes]),
                    tf1.placeholder(tf.float32, [batch, rows]),
                    tf1.placeholder(tf.bool, [batch, rows]),
                ),
                np.zeros([classes + 1], np.float32),
            )
            return len(graph.get_operations())

    assert count(1, 5, 2) == count(24, 100, 90)


@pytest.mark.parametrize('name', recorded_detectors.CASES)
def test_as_recorded(name):
    case = recorded_detectors.load(name)
    config = case.config
    recorded = case.arrays
    groundtruth = case.groundtruth()
    most = max(len(rows) for rows, _ in groundtruth) + 2
    padded = np.zeros([len(groundtruth), most, 4], np.float32)
    classes = np.zeros([len(groundtruth), most, config.num_classes], np.float32)
    valid = np.zeros([len(groundtruth), most], bool)
    for image, (rows, labels) in enumerate(groundtruth):
        count = len(rows)
        padded[image, :count], valid[image, :count] = rows, True
        classes[image, np.arange(count), labels] = 1
    background = np.zeros([config.num_classes + 1], np.float32)
    background[0] = 0.0 if config.encode_background_as_zeros else 1.0
    assigner = targets.TargetAssigner(
        similarities.build_similarity(Section(config.similarity_calculator), axis_aligned),
        matcher_builder.build_matcher(Section(config.matcher)),
        box_coders.build_box_coder(Section(config.box_coder)),
        config.negative_class_weight,
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        found = assigner.assign(
            tf.constant(_anchors(case)),
            targets.Groundtruth(
                tf.constant(padded),
                tf.constant(classes),
                tf.constant(valid.astype(np.float32)),
                tf.constant(valid),
            ),
            background,
        )
        found = targets.Targets(**session.run(vars(found)))
    np.testing.assert_array_equal(
        found.class_targets.argmax(axis=-1), recorded['train/targets__cls']
    )
    assert (found.matches >= 0).sum() == (recorded['train/targets__cls'] > 0).sum() > 0
    case.check('train/targets__cls_weights', found.class_weights, 1e-6)
    case.check('train/targets__reg', found.box_targets, 1e-4)
    case.check('train/targets__reg_weights', found.box_weights, 1e-6)


def _anchors(case):
    generator = anchors.build_anchor_generator(Section(case.config.anchor_generator))
    grids = [
        tuple(case.arrays[f'infer/fm_{index}__shape'][1:3])
        for index in range(len(generator.anchors_per_location()))
    ]
    shape = case.arrays.get('infer/preprocessed__shape')
    shape = case.arrays['infer/preprocessed'].shape if shape is None else shape
    return generator.generate(grids, tuple(shape[1:3]))


def slow_weights(boxes, weights, valid, coverage):
    """The weight of each anchor in the classification loss, one at a time; none is matched."""
    result = []
    for top, left, bottom, right in ANCHORS:
        weight = 1.0
        for box, own, is_valid in zip(boxes, weights, valid):
            height = max(0.0, min(bottom, box[2]) - max(top, box[0]))
            width = max(0.0, min(right, box[3]) - max(left, box[1]))
            share = height * width / ((bottom - top) * (right - left))
            if is_valid and own == 0 and share >= coverage:
                weight = 0.0
        result.append(weight)
    return result


@pytest.mark.parametrize('coverage', [0.4, 0.7])
def test_anchors_in_an_ignored_region_are_no_background(coverage):
    # A crowd over most of the row, an object beside it, and padding.
    boxes = [[0, 0, 1, 2.5], [0, 2.6, 0.6, 3.2], [0, 3, 1, 4]]
    weights, valid = [0.0, 1.0, 0.0], [True, True, False]
    matcher = matchers.ArgMaxMatcher(0.9)
    found = assign(
        [boxes], [[0, 1, 0]], [weights], [valid], matcher=matcher, ignored_coverage=coverage
    )
    assert (found.matches < 0).all()
    expected = slow_weights(boxes, weights, valid, coverage)
    assert expected == ([0, 0, 0, 1] if coverage == 0.4 else [0, 0, 1, 1])
    np.testing.assert_array_equal(found.class_weights[0].max(-1), expected)
    off = assign([boxes], [[0, 1, 0]], [weights], [valid], matcher=matcher)
    assert off.class_weights.min() == 1.0


def test_an_object_in_an_ignored_region_is_learned():
    found = assign(
        [[FIRST, [0, 0, 1, 4]]], [[1, 0]], [[1, 0]], [[True, True]], ignored_coverage=0.5
    )
    np.testing.assert_array_equal(found.class_weights[0].max(-1), [1, 0, 0, 0])
