"""Targets of the heads for instances and edges, against slow loops and by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation import fields
from model_fns.segmentation.data import targets

tf1 = tf.compat.v1

SIGMA = 2.0

small_maps = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.int32, shape, elements=st.sampled_from([0, 0, 1, 2, 700, 65535])),
        hnp.arrays(bool, shape),
        hnp.arrays(np.int32, shape, elements=st.integers(0, 3)),
    )
)


@pytest.fixture(scope='module')
def session():
    with tf.Graph().as_default(), tf1.Session() as session:
        labels = tf1.placeholder(tf.int32, [None, None], 'labels')
        counted = tf1.placeholder(tf.bool, [None, None], 'counted')
        classes = tf1.placeholder(tf.int32, [None, None], 'classes')
        of_instances = targets.instance_targets(labels, SIGMA)
        edges = {
            width: (
                targets.edge_targets(labels, counted, width),
                targets.edge_targets(labels, counted, width, classes),
            )
            for width in (1, 2, 3, 5)
        }

        def run_instances(instances):
            return session.run(of_instances, {labels: instances})

        def run_edges(width, label_map, mask=None, class_map=None):
            feed = {labels: label_map, counted: np.ones_like(label_map, bool)}
            if mask is not None:
                feed[counted] = mask
            if class_map is None:
                return session.run(edges[width][0], feed)
            return session.run(edges[width][1], {**feed, classes: class_map})

        yield run_instances, run_edges


def slow_instances(instances):
    """The same by loops over instances and pixels."""
    heat = np.zeros(instances.shape)
    offsets = np.zeros((*instances.shape, 2))
    reach = int(np.ceil(3 * SIGMA))
    for one in set(instances.ravel()) - {0}:
        center = np.argwhere(instances == one).mean(axis=0)
        row, column = np.rint(center)
        for y, x in np.ndindex(instances.shape):
            if instances[y, x] == one:
                offsets[y, x] = center - (y, x)
            if abs(y - row) <= reach and abs(x - column) <= reach:
                bell = np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * SIGMA**2))
                heat[y, x] = max(heat[y, x], bell)
    return heat, offsets


def slow_edges(labels, counted, width, classes=None):
    """The same by a loop over squares."""
    before, after = width // 2, (width + 1) // 2
    edges = np.zeros_like(labels)
    for y, x in np.ndindex(labels.shape):
        rows = slice(max(0, y - before), y + after + 1)
        columns = slice(max(0, x - before), x + after + 1)
        known = counted[rows, columns]
        if len(set(labels[rows, columns][known])) > 1:
            edges[y, x] = 1
            if classes is not None:
                own = classes[y, x] if counted[y, x] else 0
                edges[y, x] = own or max(classes[rows, columns][known])
        elif not counted[y, x]:
            edges[y, x] = targets.IGNORED_EDGE
    return edges


@settings(max_examples=60, deadline=None)
@given(maps=small_maps)
def test_instances_equal_the_slow_ones(session, maps):
    found = session[0](maps[0])
    heat, offsets = slow_instances(maps[0])
    np.testing.assert_allclose(found[fields.CENTER], heat, atol=1e-6)
    np.testing.assert_allclose(found[fields.OFFSET], offsets, atol=1e-5)
    np.testing.assert_array_equal(found[fields.OFFSET_WEIGHTS], maps[0] != 0)


def test_one_instance_by_hand(session):
    instances = np.zeros([5, 6], np.int32)
    instances[1:4, 2] = 9
    found = session[0](instances)
    assert found[fields.CENTER][2, 2] == 1.0
    assert found[fields.CENTER][2, 4] == pytest.approx(np.exp(-0.5))
    np.testing.assert_array_equal(found[fields.OFFSET][1:4, 2], [[1, 0], [0, 0], [-1, 0]])
    assert not found[fields.OFFSET][instances == 0].any()


def test_no_instance_has_no_heat(session):
    found = session[0](np.zeros([4, 4], np.int32))
    assert not any(values.any() for values in found.values())


def test_large_instance_has_an_exact_center(session):
    instances = np.ones([600, 900], np.int32)
    offsets = session[0](instances)[fields.OFFSET]
    np.testing.assert_allclose(offsets[0, 0], [299.5, 449.5], atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(maps=small_maps, width=st.sampled_from([1, 2, 3, 5]))
def test_edges_equal_the_slow_ones(session, maps, width):
    labels, counted, classes = maps
    run = session[1]
    np.testing.assert_array_equal(run(width, labels, counted), slow_edges(labels, counted, width))
    np.testing.assert_array_equal(
        run(width, labels, counted, classes), slow_edges(labels, counted, width, classes)
    )


@pytest.mark.parametrize('width', [1, 2, 3, 5])
def test_straight_edges_have_the_width(session, width):
    labels = np.zeros([3, 20], np.int32)
    labels[:, 10:] = 4
    edges = session[1](width, labels)
    assert (edges.sum(axis=1) == width).all()
    assert edges[0, 9] == 1


def test_edges_have_the_class_that_they_bound(session):
    classes = np.zeros([1, 12], np.int32)
    classes[:, 4:8] = 2
    classes[:, 8:] = 3
    edges = session[1](2, classes, class_map=classes)
    np.testing.assert_array_equal(edges, [[0, 0, 0, 2, 2, 0, 0, 2, 3, 0, 0, 0]])


def test_padding_is_not_bounded_and_outlines_are_edges(session):
    labels = np.array([[1, 1, 1, 255, 255, 255, 255, 1, 1, 255, 2, 2]], np.int32)
    edges = session[1](2, labels, labels != 255)
    np.testing.assert_array_equal(edges, [[0, 0, 0, -1, -1, -1, -1, 0, 0, 1, 0, 0]])


def test_static_shapes_are_kept():
    with tf.Graph().as_default():
        found = targets.instance_targets(tf.zeros([5, 7], tf.int32), SIGMA)
        assert found[fields.CENTER].shape == [5, 7]
        assert found[fields.OFFSET].shape == [5, 7, 2]
        assert found[fields.OFFSET_WEIGHTS].shape == [5, 7]
        edges = targets.edge_targets(tf.zeros([5, 7], tf.int32), tf.ones([5, 7], bool), 3)
        assert edges.shape == [5, 7]
