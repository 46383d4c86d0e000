"""Layers in NumPy, written as their definitions: what small networks are checked against."""

from __future__ import annotations

import numpy as np


def conv2d(image: np.ndarray, weights: np.ndarray, stride: int = 1) -> np.ndarray:
    """Convolution with (kernel - 1) / 2 zeros on each side.

    Args:
        image: [batch, height, width, channels].
        weights: [kernel, kernel, channels, outputs], of odd kernel.
        stride: in both directions.
    """
    margin = (weights.shape[0] - 1) // 2
    padded = np.pad(image, [(0, 0), (margin, margin), (margin, margin), (0, 0)])
    return _windows(padded, weights.shape[0], stride, lambda w: np.tensordot(w, weights, 3))


def max_pool(image: np.ndarray, size: int) -> np.ndarray:
    """Maximum over windows side by side, without a margin."""
    return _windows(image, size, size, lambda window: window.max((1, 2)))


def batch_norm(image: np.ndarray, values: dict, scope: str, epsilon: float) -> np.ndarray:
    """Normalization by moving statistics, from a dict of variables by name."""
    part = {leaf: values[f'{scope}/{leaf}'] for leaf in _BATCH_NORM}
    normal = (image - part['moving_mean']) / np.sqrt(part['moving_variance'] + epsilon)
    return normal * part['gamma'] + part['beta']


def relu(image: np.ndarray) -> np.ndarray:
    """The positive part."""
    return np.maximum(image, 0)


_BATCH_NORM = ('gamma', 'beta', 'moving_mean', 'moving_variance')


def _windows(image, size, stride, function):
    rows, columns = ((extent - size) // stride + 1 for extent in image.shape[1:3])
    return np.stack(
        [
            np.stack(
                [
                    function(image[:, y : y + size, x : x + size])
                    for x in range(0, columns * stride, stride)
                ],
                axis=1,
            )
            for y in range(0, rows * stride, stride)
        ],
        axis=1,
    )
