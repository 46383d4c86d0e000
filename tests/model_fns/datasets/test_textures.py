import numpy as np
import pytest

from model_fns.datasets import textures


def test_noise_is_interpolated_between_the_points_of_a_grid():
    grid = np.random.default_rng(3).random((3, 3), np.float32)
    noise = textures.smooth_noise(np.random.default_rng(3), 8, 2)
    assert noise.shape == (8, 8)
    # Pixel 3 of 8 has its center at 0.875 of a grid of 2 cells.
    weights = np.array([0.125, 0.875])
    assert noise[3, 3] == pytest.approx(weights @ grid[:2, :2] @ weights, rel=1e-5)
    # Pixel 5 is at 1.375.
    assert noise[5, 3] == pytest.approx(np.array([0.625, 0.375]) @ grid[1:, :2] @ weights, rel=1e-5)


@pytest.mark.parametrize('seed', range(12))
def test_colors_are_between_the_two(seed):
    low, high = np.array([10.0, 200, 30]), np.array([60.0, 100, 30])
    found = textures.texture(np.random.default_rng(seed), 32, low, high)
    assert found.shape == (32, 32, 3) and found.dtype == np.float32
    assert (found >= np.minimum(low, high) - 1e-3).all()
    assert (found <= np.maximum(low, high) + 1e-3).all()
    # One pattern: all channels tell the same place between the colors.
    np.testing.assert_allclose((found[..., 0] - 10) / 50, (200 - found[..., 1]) / 100, atol=1e-4)
    assert np.ptp(found[..., 0]) > 10


def test_patterns_are_of_all_kinds():
    found = {
        textures.texture(np.random.default_rng(seed), 8, np.zeros(3), np.ones(3)).tobytes()
        for seed in range(20)
    }
    assert len(found) == 20
