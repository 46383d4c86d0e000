import time

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings, strategies

from estimator_lib import errors, tf_estimator
from estimator_lib.data import reading
from estimator_lib.task import Task
from model_fns.datasets import codecs
from model_fns.detection import fields
from model_fns.detection.config_rules.kinds import SINGLE_SHOT
from model_fns.detection.data import augmentation, image_resizers, inputs
from model_fns.detection.data.augmentation.steps import BUILDERS, MIXERS
from protos import augmentation_pb2, input_reader_pb2, pipeline_pb2
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_boxes_cover_their_pixels,
    assert_keypoints_are_corners,
    assert_rows_belong_together,
    build,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)

tf1 = tf.compat.v1

# Refused: examples have no scores of several classes, and a cut would divide objects.
REFUSED = {'convert_class_logits_to_softmax', 'cutmix'}
KINDS = [
    field.name
    for field in augmentation_pb2.PreprocessingStep.DESCRIPTOR.oneofs_by_name[
        'preprocessing_step'
    ].fields
    if field.name not in {*REFUSED, *MIXERS}
]
# What a kind cannot do without.
NEEDED = {
    'normalize_image': 'original_maxval: 255',
    'random_resize_method': 'target_height: 20 target_width: 30',
    'resize_image': 'new_height: 20 new_width: 30',
    'subtract_channel_mean': 'means: [1, 2, 3]',
    'drop_label_probabilistically': 'label: 1',
    'remap_labels': 'original_labels: 1 new_label: 2',
    'random_horizontal_flip': 'keypoint_flip_permutation: [1, 0, 3, 2]',
    'random_vertical_flip': 'keypoint_flip_permutation: [2, 3, 0, 1]',
}
TYPICAL = 'random_horizontal_flip {} + ssd_random_crop {}'
MANY = ' + '.join(
    [
        'random_horizontal_flip { keypoint_flip_permutation: [1, 0, 3, 2] }',
        'ssd_random_crop {}',
        'random_rotation90 { keypoint_rot_permutation: [1, 3, 0, 2] }',
        'random_pad_image { pad_color: [0, 0, 0] }',
        'random_vertical_flip { keypoint_flip_permutation: [2, 3, 0, 1] }',
        'random_crop_to_aspect_ratio {}',
    ]
)


def _text(kind):
    return f'{kind} {{ {NEEDED.get(kind, "")} }}'


def test_every_kind_of_the_schema_is_there():
    members = augmentation_pb2.PreprocessingStep.DESCRIPTOR.oneofs_by_name[
        'preprocessing_step'
    ].fields
    supported = {field.name for field in members if SINGLE_SHOT.is_supported(field)}
    assert supported == {*BUILDERS, *MIXERS}
    assert set(KINDS) == set(BUILDERS)
    assert not set(BUILDERS) & set(MIXERS)


@pytest.mark.parametrize('kind', KINDS)
def test_every_kind_works_without_boxes_and_on_one_pixel(kind):
    kept = painted(1, 1, [[0, 0, 1, 1]])
    for example in (painted(7, 5, []), kept):
        for number in range(3):
            after = run(_text(kind), example, (0, number))
            assert set(after) == set(example)
            counts = {len(after[name]) for name in fields.PER_BOX if name in after}
            assert len(counts) == 1
            assert min(after[fields.IMAGE].shape) >= 1


@pytest.mark.parametrize('kind', KINDS)
def test_the_same_seed_gives_the_same_result(kind):
    example = painted(24, 32, [[2, 3, 20, 30], [5, 5, 9, 9]])
    first, second = (run(_text(kind), example, (5, 7)) for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], name)


def test_steps_of_one_kind_draw_on_their_own():
    # Two flips of one and the same draw would always undo each other.
    example = plain(painted(2, 4, [[0, 0, 2, 1]]))
    flips = 'random_horizontal_flip {} + random_horizontal_flip {}'
    flipped = [run(flips, example, (1, number))[fields.IMAGE][0, 0, 0] == 0 for number in range(60)]
    assert 15 <= sum(flipped) <= 45


@given(example=painted_examples(), seed=seeds())
@settings(max_examples=40, deadline=None)
def test_many_steps_keep_boxes_with_their_pixels(example, seed):
    after = run(MANY, example, seed)
    assert_rows_belong_together(example, after)
    assert_boxes_cover_their_pixels(after)
    assert_keypoints_are_corners(after)


FLIP = 'keypoint_flip_permutation: [0, 3, 2, 1]'
FLIP_VERTICALLY = 'keypoint_flip_permutation: [2, 1, 0, 3]'
TURN = 'keypoint_rot_permutation: [3, 0, 1, 2]'
# Steps that show whole objects, after which a box is still its object's own.
WHOLE = (
    f'random_horizontal_flip {{ {FLIP} }} + random_vertical_flip {{ {FLIP_VERTICALLY} }} + '
    f'random_rotation90 {{ {TURN} }} + random_pad_image {{}} + random_image_scale {{}} + '
    'random_self_concat_image { concat_vertical_probability: 0.5 }'
)
CUT = (
    f'ssd_random_crop_pad {{}} + random_horizontal_flip {{ {FLIP} }} + '
    'random_crop_to_aspect_ratio { overlap_thresh: 0.1 }'
)


def ellipse(height, width, box):
    """Draw an ellipse that fills its box, with keypoints at its top, left, bottom and right."""
    example = painted(height, width, [box])
    top, left, bottom, right = box
    rows, columns = np.mgrid[:height, :width] + 0.5
    middle, center = (top + bottom) / 2, (left + right) / 2
    across, along = (bottom - top) / 2, (right - left) / 2
    inside = ((rows - middle) / across) ** 2 + ((columns - center) / along) ** 2 <= 1.0
    points = [[top, center], [middle, left], [bottom, center], [middle, right]]
    return {
        **example,
        fields.MASKS: inside[np.newaxis].astype(np.uint8),
        fields.KEYPOINTS: np.float32([points]) / np.float32([height, width]),
    }


def around(mask):
    """Compute ymin, xmin, ymax, xmax of a mask, in pixels."""
    rows, columns = np.nonzero(mask)
    return np.array([rows.min(), columns.min(), rows.max() + 1, columns.max() + 1])


@given(
    top=strategies.integers(0, 20),
    left=strategies.integers(0, 20),
    height=strategies.integers(12, 30),
    width=strategies.integers(12, 30),
    seed=seeds(),
)
@pytest.mark.parametrize(('steps', 'is_whole'), [(WHOLE, True), (CUT, False)])
@settings(max_examples=30, deadline=None)
def test_mask_box_and_keypoints_stay_one_shape(steps, is_whole, top, left, height, width, seed):
    before = ellipse(55, 60, [top, left, top + height, left + width])
    after = run(steps, before, seed)
    size = np.array(after[fields.IMAGE].shape[:2])
    scale = max(1.0, size.max() / 60)  # pixels of the original may be larger now
    for row, mask in enumerate(after[fields.MASKS]):
        box = after[fields.BOXES][row] * np.tile(size, 2)
        points = after[fields.KEYPOINTS][row] * size
        if mask.any():
            off = around(mask) - box
            assert (off[:2] >= -1 - scale).all() and (off[2:] <= 1 + scale).all()
            assert not is_whole or np.abs(off).max() <= 1 + scale
        shown = np.isfinite(points).all(axis=1)
        assert shown.all() or not is_whole
        for point in points[shown]:
            places = np.argwhere(mask) + 0.5
            assert not len(places) or np.abs(places - point).max(axis=1).min() <= 2 + 3 * scale
        if is_whole:
            # Top, left, bottom, right are what they are called, turned and mirrored too.
            expected = [box[0], box[1], box[2], box[3]]
            found = [points[0, 0], points[1, 1], points[2, 0], points[3, 1]]
            np.testing.assert_allclose(found, expected, atol=1e-2)


def test_no_steps_change_nothing():
    example = painted(3, 4, [[0, 0, 1, 1]])
    assert augmentation.build_augmentation([])(example, None) is example


def test_an_empty_step_is_refused():
    option = augmentation_pb2.PreprocessingStep()
    with pytest.raises(
        errors.ConfigError, match=r'options\[0\]: empty; expected one of adjust_gam'
    ):
        augmentation.build_augmentation([option])


def test_the_graph_of_the_typical_steps_is_small_and_without_conditionals():
    with tf.Graph().as_default() as graph:
        example = plain(painted(3, 4, [[0, 0, 1, 1]]))
        tensors = {
            name: tf1.placeholder(value.dtype, [None] * (value.ndim - 1) + [value.shape[-1]])
            for name, value in example.items()
        }
        seed = tf1.placeholder(tf.int64, [2])
        before, start = len(graph.get_operations()), time.thread_time()
        after = build(TYPICAL)(tensors, seed)
        seconds = time.thread_time() - start
        added = graph.get_operations()[before:]
    assert len(added) < 160
    assert not {each.type for each in added} & {'If', 'StatelessIf', 'Switch', 'While', 'Case'}
    assert seconds < 2  # of this thread's work, whatever else the machine does: 0.03
    assert after[fields.IMAGE].shape.as_list() == [None, None, 3]
    assert after[fields.IMAGE].dtype == tf.uint8
    assert after[fields.BOXES].shape.as_list() == [None, 4]


def test_records_are_decoded_augmented_and_prepared():
    record = tf.train.Example()
    feature = record.features.feature
    with tf.Graph().as_default(), tf1.Session() as session:
        jpeg = session.run(tf.io.encode_jpeg(np.full([40, 50, 3], 90, np.uint8)))
        feature['image/encoded'].bytes_list.value.append(jpeg)
        for side, value in (('ymin', 0.1), ('xmin', 0.2), ('ymax', 0.9), ('xmax', 0.8)):
            feature[f'image/object/bbox/{side}'].float_list.value.append(value)
        feature['image/object/class/label'].int64_list.value.append(2)
        reader = inputs.Reader(num_classes=3, max_boxes=4)
        augment = build(TYPICAL)

        def example(number):
            decoded = reader.decode(tf.constant(record.SerializeToString()))
            augmented = augment(decoded, tf.stack([tf.constant(3, tf.int64), number]))
            resizer = image_resizers.FixedShapeResizer(30, 20)
            return reader.prepare(augmented, resizer, tf_estimator.ModeKeys.TRAIN)

        dataset = tf.data.Dataset.range(16).map(tf.autograph.experimental.do_not_convert(example))
        batch = tf1.data.make_one_shot_iterator(dataset.batch(16)).get_next()
        features, labels = session.run(batch)
    assert features[fields.IMAGE].shape == (16, 30, 20, 3)
    assert labels[fields.BOXES].shape == (16, 4, 4)
    areas = np.prod(labels[fields.BOXES][:, 0, 2:] - labels[fields.BOXES][:, 0, :2], axis=1)
    assert len(np.unique(areas.round(4))) > 5


class Objects(Task):
    """Detection examples without a model."""

    name = 'objects'

    def __init__(self, steps):
        self._augment = build(steps)
        self._reader = inputs.Reader(num_classes=3, max_boxes=12)

    def decode(self, serialized):
        return self._reader.decode(serialized)

    def mixings(self):
        return self._augment.mixings

    def augment(self, example, seed):
        return self._augment(example, seed)

    def prepare(self, example, mode):
        resizer = image_resizers.FixedShapeResizer(16, 20)
        return self._reader.prepare(example, resizer, mode)


Objects.__abstractmethods__ = frozenset()  # the input side asks for no more


def _record(number):
    """Build a record of an image whose size and box depend on its number."""
    record = tf.train.Example()
    feature = record.features.feature
    image = np.full([8 + number, 20 - number, 3], 20 * number, np.uint8)
    feature['image/encoded'].bytes_list.value.append(codecs.encode_png(image))
    for side, value in (('ymin', 0.1), ('xmin', 0.2), ('ymax', 0.9), ('xmax', 0.8)):
        feature[f'image/object/bbox/{side}'].float_list.value.append(value)
    feature['image/object/class/label'].int64_list.value.append(1 + number % 3)
    return record.SerializeToString()


def test_a_resumed_run_makes_the_same_mosaics_and_blends(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'records')) as writer:
        for number in range(11):
            writer.write(_record(number))
    reader = input_reader_pb2.InputReader(shuffle_buffer_size=5)
    reader.tf_record_input_reader.input_path.append(str(tmp_path / 'records'))
    task = Objects('mosaic {} + random_vertical_flip {} + mixup {} + random_distort_color {}')
    plan = reading.plan_reading(task, reader, tf_estimator.ModeKeys.TRAIN, 4, 7)

    def batches(start, count):
        return list(reading.create_batches(plan, start).take(count).as_numpy_iterator())

    whole = batches(np.zeros([2, 3], np.int64), 7)
    images, labels = whole[0][0][fields.IMAGE], whole[0][1]
    assert images.shape == (4, 16, 20, 3) and len(np.unique(images.round())) > 20
    assert labels[fields.NUM_BOXES].max() >= 6  # of 8 images, of which some show no object
    rest = batches(whole[3][0]['reader']['position'], 3)
    for (features, labels), (same_features, same_labels) in zip(whole[4:], rest):
        for name in (fields.IMAGE, fields.SOURCE_ID):
            np.testing.assert_array_equal(features[name], same_features[name])
        for name in (fields.BOXES, fields.CLASSES, fields.WEIGHTS):
            np.testing.assert_array_equal(labels[name], same_labels[name])


def test_published_configs_build(shared):
    paths = sorted((shared / 'configs').glob('*/*.config'))
    built = 0
    for path in paths:
        config = pipeline_pb2.TrainEvalPipelineConfig()
        text_format.Parse(path.read_text(), config)
        options = config.train_config.data_augmentation_options
        augmentation.build_augmentation(options)
        built += len(options)
    assert built > 50


# Further channels.

OF_COLORS = {
    'adjust_gamma',
    'normalize_image',
    'random_adjust_brightness',
    'random_adjust_contrast',
    'random_adjust_hue',
    'random_adjust_saturation',
    'random_distort_color',
    'random_jpeg_quality',
    'random_pixel_value_scale',
    'random_rgb_to_gray',
    'rgb_to_gray',
    'subtract_channel_mean',
}
OF_BOTH = {'autoaugment_image', 'rand_augment'}
# Each channel gets its own noise.
NOISE = {'random_erasing', 'random_patch_gaussian'}


def run_wide(kind, example, seed=(3, 4)):
    """Apply a step to an image of five channels, the last two of which are the first two."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = {name: tf.constant(value) for name, value in example.items()}
        image = inputs[fields.IMAGE]
        wide = tf.concat([image, image[..., :2]], -1)
        inputs[fields.IMAGE] = tf1.placeholder_with_default(wide, [None, None, 5])
        augment = build(f'{kind} {{ {NEEDED.get(kind, "")} }}')
        return session.run(augment(inputs, tf.constant(seed, tf.int64)))[fields.IMAGE]


@pytest.mark.parametrize('kind', [kind for kind in KINDS if kind not in OF_BOTH])
def test_further_channels_are_moved_and_not_colored(kind):
    example = painted(20, 24, [[2, 3, 12, 15], [6, 8, 18, 20]])
    if 'keypoint' not in NEEDED.get(kind, ''):
        example = plain(example)
    random = np.random.RandomState(0)
    example[fields.IMAGE] = random.randint(0, 200, [20, 24, 3]).astype(np.uint8)
    image = run_wide(kind, example)
    assert image.shape[2] == 5
    if kind in OF_COLORS:
        np.testing.assert_array_equal(image[..., 3:], example[fields.IMAGE][..., :2])
    elif kind not in NOISE:
        np.testing.assert_array_equal(image[..., 3:], image[..., :2])
    if kind not in NOISE:
        colors = run(f'{kind} {{ {NEEDED.get(kind, "")} }}', example, (3, 4))[fields.IMAGE]
        np.testing.assert_allclose(image[..., :3], colors, atol=1e-3)


@pytest.mark.parametrize('kind', sorted(OF_BOTH))
def test_steps_that_mix_colors_and_moves_are_refused(kind):
    example = plain(painted(20, 24, [[2, 3, 12, 15]]))
    expected = f'{kind}: it changes colors and moves pixels, of three channels; the images have 5'
    with pytest.raises(errors.ConfigError, match=expected):
        run_wide(kind, example)


def test_a_color_of_padding_is_followed_by_zeros():
    example = plain(painted(4, 5, [[0, 0, 2, 2]]))
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = {name: tf.constant(value) for name, value in example.items()}
        wide = tf.concat([inputs[fields.IMAGE]] * 2, -1)
        inputs[fields.IMAGE] = tf1.placeholder_with_default(wide, [None, None, 6])
        step = 'max_height_padding: 9 max_width_padding: 9 pad_color: [1, 2, 3]'
        step = f'random_absolute_pad_image {{ {step} }}'
        image = session.run(build(step)(inputs, tf.constant([1, 2], tf.int64))[fields.IMAGE])
    border = (image[..., :3] == [1, 2, 3]).all(axis=-1)
    assert border.sum() == image.shape[0] * image.shape[1] - 20 and not image[border][:, 3:].any()
