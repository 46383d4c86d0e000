"""Boundary counts of classes, against a search through all pairs of pixels and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation.analysis import class_boundaries
from tests.model_fns.segmentation.analysis.boundary_search import IGNORED, slow_counts

NUM_CLASSES = 3


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
        assert counts_of(predictions, labels) == slow_counts(
            predictions, labels, pixels, NUM_CLASSES
        )

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
