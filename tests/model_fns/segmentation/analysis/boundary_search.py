"""Boundaries of classes by a search through all pairs of pixels: slow, and independent."""

import numpy as np

IGNORED = 255
NEIGHBORS = ((-1, 0), (0, -1), (0, 1), (1, 0))


def around(pixel, shape):
    for step in NEIGHBORS:
        neighbor = (pixel[0] + step[0], pixel[1] + step[1])
        if 0 <= neighbor[0] < shape[0] and 0 <= neighbor[1] < shape[1]:
            yield neighbor


def slow_grown(labels, steps):
    """Classes by pixel, where each step gives ignored pixels the class of a neighbor before it."""
    classes = {p: labels[p] for p in np.ndindex(labels.shape) if labels[p] != IGNORED}
    for _ in range(steps):
        before = dict(classes)
        for pixel in np.ndindex(labels.shape):
            known = [before[near] for near in around(pixel, labels.shape) if near in before]
            if pixel not in before and known:
                classes[pixel] = known[0]
    return classes


def slow_edges(classes, shape):
    """Class by boundary pixel."""
    return {
        pixel: classes[pixel]
        for pixel in classes
        if any(classes.get(near, classes[pixel]) != classes[pixel] for near in around(pixel, shape))
    }


def slow_matches(edges, others, tolerance):
    return {
        pixel
        for pixel, index in edges.items()
        if any(
            np.hypot(pixel[0] - other[0], pixel[1] - other[1]) <= tolerance
            for other, other_index in others.items()
            if other_index == index
        )
    }


def slow_counts(predictions, labels, tolerance, num_classes):
    """Right, predicted, found and true boundary pixels of each class: a list of four for each."""
    true = slow_edges(slow_grown(labels, int(tolerance)), labels.shape)
    predicted = slow_edges(dict(np.ndenumerate(predictions)), labels.shape)
    right = slow_matches(predicted, true, tolerance)
    found = slow_matches(true, predicted, tolerance)
    counted = {
        pixel
        for pixel in predicted
        if pixel in right
        or all(labels[near] != IGNORED for near in (pixel, *around(pixel, labels.shape)))
    }
    return [
        [
            sum(predicted[pixel] == index for pixel in right),
            sum(predicted[pixel] == index for pixel in counted),
            sum(true[pixel] == index for pixel in found),
            sum(value == index for value in true.values()),
        ]
        for index in range(num_classes)
    ]
