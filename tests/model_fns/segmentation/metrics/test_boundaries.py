"""The boundary F-score, against a search through all pairs of pixels and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_fns.segmentation.metrics import boundaries

shapes = st.tuples(st.integers(1, 8), st.integers(1, 8))
distances = st.sampled_from([0.0, 0.9, 1.0, 1.42, 2.0, 2.24, 3.7, 20.0])


def is_near(pixel, mask, distance):
    points = np.argwhere(mask)
    return bool(len(points)) and np.hypot(*(points - pixel).T).min() <= distance


maps = shapes.flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.int32, shape, elements=st.integers(0, 2)),
        hnp.arrays(np.int32, shape, elements=st.integers(-1, 2)),
    )
)


@settings(max_examples=100, deadline=None)
@given(pair=maps, distance=distances)
def test_matches_equal_a_search(pair, distance):
    edges, others = pair
    expected = [
        edges[pixel] > 0 and is_near(pixel, others == edges[pixel], distance)
        for pixel in np.ndindex(edges.shape)
    ]
    found = boundaries.find_matches(edges, others, distance)
    np.testing.assert_array_equal(found, np.reshape(expected, edges.shape))


@settings(max_examples=100, deadline=None)
@given(pair=maps, distance=distances)
def test_counts_equal_a_search(pair, distance):
    predicted, true = pair
    predicted_pixels = [p for p in np.ndindex(true.shape) if predicted[p] > 0 and true[p] >= 0]
    true_pixels = [p for p in np.ndindex(true.shape) if true[p] > 0]
    right = sum(is_near(p, true == predicted[p], distance) for p in predicted_pixels)
    found = sum(is_near(p, (predicted == true[p]) & (true >= 0), distance) for p in true_pixels)
    counts = boundaries.boundary_counts(predicted[None], true[None], np.array([distance]))
    assert counts.tolist() == [right, len(predicted_pixels), found, len(true_pixels)]


def test_edges_may_be_masks():
    edges, others = np.eye(3, dtype=bool), np.eye(3, k=2, dtype=bool)
    found = boundaries.find_matches(edges, others, 1.5)
    np.testing.assert_array_equal(found, np.diag([False, True, False]))


def test_a_shifted_edge():
    true = np.zeros([2, 6, 6], int)
    true[:, :, 2] = 1
    predicted = np.roll(true, 2, axis=2)
    counts = boundaries.boundary_counts(predicted, true, np.array([1.9, 2.0]))
    assert counts.tolist() == [6, 12, 6, 12]
    assert boundaries.boundary_scores(counts, 'edge') == {
        'edge_precision': 0.5,
        'edge_recall': 0.5,
        'edge_f_score': 0.5,
    }


@pytest.mark.parametrize(
    'counts, scores',
    [
        ([0, 0, 0, 0], {}),
        ([0, 5, 0, 0], {'a_precision': 0.0, 'a_f_score': 0.0}),
        ([0, 0, 0, 5], {'a_recall': 0.0, 'a_f_score': 0.0}),
        ([3, 4, 1, 2], {'a_precision': 0.75, 'a_recall': 0.5, 'a_f_score': 0.6}),
    ],
)
def test_scores(counts, scores):
    found = boundaries.boundary_scores(np.array(counts), 'a')
    assert found == pytest.approx(scores)
    assert set(found) <= set(boundaries.boundary_names('a'))
