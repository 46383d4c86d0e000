"""Panoptic quality, against a slow oracle over sets of pixels and by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation import instances
from model_fns.segmentation.metrics import panoptic

tf1 = tf.compat.v1

IGNORE = 255
CLASSES = 4
GROUPING = instances.InstanceGrouping(CLASSES, thing_classes=(1, 3))


@pytest.fixture(scope='module')
def counts():
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = [tf1.placeholder(tf.int32, [None, None, None]) for _ in range(3)]
        made = panoptic.panoptic_counts(*maps, IGNORE, GROUPING)
        yield lambda *arrays: session.run(made, dict(zip(maps, arrays)))


def true_segments(labels, ids):
    """Sets of pixels by (class, instance), and the void ones."""
    segments, void = {}, set()
    for pixel in np.ndindex(labels.shape):
        label, one = int(labels[pixel]), int(ids[pixel])
        if label == IGNORE or (label in GROUPING.thing_classes and one == 0):
            void.add(pixel)
        else:
            key = (label, one if label in GROUPING.thing_classes else 0)
            segments.setdefault(key, set()).add(pixel)
    return segments, void


def slow_counts(predictions, labels, ids):
    """Of one image."""
    truth, void = true_segments(labels, ids)
    found = {}
    for pixel in np.ndindex(labels.shape):
        if predictions[pixel] >= 0:
            found.setdefault(int(predictions[pixel]), set()).add(pixel)
    total = np.zeros([4, CLASSES])
    matched = set()
    for number, pixels in found.items():
        one_class = number // 1000
        for key, true_pixels in truth.items():
            iou = len(pixels & true_pixels) / len((pixels - void) | true_pixels)
            if key[0] == one_class and iou > 0.5:
                total[0, one_class] += iou
                total[1, one_class] += 1
                matched |= {number, key}
        if number not in matched and len(pixels & void) <= 0.5 * len(pixels):
            total[2, one_class] += 1
    for key in truth:
        if key not in matched:
            total[3, key[0]] += 1
    return total


batches = st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(
            np.int32, shape, elements=st.sampled_from([-1, 0, 2000, 1001, 1002, 3001, 3999])
        ),
        hnp.arrays(np.int32, shape, elements=st.sampled_from([0, 1, 1, 2, 3, IGNORE])),
        hnp.arrays(np.int32, shape, elements=st.sampled_from([0, 1, 1, 2, 65535])),
    )
)


@settings(max_examples=200, deadline=None)
@given(arrays=batches)
def test_counts_equal_the_slow_ones(counts, arrays):
    expected = sum(slow_counts(*image) for image in zip(*arrays))
    np.testing.assert_allclose(counts(*arrays), expected)


@settings(max_examples=50, deadline=None)
@given(arrays=batches)
def test_truth_predicted_is_perfect(counts, arrays):
    _, labels, ids = arrays
    ids = np.minimum(ids, 999)
    is_thing = np.isin(labels, GROUPING.thing_classes)
    predictions = np.where(is_thing, labels * 1000 + ids, labels * 1000)
    is_void = (labels == IGNORE) | (is_thing & (ids == 0))
    made = counts(np.where(is_void, -1, predictions).astype(np.int32), labels, ids)
    found = panoptic.qualities(made, GROUPING.things())
    assert all(value == 1.0 for value in found.values())
    assert not made[2:].any()
    if not is_void.all():
        assert found['panoptic_quality'] == 1.0


def test_by_hand(counts):
    # A thing found with an IoU of 3/4, one missed, one made up, and stuff at 4/5 beside void.
    labels = np.array([[[1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, IGNORE]]])
    ids = np.array([[[1, 1, 1, 1, 2, 2, 0, 0, 0, 0, 0, 0]]])
    predictions = np.array([[[1001, 1001, 1001, -1, -1, -1, 3001, 0, 0, 0, 0, 0]]])
    made = counts(predictions, labels, ids)
    np.testing.assert_allclose(made, [[0.8, 0.75, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    found = panoptic.qualities(made, GROUPING.things())
    assert found == pytest.approx(
        {
            'panoptic_quality': (0.8 + 0.5 + 0) / 3,
            'segmentation_quality': (0.8 + 0.75 + 0) / 3,
            'recognition_quality': (1 + 2 / 3 + 0) / 3,
            'panoptic_quality_things': 0.25,
            'segmentation_quality_things': 0.375,
            'recognition_quality_things': 1 / 3,
            'panoptic_quality_stuff': 0.8,
            'segmentation_quality_stuff': 0.8,
            'recognition_quality_stuff': 1.0,
            'panoptic_quality_class_0': 0.8,
            'panoptic_quality_class_1': 0.5,
            'panoptic_quality_class_3': 0.0,
        }
    )


def test_an_iou_of_one_half_is_no_match(counts):
    labels, ids = np.array([[[1, 1]]]), np.array([[[1, 1]]])
    made = counts(np.array([[[1001, -1]]]), labels, ids)
    np.testing.assert_array_equal(made.sum(axis=1), [0, 0, 1, 1])


def test_segments_of_different_images_are_different(counts):
    labels = np.array([[[1, 1]], [[1, 1]]])
    ids = np.ones_like(labels)
    np.testing.assert_array_equal(counts(labels * 1000 + 1, labels, ids).sum(axis=1), [2, 2, 0, 0])


def test_a_segment_in_void_is_not_wrong(counts):
    labels, ids = np.array([[[IGNORE, IGNORE, 0, 0, 0, 0]]]), np.zeros([1, 1, 6], int)
    made = counts(np.array([[[1001, 1001, 1001, 0, 0, 0]]]), labels, ids)
    np.testing.assert_array_equal(made[2], [0, 0, 0, 0])
    half = counts(np.array([[[-1, 1001, 1001, 0, 0, 0]]]), labels, ids)
    np.testing.assert_array_equal(half[2], [0, 1, 0, 0])


def test_names_are_those_that_are_reported():
    made = panoptic.qualities(np.ones([4, CLASSES]), GROUPING.things())
    assert sorted(made) == sorted(panoptic.quality_names(CLASSES))
    assert panoptic.qualities(np.zeros([4, CLASSES]), GROUPING.things()) == {}


def test_graph_does_not_grow():
    def size(batch, classes):
        with tf.Graph().as_default() as graph:
            maps = [tf1.placeholder(tf.int32, [batch, 5, 5]) for _ in range(3)]
            grouping = instances.InstanceGrouping(classes, (1,))
            made = panoptic.panoptic_counts(*maps, IGNORE, grouping)
            assert made.shape == [panoptic.NUM_COUNTS, classes]
            return len(graph.get_operations())

    assert size(1, 2) == size(7, 150)
