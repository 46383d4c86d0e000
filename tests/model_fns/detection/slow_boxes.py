"""Overlaps of axis-aligned boxes, one pair at a time."""

from __future__ import annotations


def iou(first, second):
    """Compute the IoU of two boxes [4]; 0 where they share no area."""
    height = min(first[2], second[2]) - max(first[0], second[0])
    width = min(first[3], second[3]) - max(first[1], second[1])
    if height <= 0 or width <= 0:
        return 0.0
    common = height * width
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return common / (sum(areas) - common)
