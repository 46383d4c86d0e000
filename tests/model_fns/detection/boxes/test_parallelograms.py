import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import parallelograms, rotated
from tests.model_fns.detection import rotated_cases


def shapes_of(boxes, dtype=tf.float64):
    return rotated.to_parallelograms(tf.constant(boxes, dtype))


def test_by_slow_slices():
    first, second = rotated_cases.boxes(12, 1, 40), rotated_cases.boxes(12, 2, 40)
    expected = [[rotated_cases.slow_area(one, other) for other in second] for one in first]
    found = parallelograms.pairwise_intersection(shapes_of(first), shapes_of(second))
    assert np.count_nonzero(expected) > 40
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_of_skewed_ones():
    # A skewed one, twice its width away from itself in steps of half its width.
    first = tf.constant([[0.0, 0, 1, 0.5, 0, 1]])
    second = tf.constant([[0.0, shift, 1, 0.5, 0, 1] for shift in (0.0, 1, 2, 3)])
    found = parallelograms.pairwise_intersection(first, second)
    np.testing.assert_allclose(found, [[4, 2, 0, 0]], atol=1e-5)
    np.testing.assert_allclose(parallelograms.area(first), [4])
    np.testing.assert_allclose(parallelograms.enclosing_boxes(first), [[-1, -1.5, 1, 1.5]])


def test_leading_dimensions_broadcast():
    first, second = rotated_cases.boxes(6, 1, 40).reshape([2, 3, 5]), rotated_cases.boxes(4, 2, 40)
    found = parallelograms.pairwise_intersection(shapes_of(first), shapes_of(second))
    assert found.shape == [2, 3, 4]
    for image in range(2):
        alone = parallelograms.pairwise_intersection(shapes_of(first[image]), shapes_of(second))
        np.testing.assert_allclose(found[image], alone)
    of_each = parallelograms.pairwise_intersection(
        shapes_of(first), shapes_of(second.reshape([2, 2, 5]))
    )
    np.testing.assert_allclose(of_each[1], found[1][:, 2:])


def test_blocks_make_no_difference(monkeypatch):
    shapes = shapes_of(rotated_cases.boxes(20, 3))
    whole = parallelograms.pairwise_intersection(shapes, shapes)
    monkeypatch.setattr(parallelograms, '_BLOCK', 7)
    blocks = parallelograms.pairwise_intersection(shapes, shapes)
    np.testing.assert_allclose(blocks, whole, atol=1e-9)


def test_with_each_other():
    shapes = shapes_of(rotated_cases.boxes(20, 3))
    whole = parallelograms.pairwise_intersection(shapes, shapes).numpy()
    np.fill_diagonal(whole, 0.0)
    np.testing.assert_allclose(parallelograms.self_intersection(shapes), whole, atol=1e-9)


@pytest.mark.parametrize('counts', [(0, 3), (3, 0), (0, 0)])
def test_of_none(counts):
    first, second = (tf.zeros([count, 6]) for count in counts)
    assert parallelograms.pairwise_intersection(first, second).shape == counts


def test_graph_does_not_grow_with_pairs():
    def nodes(first, second):
        with tf.Graph().as_default() as graph:
            shapes = (tf.compat.v1.placeholder(tf.float32, [n, 6]) for n in (first, second))
            parallelograms.pairwise_intersection(*shapes)
            return len(graph.get_operations())

    assert nodes(2, 3) == nodes(2000, 100)


def test_outlines_of_twenty_points():
    # Turned by so little all corners are inside of the other box, and twelve edges cross.
    box = np.array([71.03104206, 5.52651589, 4.37701668, 4.96087846, 3.02300406])
    turned = box + [0, 0, 0, 0, 1.4134151e-06]
    found = parallelograms.elementwise_intersection(
        shapes_of([box], tf.float32), shapes_of([turned], tf.float32)
    )
    np.testing.assert_allclose(found, [box[2] * box[3]], rtol=1e-4)
