"""Matchers in loops, one box and one anchor at a time."""

import numpy as np

from tests.model_fns.detection.slow_boxes import iou

ROUNDING = 1e-5


def center(box):
    return (box[:2] + box[2:]) / 2


def is_inside(point, box):
    return bool(np.all(point > box[:2]) and np.all(point < box[2:]))


def cost(box, anchor):
    steps = center(box) - center(anchor)
    sides = ((box[2:] - box[:2]) - (anchor[2:] - anchor[:2])) / 2
    return (not is_inside(center(anchor), box), np.sum(steps**2) + np.sum(sides**2))


def find_positives(box, anchors, counts, most):
    """Return {anchor: IoU} of the anchors that are positive for a box by ATSS."""
    candidates, begin = [], 0
    for count in counts:
        distances = [np.sum((center(anchors[begin + i]) - center(box)) ** 2) for i in range(count)]
        last = sorted(distances)[min(most, count) - 1]
        candidates += [begin + i for i in range(count) if distances[i] <= last * (1 + ROUNDING)]
        begin += count
    overlaps = {index: iou(box, anchors[index]) for index in candidates}
    values = list(overlaps.values())
    least = np.mean(values) + (np.std(values, ddof=1) if len(values) > 1 else 0) - ROUNDING
    return {
        index: overlap
        for index, overlap in overlaps.items()
        if overlap >= least and is_inside(center(anchors[index]), box)
    }


def atss(boxes, anchors, counts, most):
    """Return the row of each anchor, -1 without one.

    Args:
        boxes: [n, 4] in pixels.
        anchors: [A, 4] in pixels.
        counts: number of anchors of each map.
        most: candidates on each map.
    """
    anchors = anchors.astype(float)
    matches, best = [-1] * len(anchors), [-1.0] * len(anchors)
    for row, box in enumerate(boxes):
        for index, overlap in find_positives(box, anchors, counts, most).items():
            if np.float32(overlap) > np.float32(best[index]) + 1e-6:
                matches[index], best[index] = row, overlap
    taken = set()
    while rest := [row for row in range(len(boxes)) if row not in matches]:
        wanted = {}
        for row in rest:
            free = [index for index in range(len(anchors)) if index not in taken]
            nearest = min(free, key=lambda index: (cost(boxes[row], anchors[index]), index))
            wanted.setdefault(nearest, row)
        for index, row in wanted.items():
            matches[index] = row
            taken.add(index)
    return matches
