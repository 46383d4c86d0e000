from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned
from tests.model_fns import edge_cases

tf1 = tf.compat.v1

FIRST = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 4.0]]
SECOND = [[1.0, 1.0, 3.0, 3.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]]


def run(function, *arrays):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(function(*(tf.constant(array, tf.float32) for array in arrays)))


def test_area():
    np.testing.assert_array_equal(
        run(axis_aligned.area, [[FIRST[0], [0, 0, 1, 3], [1, 1, 0, 2]]]), [[4, 3, -1]]
    )


def test_center_size_and_back():
    found = run(axis_aligned.to_center_size, [[1.0, 2.0, 4.0, 10.0]])
    assert [float(value[0]) for value in found] == [2.5, 6.0, 3.0, 8.0]
    back = run(lambda box: axis_aligned.from_center_size(*axis_aligned.to_center_size(box)), SECOND)
    np.testing.assert_allclose(back, SECOND)


def test_pairwise_intersection():
    np.testing.assert_array_equal(
        run(axis_aligned.pairwise_intersection, FIRST, SECOND), [[1, 4, 0], [0, 2, 0]]
    )


def test_pairwise_iou():
    np.testing.assert_allclose(
        run(axis_aligned.pairwise_iou, FIRST, SECOND), [[1 / 7, 1, 0], [0, 2 / 6, 0]], rtol=1e-6
    )


def test_pairwise_ioa_is_a_share_of_the_second():
    np.testing.assert_allclose(
        run(axis_aligned.pairwise_ioa, FIRST, SECOND), [[1 / 4, 1, 0], [0, 1 / 2, 0]], rtol=1e-6
    )


def test_pairs_of_a_batch_and_anchors_for_all_of_it():
    batched = run(axis_aligned.pairwise_iou, [FIRST, FIRST[::-1]], SECOND)
    assert batched.shape == (2, 2, 3)
    np.testing.assert_array_equal(batched[1], batched[0][::-1])
    np.testing.assert_array_equal(
        run(axis_aligned.pairwise_iou, [FIRST, FIRST[::-1]], [SECOND, SECOND]), batched
    )


def test_no_boxes():
    assert run(axis_aligned.pairwise_iou, np.zeros([2, 0, 4]), SECOND).shape == (2, 0, 3)


def test_two_boxes_without_area_do_not_overlap():
    assert run(axis_aligned.pairwise_iou, [SECOND[2]], [SECOND[2]]).tolist() == [[0.0]]


def test_elementwise_iou():
    np.testing.assert_allclose(
        run(axis_aligned.elementwise_iou, FIRST, SECOND[:2]), [1 / 7, 2 / 6], rtol=1e-6
    )


@pytest.mark.parametrize(
    ('first', 'second', 'expected'),
    [
        ([0, 0, 2, 2], [0, 0, 2, 2], 1.0),
        ([0, 0, 2, 2], [1, 1, 3, 3], 1 / 7 - 2 / 9),
        ([0, 0, 1, 1], [0, 3, 1, 4], 0 - 2 / 4),  # apart: half of what encloses both is of neither
    ],
)
def test_elementwise_giou(first, second, expected):
    assert run(axis_aligned.elementwise_giou, first, second) == pytest.approx(expected, abs=1e-6)


def test_clip_to_window():
    window = [0.0, 0.0, 1.0, 2.0]
    clipped = run(axis_aligned.clip_to_window, [[-1, 1, 3, 3], [2, 0.5, 3, 1]], window)
    np.testing.assert_array_equal(clipped, [[0, 1, 1, 2], [1, 0.5, 1, 1]])


def test_a_window_for_each_image():
    windows = [[[0, 0, 1, 1]], [[0, 0, 0.5, 0.5]]]
    clipped = run(axis_aligned.clip_to_window, [[[0, 0, 2, 2]], [[0, 0, 2, 2]]], windows)
    np.testing.assert_array_equal(clipped, [[[0, 0, 1, 1]], [[0, 0, 0.5, 0.5]]])


def test_scale():
    found = run(axis_aligned.scale, [[1, 2, 3, 4]], 10.0, 0.5)
    np.testing.assert_array_equal(found, [[10, 1, 30, 2]])


def test_change_frame():
    found = run(axis_aligned.change_frame, [[2, 2, 4, 6], [0, 0, 2, 2]], [2, 2, 6, 4])
    np.testing.assert_array_equal(found, [[0, 0, 0.5, 2], [-0.5, -1, 0, 0]])


def test_overlaps_are_shares():
    rng = np.random.RandomState(0)
    corners = np.sort(rng.rand(2, 40, 2), axis=0)
    array = np.concatenate(list(corners), axis=1)
    iou, ioa = run(
        lambda box: (axis_aligned.pairwise_iou(box, box), axis_aligned.pairwise_ioa(box, box)),
        array,
    )
    assert (iou >= 0).all() and (iou <= 1 + 1e-5).all()
    np.testing.assert_array_equal(iou, iou.T)
    assert (ioa >= iou - 1e-5).all()


def test_has_area():
    boxes = [[0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0.5]]
    assert run(axis_aligned.has_area, boxes).tolist() == [True, False, False]


def test_what_can_be_meant_of_a_normalized_box():
    nan = float('nan')
    boxes = [[-0.1, 0, 1.1, 1], [0, 0, 1.2, 1], [0.5, 0, 0.4, 1], [0.5, 0.5, 0.5, 0.5], [nan] * 4]
    found = run(lambda one: axis_aligned.is_sound(one, 0.15), boxes)
    assert found.tolist() == [True, False, False, True, True]


@pytest.mark.parametrize(
    ('box', 'problem'),
    [
        ([0, 0, 1, 1.0001], ''),
        ([0, 0, float('nan'), 1], ''),
        ([0, 3, float('nan'), 1], 'reaches out of the image'),
        ([0, -0.1, 1, 1], 'reaches out of the image'),
        ([0.5, 0, 0.4, 1], 'is inverted'),
        ([0.5, 0, 0.5, 1], ''),
    ],
)
def test_the_problem_of_a_box_in_a_record(box, problem):
    found = axis_aligned.find_problem(box, 0.001)
    assert found.startswith(problem) and bool(found) == bool(problem)
    assert bool(run(lambda one: axis_aligned.is_sound(one, 0.001), [box])[0]) == (not problem)


def test_boxes_of_records_that_have_an_area():
    assert axis_aligned.has_sides([0.1, 0.1, 0.2, 0.2])
    for box in ([0.1, 0.1, 0.1, 0.2], [0.1, 0.2, 0.2, 0.2], [0.1, float('nan'), 0.2, 0.2]):
        assert not axis_aligned.has_sides(box)


@pytest.mark.parametrize('function', [0, 1, 'turn'])
def test_flips_and_turns_move_boxes_as_pixels(function):
    """A box drawn as pixels, moved by NumPy."""
    image = np.zeros([8, 8])
    image[1:4, 2:7] = 1
    moved = np.rot90(image) if function == 'turn' else np.flip(image, function)
    rows, columns = np.nonzero(moved)
    expected = np.array([rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]) / 8
    box = [[1 / 8, 2 / 8, 4 / 8, 7 / 8]]
    if function == 'turn':
        found = run(axis_aligned.rotate90, box)
    else:
        found = run(lambda one: axis_aligned.flip(one, function), box)
    np.testing.assert_allclose(found, [expected])


def test_boxes_around_transformed_ones():
    # A quarter turn, (y, x) to (x, -y), then 10 further in x.
    found = run(axis_aligned.transform, [[1, 2, 4, 7]], [[0, 1], [-1, 0]], [0, 10])
    np.testing.assert_allclose(found, [[2, 6, 7, 9]])


@pytest.mark.parametrize('side', [256.0, 300.0])
def test_a_crop_does_not_depend_on_the_last_bit_of_a_box_on_the_images_edge(side):
    """Of ones, all samples are 1: none is outside of the map, where it would be 0."""
    nears = np.linspace(0, 0.9 * side, 30)
    boxes = [[near, near, far, far] for near in nears for far in edge_cases.neighbors(side)]
    crops = run(
        lambda boxes: axis_aligned.crop(
            tf.ones([1, 19, 19, 1]), boxes, tf.zeros([len(nears) * 3], tf.int32), 7, (side, side)
        ),
        boxes,
    )
    np.testing.assert_allclose(crops, np.ones_like(crops), rtol=1e-5)
