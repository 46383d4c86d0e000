"""Accuracies of samples of images, beside loops over repeated images."""

import numpy as np
import pytest

from model_fns.classification.analysis import resampling

LABELS = [0, 1, 1, 2, 0, 1]
PREDICTIONS = [0, 1, 2, 2, 1, 1]


@pytest.mark.parametrize('weights', [[1, 1, 1, 1, 1, 1], [2, 0, 1, 0, 0, 3], [0, 0, 6, 0, 0, 0]])
def test_weights_are_numbers_of_copies(weights):
    examples = {'labels': np.array(LABELS), 'predictions': np.array(PREDICTIONS)}
    found = resampling.create_resampler(examples, 4)(np.array(weights))
    pairs = [pair for pair, count in zip(zip(LABELS, PREDICTIONS), weights) for _ in range(count)]
    expected = {'accuracy': sum(label == one for label, one in pairs) / len(pairs)}
    for index in {label for label, _ in pairs}:
        own = [label == one for label, one in pairs if label == index]
        expected[f'accuracy_class_{index}'] = sum(own) / len(own)
    assert found == pytest.approx(expected)
