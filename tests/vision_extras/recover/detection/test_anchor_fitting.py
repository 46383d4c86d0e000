"""Configs of anchors from the anchors alone."""

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
        [6],
        (128, 128),
    ),
}


@pytest.mark.parametrize('text, grids, counts, size', CASES.values(), ids=CASES)
def test_config_is_found_again(text, grids, counts, size):
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    boxes = anchors.build_anchor_generator(Section(config, 'a')).generate(grids, size)
    found = anchor_fitting.fit(centers(boxes), counts, size)
    assert recovered.flat(recovered.plain(recovered.with_defaults(found))) == recovered.flat(
        recovered.plain(recovered.with_defaults(config))
    )


def test_levels_are_told_by_the_order_of_centers():
    # Two rows of three cells, then one cell.
    first = [[y, x, 0.1, 0.1] for y in (0.25, 0.75) for x in (1 / 6, 0.5, 5 / 6)]
    levels = anchor_fitting.split_levels(np.array([*first, [0.5, 0.5, 0.9, 0.9]]), [1])
    assert [level.grid for level in levels] == [(2, 3), (1, 1)]


def test_anchors_of_no_generator_are_refused():
    random = np.random.RandomState(0)
    assert anchor_fitting.fit(random.uniform(0.2, 0.8, [12, 4]), [3], (64, 64)) is None


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
    order = anchor_fitting.modern_order(old, counts)
    np.testing.assert_array_equal(old[order], boxes)
    assert anchor_fitting.modern_order(boxes, counts) is None
