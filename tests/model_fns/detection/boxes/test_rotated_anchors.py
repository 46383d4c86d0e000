import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection.boxes import rotated, rotated_anchors
from protos import anchors_pb2

QUARTER = math.pi / 2


def generator_of(text):
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    return rotated_anchors.build_anchor_generator(Section(config, 'here'))


GRID = """grid_anchor_generator {
  height: 64 width: 64 height_stride: 32 width_stride: 32 scales: [0.5, 1] aspect_ratios: [4, 0.25]
  angles: [-0.5, 0, 0.5]
}"""


def test_by_hand():
    generator = generator_of(GRID)
    assert generator.anchors_per_location() == [12] and generator.in_pixels
    boxes = generator.generate([(1, 2)], (64, 64))
    assert boxes.shape == (24, 5) and boxes.dtype == np.float32
    # Cells, then ratios, then scales, then angles.
    expected = [[0, 0, 16, 64, angle] for angle in (-0.5, 0, 0.5)]
    np.testing.assert_allclose(boxes[:3], expected, atol=1e-6)
    np.testing.assert_allclose(boxes[12:15, 1], [32] * 3)
    # A high anchor is a wide one, a quarter turn on.
    expected = [[0, 0, 32, 128, angle] for angle in (QUARTER - 0.5, -QUARTER, 0.5 - QUARTER)]
    np.testing.assert_allclose(boxes[9:12], expected, atol=1e-5)


def test_normalized_ones_become_pixels():
    text = 'multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: 2 %s }'
    sizes = [(4, 8)], (32, 64)
    in_pixels = generator_of(text % 'normalize_coordinates: false').generate(*sizes)
    normalized = generator_of(text % 'normalize_coordinates: true').generate(*sizes)
    np.testing.assert_allclose(normalized, in_pixels, atol=1e-4)
    np.testing.assert_allclose(in_pixels[0, :2], [4, 4], atol=1e-5)
    assert in_pixels[0, 4] == 0


@pytest.mark.parametrize(
    'text',
    [
        GRID,
        """ssd_anchor_generator {
          num_layers: 1 min_scale: 0.3 aspect_ratios: [3, 0.5] angles: [0, 1]
          reduce_boxes_in_lowest_layer: false
        }""",
    ],
)
def test_of_sizes_at_run_time(text):
    generator = generator_of(text)
    expected = generator.generate([(3, 4)], (48, 64))

    @tf.function
    def in_graph(grid, size):
        return generator.generate([tuple(tf.unstack(grid))], tuple(tf.unstack(size)))

    found = in_graph(tf.constant([3, 4]), tf.constant([48, 64]))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(rotated.le90(tf.constant(expected)), expected, atol=1e-4)


def test_enclosing_boxes_by_hand():
    boxes = [[10.0, 20, 4, 8, 0], [10, 20, 4, 8, QUARTER], [10, 20, 6, 8, -math.atan2(3, 4)]]
    # The last by its sides 6 and 8, of which the parts along y and x are 4.8, 3.6 and 4.8, 6.4.
    expected = [[8, 16, 12, 24], [6, 18, 14, 22], [5.2, 15, 14.8, 25]]
    generator = generator_of(GRID)
    np.testing.assert_allclose(generator.enclosing_boxes(np.array(boxes)), expected, atol=1e-9)
    np.testing.assert_allclose(generator.enclosing_boxes(tf.constant(boxes)), expected, atol=1e-4)
