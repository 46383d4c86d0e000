"""Merged tiles of segmentations, beside slow references on the whole image."""

import itertools
import tracemalloc

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling, Window
from model_fns.segmentation import fields, merging

SIZE = (70, 90)
TILINGS = [Tiling(32, 8), Tiling(40, 30), Tiling(64, 0), Tiling(75, 20)]
THINGS = np.array([False, True, True])


def cut(values, window):
    top, left, height, width = window
    return values[top : top + height, left : left + width]


def numbered(ids):
    """Number the instances of a tile from 1, as the model does."""
    return np.unique(ids, return_inverse=True)[1].reshape(ids.shape) + int(ids.min() > 0)


@pytest.mark.parametrize('tiling', TILINGS)
def test_classes_are_those_of_the_mean_probabilities(tiling):
    random = np.random.RandomState(1)
    sums, counts = np.zeros([*SIZE, 5]), np.zeros([*SIZE, 1])
    tiles = []
    for window in tiling.windows(*SIZE):
        probabilities = random.dirichlet(np.ones(5), window[2:]).astype(np.float32)
        for row, column in itertools.product(range(window.height), range(window.width)):
            sums[window.top + row, window.left + column] += probabilities[row, column]
            counts[window.top + row, window.left + column] += 1
        tiles.append((window, {fields.SEMANTIC_PROBABILITIES: probabilities}))
    merged = merging.merge(iter(tiles), SIZE, None)
    assert set(merged) == {fields.SEMANTIC_PREDICTIONS}
    classes = merged[fields.SEMANTIC_PREDICTIONS]
    assert classes.dtype == np.uint8 and counts.min() >= 1
    np.testing.assert_array_equal(classes, (sums / counts).argmax(axis=-1))


def scene():
    """Return classes and instances: discs at all seams, some larger than a tile, in two classes."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    classes, ids = np.zeros(SIZE, int), np.zeros(SIZE, int)
    discs = [(10, 10, 6), (12, 30, 8), (35, 45, 22), (60, 80, 9), (62, 12, 7), (28, 84, 5)]
    for number, (y, x, radius) in enumerate(discs, 1):
        inside = (rows - y) ** 2 + (columns - x) ** 2 <= radius**2
        classes[inside], ids[inside] = 1 + number % 2, number
    return classes, ids


def outputs_of(window, classes, ids):
    own = cut(classes, window)
    return {
        fields.SEMANTIC_PREDICTIONS: own,
        fields.SEMANTIC_PROBABILITIES: np.eye(3, dtype=np.float32)[own],
        fields.INSTANCE_PREDICTIONS: numbered(cut(ids, window)),
        fields.EDGE_PREDICTIONS: own > 1,
        fields.INSTANCE_CENTERS: np.zeros(own.shape, np.float32),
    }


@pytest.mark.parametrize('tiling', TILINGS)
def test_parts_of_instances_are_joined(tiling):
    classes, ids = scene()
    windows = tiling.windows(*SIZE)
    merged = merging.merge(
        ((window, outputs_of(window, classes, ids)) for window in windows), SIZE, THINGS
    )
    np.testing.assert_array_equal(merged[fields.SEMANTIC_PREDICTIONS], classes)
    np.testing.assert_array_equal(merged[fields.EDGE_PREDICTIONS], classes > 1)
    assert fields.INSTANCE_CENTERS not in merged
    found = merged[fields.INSTANCE_PREDICTIONS]
    assert found.dtype == np.int32
    pairs = {(int(a), int(b)) for a, b in zip(ids.ravel(), found.ravel())}
    assert len(pairs) == 7 and {b for _, b in pairs} == set(range(7)) and (0, 0) in pairs


def two_tiles(left_ids, right_ids, left_class=1, right_class=1):
    """Merge two tiles of 4 x 6 that share two columns."""
    windows = Window(0, 0, 4, 6), Window(0, 4, 4, 6)
    tiles = []
    for window, ids, class_id in zip(windows, (left_ids, right_ids), (left_class, right_class)):
        classes = np.where(ids > 0, class_id, 0)
        tiles.append(
            (
                window,
                {
                    fields.SEMANTIC_PREDICTIONS: classes,
                    fields.SEMANTIC_PROBABILITIES: np.eye(3, dtype=np.float32)[classes],
                    fields.INSTANCE_PREDICTIONS: ids,
                },
            )
        )
    return merging.merge(tiles, (4, 10), THINGS)[fields.INSTANCE_PREDICTIONS]


def test_instances_of_two_tiles_by_hand():
    left, right = np.zeros([4, 6], int), np.zeros([4, 6], int)
    left[1, 2:], right[1, :3] = 1, 1
    left[3, 0] = 2
    expected = np.zeros([4, 10], int)
    expected[1, 2:7], expected[3, 0] = 1, 2
    np.testing.assert_array_equal(two_tiles(left, right), expected)
    # Of another class: the seam is in the middle, at column 5. Half of the overlap has class 2 for
    # one tile and 1 for the other, of equal means, of which the lower class counts.
    expected[1, 5:7] = 3
    np.testing.assert_array_equal(two_tiles(left, right, right_class=2), expected)
    # Of four common pixels of the right one the left one has two: not more than half. One pixel
    # has equal means of both classes, of which the background is first.
    right[2, :3] = 1
    expected[2, 6] = 3
    np.testing.assert_array_equal(two_tiles(left, right), expected)


def test_pixels_of_other_classes_have_no_instance():
    """Where the mean of two tiles says background, the instance of one of them ends."""
    window, beside = Window(0, 0, 2, 4), Window(0, 2, 2, 4)
    sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])
    tiles = [
        (window, np.tile(sure, [2, 4, 1]), np.zeros([2, 4], int)),
        (beside, np.tile(unsure, [2, 4, 1]), np.ones([2, 4], int)),
    ]
    merged = merging.merge(
        [
            (
                place,
                {
                    fields.SEMANTIC_PROBABILITIES: probabilities,
                    fields.SEMANTIC_PREDICTIONS: probabilities.argmax(-1),
                    fields.INSTANCE_PREDICTIONS: ids,
                },
            )
            for place, probabilities, ids in tiles
        ],
        (2, 6),
        np.array([False, True]),
    )
    assert merged[fields.INSTANCE_PREDICTIONS].tolist() == [[0, 0, 0, 0, 1, 1]] * 2


def test_a_tile_that_is_the_image_stays_as_it_is():
    outputs = {fields.SEMANTIC_PROBABILITIES: np.zeros([4, 6, 2]), 'more': 1}
    assert merging.merge([(Window(0, 0, 4, 6), outputs)], (4, 6), None) == outputs


def test_a_model_without_probabilities():
    with pytest.raises(errors.UserError, match='no output SemanticProbabilities, whose mean'):
        merging.merge([(Window(0, 0, 4, 6), {})], (8, 6), None)


def test_memory_does_not_grow_with_the_probabilities_of_the_image():
    """A bound of a row of tiles, the maps, and some tiles; all probabilities are 33 megabytes."""
    side, tile, classes = 1024, 64, 8
    ids = np.zeros([tile, tile], np.int32)
    ids[8:60, 8:60] = 1

    def tiles():
        for window in Tiling(tile, 16).windows(side, side):
            yield (
                window,
                {
                    fields.SEMANTIC_PROBABILITIES: np.ones([tile, tile, classes], np.float32),
                    fields.SEMANTIC_PREDICTIONS: ids,
                    fields.INSTANCE_PREDICTIONS: ids,
                },
            )

    tracemalloc.start()
    try:
        merging.merge(tiles(), (side, side), np.ones([classes], bool))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    row, maps = tile * side * classes * 4, side * side * (1 + 4)
    assert peak < row + maps + 256 * side * 16 + 3_000_000 < side * side * classes * 4 / 2
