"""Slow computation of aligned crops, one sample at a time."""

import math

import numpy as np


def _value(image, y, x):
    """Return the value of an image at indices, as ROIAlign of Detectron2 defines it."""
    height, width = image.shape[:2]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(image.shape[2:])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = min(math.floor(y), height - 2), min(math.floor(x), width - 2)
    down, along = y - top, x - left
    (one, two), (three, four) = image[top : top + 2, left : left + 2]
    return (one * (1 - along) + two * along) * (1 - down) + (
        three * (1 - along) + four * along
    ) * down


def align(image, box, size, stride, ratio):
    """Average the samples of each bin of a box in pixels, one by one."""
    ymin, xmin, ymax, xmax = np.float64(box) / stride - 0.5
    bin_height, bin_width = (ymax - ymin) / size, (xmax - xmin) / size
    bins = np.zeros([size, size, *image.shape[2:]])
    for row in range(size):
        for column in range(size):
            for down in range(ratio):
                for along in range(ratio):
                    y = ymin + bin_height * (row + (down + 0.5) / ratio)
                    x = xmin + bin_width * (column + (along + 0.5) / ratio)
                    bins[row, column] += _value(image, y, x) / ratio**2
    return bins
