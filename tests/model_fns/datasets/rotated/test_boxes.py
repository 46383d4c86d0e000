import math
import types

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets.rotated import boxes as rotated

HEADER = types.SimpleNamespace(height=100, width=200)


def test_numbers_of_records():
    features = rotated.box_features([[50, 50, 40, 20, 0.0]], [3], ['ship'], HEADER)
    # Long sides are the width: this one is turned by a quarter.
    expected = [0.5, 0.25, 0.2, 0.2, -math.pi / 2]
    np.testing.assert_allclose([features[key][0] for key in rotated.KEYS], expected, atol=1e-6)
    assert features['image/object/class/text'] == ['ship']
    assert all(len(value) == 0 for value in rotated.box_features([], [], [], HEADER).values())


def test_boxes_of_points():
    box = rotated.smallest_box([10, 10, 30, 10, 30, 20, 10, 20])
    np.testing.assert_allclose(box, [15, 20, 10, 20, 0], atol=1e-9)
    with pytest.raises(errors.DataError, match='crosses itself'):
        rotated.smallest_box([10, 10, 30, 20, 30, 10, 10, 20])
    with pytest.raises(errors.DataError, match='expected a number'):
        rotated.smallest_box([10, math.nan, 30, 20, 30, 10])


@pytest.mark.parametrize(
    'box, problem',
    [
        ([50, 50, 10, 20, 0.3], ''),
        ([50, 50, 0, 20, 0.3], 'has a side of 0'),
        ([50, 50, 10, -2, 0.3], 'has a side of -2'),
        ([50, 50, 10, 20, 30.0], 'beyond 2 pi: degrees'),
        ([150, 50, 10, 20, 0.3], 'its center outside of the image, which has 100 x 200'),
        ([50, math.inf, 10, 20, 0.3], 'has a number that is none'),
    ],
)
def test_boxes_that_cannot_be_meant(box, problem):
    if not problem:
        rotated.check_box(box, HEADER)
        return
    with pytest.raises(errors.DataError, match=problem):
        rotated.check_box(box, HEADER)
