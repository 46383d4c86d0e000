"""Textures of the demo set: colors that vary over a square of pixels."""

from __future__ import annotations

import functools
import math
from typing import Callable, Tuple

import numpy as np

Random = np.random.Generator


def texture(random: Random, size: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return a random pattern of a random kind between two colors.

    Args:
        random: random number generator.
        size: height and width in pixels.
        low: float [3], the color at one end of the pattern, 0 to 255.
        high: float [3], the color at its other end.

    Returns:
        float32 [size, size, 3].
    """
    pattern = _PATTERNS[random.integers(len(_PATTERNS))](random, size)
    low, high = np.float32(low), np.float32(high)
    return low + pattern[:, :, None] * (high - low)


def smooth_noise(random: Random, size: int, cells: int) -> np.ndarray:
    """Return random values on a coarse grid, interpolated linearly.

    Args:
        random: random number generator.
        size: height and width in pixels.
        cells: of the grid along each side; few make large blots.

    Returns:
        float32 [size, size] from 0 to 1.
    """
    interpolation = _interpolation(size, cells)
    grid = random.random((cells + 1, cells + 1), np.float32)
    return interpolation @ grid @ interpolation.T


@functools.cache
def _interpolation(size: int, cells: int) -> np.ndarray:
    """Return the linear weights of grid points at pixel centers: float32 [size, cells + 1]."""
    position = (np.arange(size) + 0.5) / size * cells
    distance = np.abs(position[:, None] - np.arange(cells + 1)[None, :])
    return np.maximum(1 - distance, 0).astype(np.float32)


def _clouds(random: Random, size: int) -> np.ndarray:
    """Return noise at three scales; the finer the scale, the weaker the noise."""
    coarse = int(random.integers(2, 6))
    octaves = [smooth_noise(random, size, coarse * 2**k) * 0.5**k for k in range(3)]
    return sum(octaves) / 1.75


def _coordinate(random: Random, size: int) -> np.ndarray:
    """Return distances along a random direction, 1 per image side: float32 [size, size]."""
    angle = random.random() * 2 * math.pi
    along = np.linspace(0, 1, size, dtype=np.float32)
    return along[None, :] * np.float32(math.cos(angle)) + along[:, None] * np.float32(
        math.sin(angle)
    )


def _stripes(random: Random, size: int) -> np.ndarray:
    waves = 3 + 9 * random.random()
    phase = random.random()
    distance = _coordinate(random, size) * waves + phase
    # A triangle wave, made steeper: flat stripes with soft edges.
    return np.clip((np.abs(distance % 1 - 0.5) - 0.25) * 5 + 0.5, 0, 1)


def _checks(random: Random, size: int) -> np.ndarray:
    one, other = _stripes(random, size), _stripes(random, size)
    return one + other - 2 * one * other


def _gradient(random: Random, size: int) -> np.ndarray:
    distance = _coordinate(random, size)
    low, high = distance.min(), distance.max()
    return (distance - low) / (high - low)


_PATTERNS: Tuple[Callable[[Random, int], np.ndarray], ...] = (
    _clouds,
    _stripes,
    _checks,
    _gradient,
)
