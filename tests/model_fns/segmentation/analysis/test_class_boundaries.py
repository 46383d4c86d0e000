"""Boundary counts of classes, against a search through all pairs of pixels and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation.analysis import class_boundaries

IGNORED = 255
NUM_CLASSES = 3
NEIGHBORS = ((-1, 0), (0, -1), (0, 1), (1, 0))


def around(pixel, shape):
    for step in NEIGHBORS:
        neighbor = (pixel[0] + step[0], pixel[1] + step[1])
        if 0 <= neighbor[0] < shape[0] and 0 <= neighbor[1] < shape[1]:
            yield neighbor


def slow_grown(labels, steps):
    """Classes by pixel, where each step gives ignored pixels the class of a neighbor before it."""
    classes = {p: labels[p] for p in np.ndindex(labels.shape) if labels[p] != IGNORED}
    for _ in range(steps):
        before = dict(classes)
        for pixel in np.ndindex(labels.shape):
            known = [before[near] for near in around(pixel, labels.shape) if near in before]
            if pixel not in before and known:
                classes[pixel] = known[0]
    return classes


def slow_edges(classes, shape):
    """Class by boundary pixel."""
    return {
        pixel: classes[pixel]
        for pixel in classes
        if any(classes.get(near, classes[pixel]) != classes[pixel] for near in around(pixel, shape))
    }


def slow_matches(edges, others, tolerance):
    return {
        pixel
        for pixel, index in edges.items()
        if any(
            np.hypot(pixel[0] - other[0], pixel[1] - other[1]) <= tolerance
            for other, other_index in others.items()
            if other_index == index
        )
    }


def slow_counts(predictions, labels, tolerance):
    true = slow_edges(slow_grown(labels, int(tolerance)), labels.shape)
    predicted = slow_edges(dict(np.ndenumerate(predictions)), labels.shape)
    right = slow_matches(predicted, true, tolerance)
    found = slow_matches(true, predicted, tolerance)
    counted = {
        pixel
        for pixel in predicted
        if pixel in right
        or all(labels[near] != IGNORED for near in (pixel, *around(pixel, labels.shape)))
    }
    return [
        [
            sum(predicted[pixel] == index for pixel in right),
            sum(predicted[pixel] == index for pixel in counted),
            sum(true[pixel] == index for pixel in found),
            sum(value == index for value in true.values()),
        ]
        for index in range(NUM_CLASSES)
    ]


def counts_of(predictions, labels):
    return class_boundaries.count_boundaries(predictions, labels, NUM_CLASSES, IGNORED).tolist()


shapes = st.tuples(st.integers(1, 8), st.integers(1, 8))
maps = shapes.flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.int64, shape, elements=st.integers(0, 2)),
        hnp.arrays(np.int32, shape, elements=st.sampled_from([0, 1, 2, IGNORED])),
    )
)


@pytest.mark.parametrize('tolerance', [0.05, 0.2, 0.5])
def test_counts_equal_a_search(monkeypatch, tolerance):
    """Small maps with a larger tolerance than the published one, which is below a pixel there."""
    monkeypatch.setattr(class_boundaries, 'TOLERANCE', tolerance)

    @settings(max_examples=60, deadline=None)
    @given(pair=maps)
    def check(pair):
        predictions, labels = pair
        pixels = tolerance * np.hypot(*labels.shape)
        assert counts_of(predictions, labels) == slow_counts(predictions, labels, pixels)

    check()


def halves(height, width, column):
    """Class 1 to the left of a column and class 2 from it on."""
    return np.repeat(np.where(np.arange(width) < column, 1, 2)[np.newaxis], height, axis=0)


def test_the_published_tolerance():
    # The diagonal is 500, so the tolerance is 3.75 pixels.
    labels = halves(300, 400, 200)
    near, far = halves(300, 400, 203), halves(300, 400, 204)
    assert counts_of(near, labels) == [[0] * 4, [300] * 4, [300] * 4]
    assert counts_of(far, labels) == [[0] * 4, [0, 300, 0, 300], [0, 300, 0, 300]]


def test_a_boundary_below_an_ignored_outline():
    """As in Pascal VOC: nobody labeled the pixels where the boundary is."""
    labels = halves(300, 400, 200)
    labels[:, 198:203] = IGNORED
    assert counts_of(halves(300, 400, 201), labels) == [[0] * 4, [300] * 4, [300] * 4]
    # Beyond the tolerance and outside of the band, a prediction is wrong.
    far = counts_of(halves(300, 400, 210), labels)
    assert far == [[0] * 4, [0, 300, 0, 300], [0, 300, 0, 300]]


def test_predictions_in_ignored_pixels_are_not_wrong():
    labels = np.full([300, 400], 1)
    labels[100:200, 100:300] = IGNORED
    predictions = labels.copy()
    predictions[100:200, 100:300] = 2
    predictions[120:150, 150:250] = 0
    assert counts_of(predictions, labels) == [[0] * 4] * 3
    # A pixel of class 0 among labeled ones is wrong, and so are its four neighbors.
    predictions[50, 50] = 0
    assert counts_of(predictions, labels) == [[0, 1, 0, 0], [0, 4, 0, 0], [0] * 4]


def test_an_image_without_labels():
    labels = np.full([30, 40], IGNORED)
    assert counts_of(halves(30, 40, 20), labels) == [[0] * 4] * 3
