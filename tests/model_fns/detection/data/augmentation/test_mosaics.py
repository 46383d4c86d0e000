import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data.augmentation import mosaics
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    build,
    painted,
    painted_examples,
    plain,
    run_mixing,
    seeds,
)


def groups():
    return st.tuples(*[painted_examples() for _ in range(4)])


def center_of(seed, side):
    """Draw the point where the images meet, as step 0 of an augmentation does."""
    step_seed = randomness.step_seed(tf.constant(seed, tf.int64), 0)
    uniform = tf.stack(randomness.uniforms(step_seed, 3)[1:]).numpy()
    low, high = side // 4, side - side // 4
    return low + np.floor(uniform * np.float32(high - low + 1)).astype(int)


def resized(image, height, width):
    """Interpolate bilinearly, output pixel i at i * (input size / output size), in loops."""
    result = np.zeros([height, width, image.shape[2]])
    for row in range(height):
        for column in range(width):
            y = np.float32(row) * np.float32(image.shape[0] / height)
            x = np.float32(column) * np.float32(image.shape[1] / width)
            top, left = int(y), int(x)
            bottom = min(top + 1, image.shape[0] - 1)
            right = min(left + 1, image.shape[1] - 1)
            upper = image[top, left] * (1 - (x - left)) + image[top, right] * (x - left)
            lower = image[bottom, left] * (1 - (x - left)) + image[bottom, right] * (x - left)
            result[row, column] = upper * (1 - (y - top)) + lower * (y - top)
    return result


def slow_mosaic(group, center, side, min_area_inside):
    """Place the images pixel by pixel; return the canvas, and boxes and areas in pixels."""
    canvas = np.full([side, side, 3], 114.0)
    boxes, areas = [], []
    for index, example in enumerate(group):
        image = example[fields.IMAGE].astype(float)
        height, width = (length * (side // 2) // max(image.shape[:2]) for length in image.shape[:2])
        height, width = max(height, 1), max(width, 1)
        small = resized(image, height, width)
        top = center[0] - (height if index < 2 else 0)
        left = center[1] - (width if index % 2 == 0 else 0)
        for row in range(height):
            for column in range(width):
                if 0 <= top + row < side and 0 <= left + column < side:
                    canvas[top + row, left + column] = small[row, column]
        for box in example[fields.BOXES] * [height, width, height, width]:
            moved = box + [top, left, top, left]
            cut = np.clip(moved, 0, side)
            area, inside = (np.prod(one[2:] - one[:2]) for one in (moved, cut))
            if inside > 0 and inside >= min_area_inside * area:
                boxes.append(cut)
                areas.append(inside / area)
    return canvas, np.reshape(boxes, [-1, 4])


@pytest.mark.parametrize('number', range(6))
def test_mosaic_is_that_of_loops(number):
    group = [
        painted(20, 30, [[2, 3, 18, 20], [0, 0, 5, 5]]),
        painted(31, 17, [[0, 0, 31, 17]]),
        painted(8, 9, []),
        painted(50, 50, [[10, 10, 40, 40], [45, 45, 50, 50]]),
    ]
    noise = np.random.RandomState(number)
    for example in group:
        shape = example[fields.IMAGE].shape
        example[fields.IMAGE] = noise.randint(0, 256, shape).astype(np.uint8)
    seed = [3, number]
    after = run_mixing('mosaic { output_size: 41 min_area_inside: 0.3 }', group, seed)
    canvas, boxes = slow_mosaic(group, center_of(seed, 41), 41, 0.3)
    assert after[fields.IMAGE].dtype == np.uint8
    np.testing.assert_allclose(after[fields.IMAGE], canvas, atol=0.51)
    np.testing.assert_allclose(after[fields.BOXES] * 41, boxes, atol=1e-4)


@given(group=groups(), seed=seeds())
@settings(max_examples=40, deadline=None)
def test_boxes_stay_inside_and_masks_on_their_objects(group, seed):
    after = run_mixing('mosaic { output_size: 64 }', group, seed)
    boxes, masks = after[fields.BOXES], after[fields.MASKS]
    assert after[fields.IMAGE].shape == (64, 64, 3)
    assert masks.shape == (len(boxes), 64, 64)
    assert {len(after[name]) for name in fields.PER_BOX if name in after} == {len(boxes)}
    assert (boxes >= 0).all() and (boxes <= 1).all()
    for box, mask, kind, points, visible in zip(
        boxes * 64,
        masks,
        after[fields.CLASSES],
        after[fields.KEYPOINTS],
        after[fields.KEYPOINT_VISIBILITIES],
    ):
        rows, columns = np.nonzero(mask)
        if rows.size:
            assert box[0] - 1 <= rows.min() and rows.max() + 1 <= box[2] + 1
            assert box[1] - 1 <= columns.min() and columns.max() + 1 <= box[3] + 1
            # Channel i of each image is bright where object i is.
            assert (after[fields.IMAGE][rows, columns, kind] > 0).mean() > 0.7
        shown = points[visible] * 64
        assert (shown >= box[:2] - 1e-2).all() and (shown <= box[2:] + 1e-2).all()


def test_all_values_of_objects_are_joined():
    group = [painted(16, 16, [[0, 0, 16, 16]] * count) for count in (1, 0, 2, 3)]
    for number, example in enumerate(group):
        example[fields.WEIGHTS] += 10 * number
    after = run_mixing('mosaic { min_area_inside: 0 }', group)
    np.testing.assert_array_equal(after[fields.CLASSES], [0, 0, 1, 0, 1, 2])
    np.testing.assert_array_equal(after[fields.WEIGHTS], [1, 21, 22, 31, 32, 33])
    assert after[fields.IMAGE].shape == (16, 16, 3)  # the longer side of the first


def test_a_mosaic_may_not_happen():
    group = [plain(painted(6 + number, 9, [[1, 1, 4, 4]])) for number in range(4)]
    sizes = [
        run_mixing('mosaic { output_size: 30 probability: 0.4 }', group, (5, number))[fields.IMAGE]
        for number in range(40)
    ]
    whole = [image for image in sizes if image.shape == (6, 9, 3)]
    assert all(image.shape == (30, 30, 3) for image in sizes if image.shape != (6, 9, 3))
    assert 12 <= len(whole) <= 35
    np.testing.assert_array_equal(whole[0], group[0][fields.IMAGE])


def test_rotated_boxes_move_with_their_image():
    corners = np.float32([[0.25, 0.5, 0.5, 0.75, 0.75, 0.5, 0.5, 0.25]])
    seed, group = tf.constant([1, 2], tf.int64), []
    for _ in range(4):
        example = {name: tf.constant(value) for name, value in plain(painted(8, 8, [])).items()}
        example = {**example, fields.BOXES: tf.constant(corners)}
        for name in fields.PER_BOX:
            if name in example and name != fields.BOXES:
                example[name] = tf.zeros([1], example[name].dtype)
        group.append(example)
    after = mosaics.mosaic(group, seed, side=32, min_area_inside=0.0)
    center = tf.stack(randomness.uniforms(seed, 3)[1:]).numpy()
    center = 8 + np.floor(center * 17)
    moved = []
    for begin in ([-16, -16], [-16, 0], [0, -16], [0, 0]):
        points = corners.reshape(4, 2) * 16 + center + begin
        if ((points > 0) & (points < 32)).all(-1).any():
            moved.append(points.reshape(8) / 32)
    np.testing.assert_allclose(after[fields.BOXES].numpy(), moved, atol=1e-5)


def test_context_features_are_refused():
    example = {name: tf.constant(value) for name, value in plain(painted(8, 8, [])).items()}
    example[fields.CONTEXT_FEATURES] = tf.zeros([1, 2])
    (mixing,) = build('mosaic {}').mixings
    with pytest.raises(errors.ConfigError, match=r'\[0\]\.mosaic: .*load_context_features: false'):
        mixing.combine([example] * 4, tf.constant([0, 0], tf.int64))


def test_a_canvas_has_room_for_four_images():
    with pytest.raises(errors.ConfigError, match='output_size: 3; expected 0, or at least 4'):
        build('mosaic { output_size: 3 }')


def scaled_center(seed, canvas, low, high):
    """Draw the point and the rectangle of a mosaic that keeps sizes, as step 0 does."""
    step_seed = randomness.step_seed(tf.constant(seed, tf.int64), 0)
    _, y, x, scale = (np.float32(each) for each in randomness.uniforms(step_seed, 4))
    steps = int(low * 256) + int(scale * np.float32((high - low) * 256 + 1))
    fit = np.array(canvas) * steps // 256
    moved = [int(each * np.float32(side + 1)) for each, side in zip((y, x), fit)]
    center = (np.array(canvas) - fit) // 2 + moved
    return np.clip(center, 1, np.array(canvas) - 1), fit


KEEPING = 'mosaic { keep_sizes: true canvas_height: 40 canvas_width: 60 %s }'


@pytest.mark.parametrize('number', range(6))
def test_a_mosaic_that_keeps_sizes(number):
    # Each image has one box, all of it, and a color of its own.
    shapes = [(40, 60), (30, 10), (90, 120), (20, 20)]
    group = [painted(*shape, [[0, 0, *shape]]) for shape in shapes]
    for index, example in enumerate(group):
        example[fields.IMAGE] = np.full([*shapes[index], 3], 40 * index, np.uint8)
    seed = [3, number]
    after = run_mixing(KEEPING % 'min_area_inside: 0', group, seed)
    center, fit = scaled_center(seed, (40, 60), 0.5, 1.5)
    image = np.full([40, 60, 3], 114)
    boxes = []
    for index, (height, width) in enumerate(shapes):
        scale = min(fit[0] / height, fit[1] / width)
        size = np.array([height, width]) * scale
        room = [
            center[0] if index < 2 else 40 - center[0],
            center[1] if index % 2 == 0 else 60 - center[1],
        ]
        shown = np.minimum(size, room)
        low = [
            center[0] - shown[0] if index < 2 else center[0],
            center[1] - shown[1] if index % 2 == 0 else center[1],
        ]
        boxes.append([*low, *(low + shown)])
        top, left, bottom, right = np.round(boxes[-1]).astype(int)
        image[top:bottom, left:right] = 40 * index
    assert after[fields.IMAGE].shape == (40, 60, 3)
    # Sizes are whole pixels.
    np.testing.assert_allclose(after[fields.BOXES] * [40, 60, 40, 60], boxes, atol=1.01)
    assert (after[fields.IMAGE] == image).all(-1).mean() > 0.93


def test_objects_keep_their_size_with_a_scale_of_one():
    group = [painted(40, 60, [[4, 4, 14, 16], [24, 40, 34, 52]]) for _ in range(4)]
    text = KEEPING % 'min_scale: 1 max_scale: 1 min_area_inside: 1'
    for number in range(5):
        boxes = run_mixing(text, group, [1, number])[fields.BOXES] * [40, 60, 40, 60]
        assert len(boxes)
        np.testing.assert_allclose(boxes[:, 2:] - boxes[:, :2], [[10, 12]] * len(boxes), atol=1e-3)


def test_fields_of_the_two_kinds_of_mosaics():
    with pytest.raises(errors.ConfigError, match='output_size: 30; expected 0 with keep_sizes'):
        build('mosaic { keep_sizes: true output_size: 30 }')
    with pytest.raises(errors.ConfigError, match='canvas_width: 3; expected 0, or at least 4'):
        build('mosaic { keep_sizes: true canvas_width: 3 }')
    with pytest.raises(errors.ConfigError, match='min_scale: 2; expected at most 1.5'):
        build('mosaic { keep_sizes: true min_scale: 2 }')
