"""Rotated anchors, fitted to configs of generators."""

import math

import numpy as np

from vision_extras.recover.detection import rotated_boxes

SIZE = (32, 32)
QUARTER = math.pi / 2


def anchors(shapes):
    """Anchors [A, 5] of levels 3 and 4 in cells of 8 and 16 pixels.

    Args:
        shapes: (height, width, angle) of the anchors of a cell in cells.
    """
    return np.array(
        [
            [(row + 0.5) * stride, (column + 0.5) * stride, stride * height, stride * width, angle]
            for stride in (8, 16)
            for row in range(32 // stride)
            for column in range(32 // stride)
            for height, width, angle in shapes
        ]
    )


def test_angles_vary_fastest():
    root = math.sqrt(2)
    shapes = [(side, 4 * side, angle) for side in (1, root) for angle in (-0.5, 0.25)]
    config = rotated_boxes.fit(anchors(shapes), [4], SIZE).multiscale_anchor_generator
    assert (config.anchor_scale, config.scales_per_octave) == (2.0, 2)
    assert (list(config.aspect_ratios), list(config.angles)) == ([4.0], [-0.5, 0.25])


def test_exchanged_sides_are_those_of_an_inverse_ratio():
    shapes = [(1, 4, 0.0), (1, 4, 0.25), (0.5, 8, -QUARTER), (0.5, 8, 0.25 - QUARTER)]
    config = rotated_boxes.fit(anchors(shapes), [4], SIZE).multiscale_anchor_generator
    assert (config.anchor_scale, list(config.aspect_ratios)) == (2.0, [4.0, 0.0625])
    assert list(config.angles) == [0.0, 0.25]


def test_angles_that_differ_between_sizes_are_of_no_generator():
    shapes = [(1, 4, 0.0), (1, 4, 0.25), (1, 9, 0.0), (1, 9, 0.5)]
    assert rotated_boxes.fit(anchors(shapes), [4], SIZE) is None


def test_angle_at_the_end_of_the_range_keeps_its_sign():
    assert rotated_boxes._plain_angle(QUARTER - 3.7e-6) == -1.5708
    assert rotated_boxes._plain_angle(-0.5236) == -0.5236
