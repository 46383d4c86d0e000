"""Instances from centers and offsets, against slow loops and by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from estimator_lib import errors
from model_fns.segmentation import fields, instances
from model_fns.segmentation.data import targets
from model_fns.structures import heatmaps
from protos import segmentation_pb2

tf1 = tf.compat.v1

CLASSES = 4
GROUPING = instances.InstanceGrouping(
    CLASSES,
    thing_classes=(1, 3),
    center_threshold=0.3,
    suppression_window=3,
    max_instances=5,
    min_instance_area=2,
    min_stuff_area=3,
)


def maps(shape):
    """Semantic predictions, heat and offsets; halves make ties."""
    halves = st.integers(0, 6).map(lambda number: number / 4)
    steps = st.integers(-6, 6).map(lambda number: number / 2)
    return st.tuples(
        hnp.arrays(np.int64, shape, elements=st.integers(0, CLASSES - 1)),
        hnp.arrays(np.float32, shape, elements=halves),
        hnp.arrays(np.float32, (*shape, 2), elements=steps),
    )


batches = st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 6)).flatmap(maps)


@pytest.fixture(scope='module')
def run():
    with tf.Graph().as_default(), tf1.Session() as session:
        semantic = tf1.placeholder(tf.int64, [None, None, None])
        heat = tf1.placeholder(tf.float32, [None, None, None])
        offsets = tf1.placeholder(tf.float32, [None, None, None, 2])
        centers = heatmaps.highest_peaks(heat, 0.3, 3, 5)
        fetches = (
            centers,
            instances.nearest_centers(offsets, centers),
            GROUPING.group(semantic, heat, offsets),
        )
        yield lambda *arrays: session.run(fetches, dict(zip((semantic, heat, offsets), arrays)))


def slow_centers(heat):
    """Peaks of one map by a loop over squares."""
    peaks = [
        (y, x)
        for y, x in np.ndindex(heat.shape)
        if heat[y, x] >= 0.3 and heat[y, x] == square(heat, y, x).max()
    ]
    last = [
        (y, x)
        for y, x in peaks
        if not any(
            abs(y - row) <= 1 and abs(x - column) <= 1 and (row, column) > (y, x)
            for row, column in peaks
        )
    ]
    return sorted(last, key=lambda peak: (-heat[peak], peak))[:5]


def square(heat, y, x):
    return heat[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]


def slow_nearest(offsets, centers):
    found = np.zeros(offsets.shape[:2], int)
    if centers:
        for y, x in np.ndindex(found.shape):
            target = offsets[y, x] + (y, x)
            distances = [((target - center) ** 2).sum() for center in centers]
            found[y, x] = 1 + int(np.argmin(distances))
    return found


def slow_group(semantic, nearest):
    """Instances and panoptic map of one image by a loop over instances and classes."""
    is_thing = np.isin(semantic, GROUPING.thing_classes)
    found = np.zeros(semantic.shape, int)
    panoptic = np.full(semantic.shape, -1)
    for number in range(1, 6):
        inside = (nearest == number) & is_thing
        if inside.sum() >= 2:
            found[inside] = found.max() + 1
            majority = np.bincount(semantic[inside]).argmax()
            panoptic[inside] = majority * 1000 + found.max()
    for stuff in (0, 2):
        inside = semantic == stuff
        if inside.sum() >= 3:
            panoptic[inside] = stuff * 1000
    return found, panoptic


@settings(max_examples=150, deadline=None)
@given(arrays=batches)
def test_all_steps_equal_the_slow_ones(run, arrays):
    semantic, heat, offsets = arrays
    centers, nearest, grouped = run(*arrays)
    for image in range(len(semantic)):
        expected = slow_centers(heat[image])
        found = centers.positions[image][: centers.num_valid[image]]
        assert [tuple(one) for one in found] == expected
        np.testing.assert_array_equal(nearest[image], slow_nearest(offsets[image], expected))
        wanted, panoptic = slow_group(semantic[image], nearest[image])
        np.testing.assert_array_equal(grouped[fields.INSTANCE_PREDICTIONS][image], wanted)
        np.testing.assert_array_equal(grouped[fields.PANOPTIC_PREDICTIONS][image], panoptic)


def test_perfect_predictions_give_the_instances_back():
    # Discs of two classes, the last two of which touch.
    labels = np.zeros([40, 50], np.int32)
    grid = np.indices(labels.shape).transpose(1, 2, 0)
    for number, center in enumerate([(8, 9), (28, 12), (20, 30), (20, 43)]):
        labels[np.hypot(*np.moveaxis(grid - center, -1, 0)) < 7] = number + 1
    classes = np.array([0, 1, 3, 3, 1])[labels]
    grouping = instances.InstanceGrouping(CLASSES, (1, 3))
    with tf.Graph().as_default(), tf1.Session() as session:
        made = targets.instance_targets(tf.constant(labels), sigma=3.0)
        grouped = session.run(
            grouping.group(
                tf.constant(classes[np.newaxis]),
                made[fields.CENTER][tf.newaxis],
                made[fields.OFFSET][tf.newaxis],
            )
        )
    found = grouped[fields.INSTANCE_PREDICTIONS][0]
    assert len(set(zip(labels.ravel(), found.ravel()))) == 5
    panoptic = grouped[fields.PANOPTIC_PREDICTIONS][0]
    np.testing.assert_array_equal(panoptic // 1000, classes)
    np.testing.assert_array_equal(panoptic % 1000, found)


def test_a_plateau_is_one_center(run):
    heat = np.zeros([1, 5, 7], np.float32)
    heat[0, 1:4, 2:6] = 1.0
    centers, _, _ = run(np.zeros(heat.shape, int), heat, np.zeros([1, 5, 7, 2]))
    assert centers.num_valid == [1]
    assert centers.positions[0, 0].tolist() == [3, 5]


def test_things_without_a_center_are_unlabeled(run):
    semantic = np.array([[[0, 0, 0, 1, 3]]])
    _, _, grouped = run(semantic, np.zeros(semantic.shape), np.zeros([1, 1, 5, 2]))
    assert not grouped[fields.INSTANCE_PREDICTIONS].any()
    assert grouped[fields.PANOPTIC_PREDICTIONS].tolist() == [[[0, 0, 0, -1, -1]]]


def test_config():
    message = segmentation_pb2.InstanceGrouping(thing_classes=[3, 1], min_stuff_area=9)
    grouping = instances.InstanceGrouping.from_config(message, CLASSES)
    assert grouping.thing_classes == (1, 3)
    assert (grouping.min_stuff_area, grouping.max_instances) == (9, 200)
    everything = instances.InstanceGrouping.from_config(
        segmentation_pb2.InstanceGrouping(), CLASSES
    )
    assert everything.thing_classes == (1, 2, 3)
    assert everything.things().tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    'settings, message',
    [
        ({'thing_classes': [4]}, 'thing_classes: 4 is not a class; expected 0 to 3'),
        ({'max_instances': 1000}, 'max_instances is 1000; expected 1 to 999'),
        ({'max_instances': 0}, 'max_instances is 0'),
        ({'suppression_window': 6}, 'suppression_window is 6; expected an odd'),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        instances.InstanceGrouping.from_config(
            segmentation_pb2.InstanceGrouping(**settings), CLASSES
        )


def test_static_shapes_and_a_graph_that_does_not_grow():
    def build(batch, classes, most):
        with tf.Graph().as_default() as graph:
            grouping = instances.InstanceGrouping(classes, (1,), max_instances=most)
            grouped = grouping.group(
                tf1.placeholder(tf.int64, [batch, 9, 8]),
                tf1.placeholder(tf.float32, [batch, 9, 8]),
                tf1.placeholder(tf.float32, [batch, 9, 8, 2]),
            )
            assert all(values.shape == [batch, 9, 8] for values in grouped.values())
            return len(graph.get_operations())

    assert build(1, 2, 3) == build(6, 150, 200)
