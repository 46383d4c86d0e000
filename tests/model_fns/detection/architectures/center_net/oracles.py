"""Slow computations of what a CenterNet learns and finds, one cell at a time, in NumPy."""

import math

import numpy as np


def sigma(height, width, overlap):
    """Compute the sigma of a box's Gaussian, without dividing roots by leading coefficients."""
    total, area, over = height + width, height * width, 1 - overlap
    radii = [
        (total + math.sqrt(total**2 - 4 * area * over / (1 + overlap))) / 2,
        (2 * total + math.sqrt(4 * total**2 - 16 * over * area)) / 2,
        (-2 * overlap * total + math.sqrt(4 * overlap**2 * total**2 + 16 * overlap * over * area))
        / 2,
    ]
    return (2 * max(math.floor(min(radii)), 0) + 1) / 6


def gaussian(shape, place, spread):
    """Compute exp(-d^2 / (2 spread^2)) around the cell of a place."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    squared = (rows - math.floor(place[0])) ** 2 + (columns - math.floor(place[1])) ** 2
    return np.exp(-squared / (2 * spread**2))


def focal(logits, targets, weights, alpha=2.0, beta=4.0):
    """Return the sum of the focal loss of a heat map."""
    total = 0.0
    for at in np.ndindex(*logits.shape):
        p = min(max(1 / (1 + math.exp(-logits[at])), 1e-4), 1 - 1e-4)
        y = targets[at]
        if y == 1:
            loss = -((1 - p) ** alpha) * math.log(p)
        else:
            loss = -((1 - y) ** beta) * p**alpha * math.log(1 - p)
        total += loss * weights[at]
    return total


def peaks(scores, window=3):
    """(score, row, column, channel) of the peaks of [height, width, channels], highest first."""
    reach, found = window // 2, []
    for row, column, channel in np.ndindex(*scores.shape):
        around = scores[
            max(row - reach, 0) : row + reach + 1,
            max(column - reach, 0) : column + reach + 1,
            channel,
        ]
        if scores[row, column, channel] >= around.max():
            found.append((scores[row, column, channel], row, column, channel))
    return sorted(found, key=lambda one: -one[0])


def disc(place, radius, shape):
    """List the cells of a grid within a distance of the cell of a place."""
    row, column = (math.floor(one) for one in place)
    return [
        (y, x)
        for y in range(shape[0])
        for x in range(shape[1])
        if (y - row) ** 2 + (x - column) ** 2 <= radius**2
    ]
