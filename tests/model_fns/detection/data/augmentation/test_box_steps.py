import numpy as np
import pytest
from hypothesis import given, settings

from estimator_lib import errors
from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)

MODES = (
    'DEFAULT',
    'EXPAND',
    'SHRINK',
    'EXPAND_SYMMETRIC',
    'SHRINK_SYMMETRIC',
    'EXPAND_SYMMETRIC_XY',
    'SHRINK_SYMMETRIC_XY',
)


@pytest.mark.parametrize('mode', MODES)
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=20, deadline=None)
def test_jitter_is_of_the_kind(mode, example, seed):
    after = run(f'random_jitter_boxes {{ ratio: 0.3 jitter_mode: {mode} }}', example, seed)
    for name in set(example) - {fields.BOXES}:
        np.testing.assert_array_equal(after[name], example[name], name)
    old, new = example[fields.BOXES], after[fields.BOXES]
    assert (new >= 0).all() and (new <= 1).all()
    center, half = (old[:, :2] + old[:, 2:]) / 2, (old[:, 2:] - old[:, :2]) / 2
    # How far each edge is from the old center, in old distances.
    factors = np.abs(new - np.tile(center, 2)) / np.tile(half, 2)
    if mode.startswith('SHRINK'):
        assert (factors >= 0.7 - 1e-4).all() and (factors <= 1 + 1e-4).all()
    elif mode.startswith('EXPAND'):
        assert (factors >= 1 - 1e-4).all() and (factors <= 1.3 + 1e-4).all()
    else:
        assert (factors >= 0.7 - 1e-4).all() and (factors <= 1.3 + 1e-4).all()
    if 'SYMMETRIC' in mode:
        np.testing.assert_allclose(factors[:, :2], factors[:, 2:], atol=2e-4)
    if 'XY' in mode:
        np.testing.assert_allclose(factors[:, 0], factors[:, 1], atol=2e-4)


def test_jitter_is_by_edge_and_box_and_spread_over_the_range():
    example = plain(painted(100, 100, [[40, 40, 60, 60]] * 3))
    news = np.stack(
        [
            run('random_jitter_boxes { ratio: 0.2 }', example, (1, number))[fields.BOXES]
            for number in range(100)
        ]
    )
    moves = (news - example[fields.BOXES]) / 0.1  # of half a side
    assert -0.2 <= moves.min() < -0.18 and 0.18 < moves.max() <= 0.2001
    correlations = np.corrcoef(moves.reshape(100, 12).T) - np.eye(12)
    assert np.abs(correlations).max() < 0.45


@given(example=painted_examples(), seed=seeds())
@settings(max_examples=5, deadline=None)
def test_boxes_in_pixels(example, seed):
    after = run('scale_boxes_to_pixel_coordinates {}', example, seed)
    height, width = example[fields.IMAGE].shape[:2]
    boxes = example[fields.BOXES] * np.float32([height, width, height, width])
    np.testing.assert_allclose(after[fields.BOXES], boxes)
    points = example[fields.KEYPOINTS] * np.float32([height, width])
    np.testing.assert_allclose(after[fields.KEYPOINTS], points)


def test_a_ratio_above_one_is_refused():
    with pytest.raises(errors.ConfigError, match='ratio: 1.5; expected at least 0 and at most 1'):
        run('random_jitter_boxes { ratio: 1.5 }', plain(painted(4, 4, [])))
