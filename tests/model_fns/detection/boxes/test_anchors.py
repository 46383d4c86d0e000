from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors
from protos import anchors_pb2
from tests.model_fns.detection import recorded_detectors


def generator_of(text):
    config = text_format.Parse(text, anchors_pb2.AnchorGenerator())
    return anchors.build_anchor_generator(Section(config, 'here.anchor_generator'))


def centers_and_sizes(boxes):
    boxes = np.asarray(boxes, np.float64)
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


@pytest.mark.parametrize('name', recorded_detectors.CASES)
def test_as_recorded(name):
    case = recorded_detectors.load(name)
    generator = anchors.build_anchor_generator(Section(case.config.anchor_generator))
    grids = [
        tuple(case.arrays[f'infer/fm_{index}__shape'][1:3])
        for index in range(len(generator.anchors_per_location()))
    ]
    preprocessed = case.arrays.get('infer/preprocessed__shape')
    size = case.arrays['infer/preprocessed'].shape if preprocessed is None else preprocessed
    found = generator.generate(grids, tuple(size[1:3]))
    case.check('infer/pred__anchors', found, 1e-6)


def test_ssd_cells_and_strides():
    generator = generator_of(
        """ssd_anchor_generator {
          scales: 0.5 aspect_ratios: 1 interpolated_scale_aspect_ratio: 0
          reduce_boxes_in_lowest_layer: false
        }"""
    )
    assert generator.anchors_per_location() == [1]
    found = generator.generate([(2, 1)], (100, 100))
    # Row by row, half a cell from the border.
    np.testing.assert_allclose(
        centers_and_sizes(found), [[0.25, 0.5, 0.5, 0.5], [0.75, 0.5, 0.5, 0.5]], atol=1e-6
    )
    assert found.dtype == np.float32


def test_ssd_anchors_are_square_in_pixels():
    generator = generator_of(
        """ssd_anchor_generator {
          scales: 0.5 aspect_ratios: 1 interpolated_scale_aspect_ratio: 0
          reduce_boxes_in_lowest_layer: false
        }"""
    )
    found = centers_and_sizes(generator.generate([(1, 1)], (100, 200)))
    np.testing.assert_allclose(found, [[0.5, 0.5, 0.5, 0.25]], atol=1e-6)


def test_ssd_scales_grow_from_the_least_to_the_most():
    generator = generator_of(
        'ssd_anchor_generator { num_layers: 3 min_scale: 0.2 max_scale: 0.8 aspect_ratios: 1 }'
    )
    assert generator.anchors_per_location() == [3, 2, 2]
    found = generator.generate([(1, 1)] * 3, (100, 100))
    sizes = centers_and_sizes(found)[:, 2:]
    root = math.sqrt(2)
    expected = [
        # The first map: three anchors of its own.
        [0.1, 0.1],
        [0.2 / root, 0.2 * root],
        [0.2 * root, 0.2 / root],
        # Then the scale itself, and the mean of it and the next one; 1 follows the last.
        [0.5, 0.5],
        [math.sqrt(0.5 * 0.8)] * 2,
        [0.8, 0.8],
        [math.sqrt(0.8)] * 2,
    ]
    np.testing.assert_allclose(sizes, expected, atol=1e-6)


def test_ssd_ratios_are_width_over_height():
    generator = generator_of(
        """ssd_anchor_generator {
          scales: [0.2, 0.4] aspect_ratios: [4.0, 0.25] interpolated_scale_aspect_ratio: 4
          reduce_boxes_in_lowest_layer: false base_anchor_height: 2 base_anchor_width: 0.5
        }"""
    )
    sizes = centers_and_sizes(generator.generate([(1, 1)] * 2, (10, 10)))[:, 2:]
    between, last = math.sqrt(0.2 * 0.4), math.sqrt(0.4)
    expected = [
        [0.2, 0.2],
        [0.8, 0.05],
        [between, between],
        [0.4, 0.4],
        [1.6, 0.1],
        [last, last],
    ]
    np.testing.assert_allclose(sizes, expected, atol=1e-6)


def test_ssd_strides_and_offsets_in_pixels():
    generator = generator_of(
        """ssd_anchor_generator {
          scales: 0.1 aspect_ratios: 1 interpolated_scale_aspect_ratio: 0
          reduce_boxes_in_lowest_layer: false
          height_stride: 20 width_stride: 50 height_offset: 5 width_offset: 0
        }"""
    )
    found = centers_and_sizes(generator.generate([(2, 2)], (100, 100)))
    np.testing.assert_allclose(
        found[:, :2], [[0.05, 0], [0.05, 0.5], [0.25, 0], [0.25, 0.5]], atol=1e-6
    )


def test_ssd_with_one_layer_has_the_least_scale():
    generator = generator_of(
        """ssd_anchor_generator {
          num_layers: 1 min_scale: 0.3 max_scale: 0.9 aspect_ratios: 1
          interpolated_scale_aspect_ratio: 0 reduce_boxes_in_lowest_layer: false
        }"""
    )
    sizes = centers_and_sizes(generator.generate([(1, 1)], (10, 10)))[:, 2:]
    np.testing.assert_allclose(sizes, [[0.3, 0.3]], atol=1e-6)


def test_multiscale():
    generator = generator_of(
        """multiscale_anchor_generator {
          min_level: 3 max_level: 4 anchor_scale: 2 aspect_ratios: [1.0, 4.0] scales_per_octave: 2
          normalize_coordinates: false
        }"""
    )
    assert generator.anchors_per_location() == [4, 4]
    found = generator.generate([(1, 2), (1, 1)], (8, 16))
    boxes = centers_and_sizes(found)
    root = math.sqrt(2)
    # Strides 8 and 16, so anchors of 16 and 32 pixels; each ratio with each scale.
    sizes = np.array([[16, 16], [16 * root] * 2, [8, 32], [8 * root, 32 * root]])
    np.testing.assert_allclose(boxes[:4, 2:], sizes, rtol=1e-6)
    np.testing.assert_allclose(boxes[8:, 2:], 2 * sizes, rtol=1e-6)
    np.testing.assert_allclose(boxes[:8, :2], [[4, 4]] * 4 + [[4, 12]] * 4)
    # 16 does not divide the height of 8: there cells begin at the border.
    np.testing.assert_allclose(boxes[8:, :2], [[0, 8]] * 4, atol=1e-6)


def test_multiscale_as_shares_of_the_image():
    text = 'multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: 1 %s }'
    shares = generator_of(text % '').generate([(2, 3)], (16, 24))
    pixels = generator_of(text % 'normalize_coordinates: false').generate([(2, 3)], (16, 24))
    np.testing.assert_allclose(shares * [16, 24, 16, 24], pixels, rtol=1e-5)


def test_grid():
    generator = generator_of(
        """grid_anchor_generator {
          height: 10 width: 20 height_stride: 16 width_stride: 8 height_offset: 3 width_offset: 1
          scales: [1.0, 2.0] aspect_ratios: [1.0, 4.0]
        }"""
    )
    assert generator.anchors_per_location() == [4]
    boxes = centers_and_sizes(generator.generate([(2, 1)], (50, 50)))
    np.testing.assert_allclose(boxes[:, :2], [[3, 1]] * 4 + [[19, 1]] * 4, atol=1e-5)
    np.testing.assert_allclose(boxes[:4, 2:], [[10, 20], [20, 40], [5, 40], [10, 80]], rtol=1e-6)


def test_grid_defaults():
    generator = generator_of('grid_anchor_generator { scales: 1 aspect_ratios: 1 }')
    boxes = generator.generate([(1, 2)], (50, 50))
    np.testing.assert_array_equal(boxes, [[-128, -128, 128, 128], [-128, -112, 128, 144]])


def test_flexible_grid():
    generator = generator_of(
        """flexible_grid_anchor_generator {
          anchor_grid {
            base_sizes: [10, 20] aspect_ratios: [1.0, 4.0] height_stride: 8 width_stride: 16
          }
          anchor_grid {
            base_sizes: 40 aspect_ratios: 1 height_stride: 32 width_stride: 32
            height_offset: 16 width_offset: 4
          }
          normalize_coordinates: false
        }"""
    )
    assert generator.anchors_per_location() == [2, 1]
    found = generator.generate([(1, 2), (1, 1)], (32, 64))
    np.testing.assert_allclose(
        centers_and_sizes(found),
        [[0, 0, 10, 10], [0, 0, 10, 40], [0, 16, 10, 10], [0, 16, 10, 40], [16, 4, 40, 40]],
        atol=1e-5,
    )


def test_flexible_grid_as_shares_of_the_image():
    generator = generator_of(
        """flexible_grid_anchor_generator {
          anchor_grid { base_sizes: 10 aspect_ratios: 1 height_stride: 8 width_stride: 8 }
        }"""
    )
    boxes = generator.generate([(1, 1)], (20, 40))
    np.testing.assert_allclose(boxes, [[-0.25, -0.125, 0.25, 0.125]])


def test_as_many_maps_as_levels():
    generator = generator_of('grid_anchor_generator { scales: 1 aspect_ratios: 1 }')
    with pytest.raises(ValueError, match='has 1 levels, and the network 2 feature maps'):
        generator.generate([(1, 1), (1, 1)], (10, 10))


def at_run_time(generator, grids, image_size):
    """Compute anchors for sizes that are tensors, unknown while the graph is built."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sides = tf.compat.v1.placeholder(tf.int32, [len(grids) + 1, 2])
        *grid_tensors, size = (tuple(tf.unstack(one)) for one in tf.unstack(sides))
        made = generator.generate(grid_tensors, size)
        assert made.dtype == tf.float32
        return session.run(made, {sides: [*grids, image_size]})


@pytest.mark.parametrize(
    'text',
    [
        'ssd_anchor_generator { num_layers: 2 aspect_ratios: [1, 3] }',
        """ssd_anchor_generator {
          num_layers: 2 aspect_ratios: 1 base_anchor_height: 0.7
          height_stride: [16, 32] width_stride: [16, 32]
          height_offset: [3, 5] width_offset: [8, 16]
        }""",
        'multiscale_anchor_generator { min_level: 3 max_level: 4 aspect_ratios: [1, 2] }',
        """flexible_grid_anchor_generator {
          anchor_grid {
            base_sizes: [10, 20] aspect_ratios: [1, 2] height_stride: 8 width_stride: 4
          }
          anchor_grid { base_sizes: 40 aspect_ratios: 1 height_stride: 16 width_stride: 16 }
        }""",
    ],
)
def test_sizes_that_are_tensors_give_the_anchors_of_the_same_static_sizes(text):
    generator = generator_of(text)
    static = generator.generate([(7, 12), (4, 6)], (112, 192))
    found = at_run_time(generator, [(7, 12), (4, 6)], (112, 192))
    np.testing.assert_array_equal(found, static)


def test_a_grid_in_pixels_whose_size_is_a_tensor():
    generator = generator_of(
        'grid_anchor_generator { height: 10 width: 20 scales: 1 aspect_ratios: 1 }'
    )
    found = at_run_time(generator, [(1, 2)], (16, 32))
    np.testing.assert_array_equal(found, [[-5, -10, 5, 10], [-5, 6, 5, 26]])


def test_cells_of_a_size_at_run_time_start_half_a_stride_from_the_border():
    """Also where the stride does not divide the size, as published: 0 for a static size."""
    generator = generator_of(
        """multiscale_anchor_generator {
          min_level: 3 max_level: 3 anchor_scale: 1 scales_per_octave: 1 aspect_ratios: 1
          normalize_coordinates: false
        }"""
    )
    assert generator.generate([(1, 1)], (7, 8)).tolist() == [[-4, 0, 4, 8]]
    assert at_run_time(generator, [(1, 1)], (7, 8)).tolist() == [[0, 0, 8, 8]]


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', '^here.anchor_generator: empty; expected one of flexible_grid'),
        (
            'ssd_anchor_generator { height_stride: 8 }',
            'width_stride: 0 values; expected 6, one for each feature map',
        ),
        (
            'ssd_anchor_generator { height_stride: 8 width_stride: 8 }',
            'here.anchor_generator.ssd_anchor_generator.height_stride: 1 values; expected 6',
        ),
        (
            'flexible_grid_anchor_generator { anchor_grid { base_sizes: [1, 2] aspect_ratios: 1 }}',
            'anchor_grid.0.aspect_ratios: 1 values; expected 2, one for each of base_sizes',
        ),
        (
            'ssd_anchor_generator { interpolated_scale_aspect_ratio: 0 }',
            'aspect_ratios: empty; .* there are layers without anchors',
        ),
    ],
)
def test_configs_that_cannot_be(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        generator_of(text)
