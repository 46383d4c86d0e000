"""Scores of samples of images, beside loops over the pixels of repeated images."""

import numpy as np
import pytest

from model_fns.segmentation.analysis import resampling
from model_fns.segmentation.metrics.metrics import Metrics

CLASSES = 3


def images():
    """(labels, predictions) of the pixels of four images; only the first has class 2."""
    random = np.random.default_rng(0)
    for index in range(4):
        most = CLASSES if index == 0 else 2
        yield random.integers(most, size=30).tolist(), random.integers(2, size=30).tolist()


def slow_scores(pairs):
    ious = {}
    for index in range(CLASSES):
        both = sum(label == index and one == index for label, one in pairs)
        either = sum(label == index or one == index for label, one in pairs)
        if either:
            ious[index] = both / either
    labeled = {label for label, _ in pairs}
    recalls = [
        np.mean([one == index for label, one in pairs if label == index]) for index in labeled
    ]
    return {
        'miou_1.0_overall': np.mean(list(ious.values())),
        'pixel_accuracy': np.mean([label == one for label, one in pairs]),
        'mean_accuracy': np.mean(recalls),
        **{f'miou_1.0_class_{index}': value for index, value in ious.items()},
    }


@pytest.mark.parametrize('weights', [[1, 1, 1, 1], [3, 0, 1, 0], [0, 2, 2, 0]])
def test_weights_are_numbers_of_copies(weights):
    counts = resampling.ClassCounts()
    for labels, predictions in images():
        matrix = np.zeros([CLASSES, CLASSES], np.int64)
        np.add.at(matrix, (labels, predictions), 1)
        counts.add(matrix)
    resampler = resampling.create_resampler(counts.arrays(), Metrics(CLASSES, 255))
    pairs = [
        pair
        for (labels, predictions), count in zip(images(), weights)
        for _ in range(count)
        for pair in zip(labels, predictions)
    ]
    assert resampler(np.array(weights)) == pytest.approx(slow_scores(pairs))


def test_a_class_takes_a_row_only_where_it_is():
    counts = resampling.ClassCounts()
    counts.add(np.array([[5, 0, 0], [0, 0, 0], [0, 0, 0]]))
    counts.add(np.array([[0, 0, 0], [0, 2, 1], [0, 0, 0]]))
    found = {name: values.tolist() for name, values in counts.arrays().items()}
    assert found == {
        'images': [0, 1, 1],
        'classes': [0, 1, 2],
        'right': [5, 2, 0],
        'labeled': [5, 3, 0],
        'predicted': [5, 2, 1],
    }
