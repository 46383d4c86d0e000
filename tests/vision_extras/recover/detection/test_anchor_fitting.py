"""Configs of anchors from the anchors alone."""

import math

import numpy as np
import pytest
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors
from protos import anchors_pb2
from tests.vision_extras.recover import recovered
from vision_extras.recover.detection import anchor_fitting


def centers(corners):
    low, high = corners[:, :2].astype(np.float64), corners[:, 2:].astype(np.float64)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


CASES = {
    'linear': (
        'ssd_anchor_generator { num_layers: 3 min_scale: 0.2 max_scale: 0.95 '
        'aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333] }',
        [(6, 8), (3, 4), (1, 1)],
        [3, 6, 6],
        (96, 128),
    ),
    'uneven scales': (
        'ssd_anchor_generator { num_layers: 3 scales: [0.1, 0.5, 0.6] '
        'aspect_ratios: [1.0, 2.0] reduce_boxes_in_lowest_layer: false }',
        [(5, 5), (3, 3), (2, 2)],
        [3, 3, 3],
        (100, 100),
    ),
    'pyramid': (
        'multiscale_anchor_generator { min_level: 3 max_level: 5 anchor_scale: 4.0 '
        'aspect_ratios: [1.0, 2.0, 0.5] scales_per_octave: 2 }',
        [(16, 16), (8, 8), (4, 4)],
        [6, 6, 6],
        (128, 128),
    ),
}


@pytest.mark.parametrize('text, grids, counts, size', CASES.values(), ids=CASES)
def test_config_is_found_again(text, grids, counts, size):
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    boxes = anchors.build_anchor_generator(Section(config, 'a')).generate(grids, size)
    found = anchor_fitting.fit(centers(boxes), counts, grids, size)
    assert recovered.flat(recovered.plain(recovered.with_defaults(found))) == recovered.flat(
        recovered.plain(recovered.with_defaults(config))
    )


def test_anchors_of_no_generator_are_refused():
    random = np.random.RandomState(0)
    boxes = random.uniform(0.2, 0.8, [12, 4])
    assert anchor_fitting.fit(boxes, [3], [(2, 2)], (64, 64)) is None
    assert anchor_fitting.fit(boxes, [3], [(2, 3)], (64, 64)) is None


def test_order_of_the_oldest_exporter_is_told_by_the_ratios():
    text, grids, counts, size = CASES['linear']
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    boxes = centers(anchors.build_anchor_generator(Section(config, 'a')).generate(grids, size))
    old, start = boxes.copy(), 0
    for (rows, columns), count in zip(grids, counts):
        cells = old[start : start + rows * columns * count].reshape(-1, count, 4)
        if count == 6:
            cells[:] = cells[:, [0, 5, 1, 2, 3, 4]]
        start += rows * columns * count
    order = anchor_fitting.modern_order(old, counts, grids)
    np.testing.assert_array_equal(old[order], boxes)
    assert anchor_fitting.modern_order(boxes, counts, grids) is None


SIZE, GRIDS = (32, 32), [(4, 4), (2, 2)]
QUARTER = math.pi / 2


def rotated_anchors(shapes):
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


def fit_rotated(shapes):
    return anchor_fitting.fit_rotated(rotated_anchors(shapes), [4, 4], GRIDS, SIZE)


def test_angles_vary_fastest():
    root = math.sqrt(2)
    shapes = [(side, 4 * side, angle) for side in (1, root) for angle in (-0.5, 0.25)]
    config = fit_rotated(shapes).multiscale_anchor_generator
    assert (config.anchor_scale, config.scales_per_octave) == (2.0, 2)
    assert (list(config.aspect_ratios), list(config.angles)) == ([4.0], [-0.5, 0.25])


def test_exchanged_sides_are_those_of_an_inverse_ratio():
    shapes = [(1, 4, 0.0), (1, 4, 0.25), (0.5, 8, -QUARTER), (0.5, 8, 0.25 - QUARTER)]
    config = fit_rotated(shapes).multiscale_anchor_generator
    assert (config.anchor_scale, list(config.aspect_ratios)) == (2.0, [4.0, 0.0625])
    assert list(config.angles) == [0.0, 0.25]


def test_angles_that_differ_between_sizes_are_of_no_generator():
    shapes = [(1, 4, 0.0), (1, 4, 0.25), (1, 9, 0.0), (1, 9, 0.5)]
    assert fit_rotated(shapes) is None


def test_angle_at_the_end_of_the_range_keeps_its_sign():
    assert anchor_fitting._plain_angle(QUARTER - 3.7e-6) == -1.5708
    assert anchor_fitting._plain_angle(-0.5236) == -0.5236


CLIPPED_SIZE = (32, 48)


def clipped_anchors():
    """Anchors of levels 3 and 4, by hand: sides 16 and 32, ratios 1 and 4, clipped to the image."""
    boxes = []
    for stride in (8, 16):
        for row in range(CLIPPED_SIZE[0] // stride):
            for column in range(CLIPPED_SIZE[1] // stride):
                y, x = (row + 0.5) * stride, (column + 0.5) * stride
                for height, width in ((2 * stride, 2 * stride), (stride, 4 * stride)):
                    boxes.append([y - height / 2, x - width / 2, y + height / 2, x + width / 2])
    return np.clip(np.array(boxes, np.float32), 0, [*CLIPPED_SIZE, *CLIPPED_SIZE])


def fit_clipped(boxes):
    grids = [(4, 6), (2, 3)]
    return anchor_fitting.fit(centers(boxes), [2, 2], grids, CLIPPED_SIZE, in_pixels=True)


def test_clipped_anchors_are_fitted():
    config = fit_clipped(clipped_anchors())
    anchors = config.multiscale_anchor_generator
    assert (anchors.min_level, anchors.max_level, anchors.scales_per_octave) == (3, 4, 1)
    assert (anchors.anchor_scale, list(anchors.aspect_ratios)) == (2.0, [1.0, 4.0])
    assert not anchors.normalize_coordinates


def test_clipped_anchors_of_no_generator_are_refused():
    boxes = clipped_anchors()
    boxes[5, 0] += 1
    assert fit_clipped(boxes) is None


@pytest.mark.parametrize(
    'size, multiple', [((160, 224), 128), ((580, 812), 32)], ids=['160x224', '580x812']
)
def test_clipped_anchors_in_the_padding_are_fitted(size, multiple):
    text = (
        'multiscale_anchor_generator { min_level: 2 max_level: 6 anchor_scale: 8.0 '
        'aspect_ratios: [0.5, 1.0, 2.0] scales_per_octave: 1 normalize_coordinates: false }'
    )
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    # Grids cover the padding, to which anchors are not clipped: their last ones end at the border.
    padded = [-(-side // multiple) * multiple for side in size]
    grids = [tuple(-(-side // 2**level) for side in padded) for level in range(2, 7)]
    generator = anchors.build_anchor_generator(Section(config, 'a'))
    boxes = np.clip(generator.generate(grids, size), 0, [*size, *size])
    fitted = anchor_fitting.fit(centers(boxes), [3] * 5, grids, size, in_pixels=True)
    assert fitted is not None
    expected = recovered.plain(recovered.with_defaults(config))
    assert recovered.flat(recovered.plain(recovered.with_defaults(fitted))) == recovered.flat(
        expected
    )
