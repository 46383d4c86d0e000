"""Boxes of several levels: which one each is read from, and what becomes of it."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib.config.section import Section
from estimator_lib.registry import Registry
from model_fns import layers
from model_fns.detection import fields
from model_fns.detection.architectures.faster_rcnn import (
    build,
    extractors,
    model,
    pyramid,
    second_stage,
    stages,
    third_stage,
)
from model_fns.detection.boxes import targets
from tests import initial_values, tiny_two_stage
from tests.model_fns import slow_alignment
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1


def slow_level(height, width, image_size, count):
    """Compute the level of a normalized box like the published program."""
    if height * width == 0:
        return 0
    side = math.sqrt(height * width) * math.sqrt(image_size[0] * image_size[1])
    return min(max(math.floor(math.log2(side / 224)) + count - 2, 0), count - 1)


def slow_crop(features, box, size, image_size):
    """Sample a box in pixels bilinearly, including its borders; 0 outside of the map."""
    height, width, channels = features.shape
    crop = np.zeros([size, size, channels])
    (ymin, xmin, ymax, xmax), (image_height, image_width) = box, image_size
    for row in range(size):
        for column in range(size):
            y = (ymin + (ymax - ymin) * row / (size - 1)) / image_height * (height - 1)
            x = (xmin + (xmax - xmin) * column / (size - 1)) / image_width * (width - 1)
            if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                continue
            top, left = min(int(y), height - 2), min(int(x), width - 2)
            down, along = y - top, x - left
            corners = features[top : top + 2, left : left + 2]
            rows = corners[0] * (1 - down) + corners[1] * down
            crop[row, column] = rows[0] * (1 - along) + rows[1] * along
    return crop


def slow_crops(maps, boxes, size, image_size):
    """Crop boxes [B, N, 4] in pixels from their levels, with the largest of each 2x2 samples."""
    crops = []
    for image, of_image in enumerate(boxes):
        for box in of_image:
            height, width = (box[2:] - box[:2]) / image_size
            features = maps[slow_level(height, width, image_size, len(maps))][image]
            crop = slow_crop(features.astype(np.float64), box, size, image_size)
            pooled = crop.reshape([size // 2, 2, size // 2, 2, -1]).max(axis=(1, 3))
            crops.append(pooled)
    return np.array(crops)


class TestLevels:
    @pytest.mark.parametrize('count', [2, 4, 5])
    def test_of_boxes_of_all_sizes(self, count):
        random = np.random.RandomState(count)
        sides = np.exp(random.uniform(0, math.log(1500), [200, 2])).astype(np.float32)
        expected = [slow_level(h / 900, w / 1400, (900, 1400), count) for h, w in sides.tolist()]
        assert set(expected) == set(range(count))
        levels = pyramid.assign_levels(tf.constant(sides.prod(axis=1)), count)
        np.testing.assert_array_equal(levels, expected)

    def test_limits_belong_to_the_coarser_level(self):
        sides = np.array([0, 1, 55.9, 56, 111, 112, 223, 224, 447, 448, 4000], np.float32)
        levels = pyramid.assign_levels(tf.constant(sides * sides), 5)
        np.testing.assert_array_equal(levels, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4])


class TestCrops:
    IMAGE = (512.0, 640.0)
    CROPS = second_stage.Crops(4, 2, 2)

    def inputs(self):
        random = np.random.RandomState(0)
        maps = [
            random.normal(size=[2, *size, 3]).astype(np.float32)
            for size in ((16, 20), (8, 10), (4, 5), (2, 3))
        ]
        # Of each of the four levels, some, on both images and not in order.
        sides = np.array([[30, 300, 60, 130, 500], [250, 100, 470, 111, 0]], np.float32)
        low = random.uniform(0, 10, [2, 5, 2]).astype(np.float32)
        return maps, np.concatenate([low, low + sides[..., np.newaxis]], -1)

    def test_each_box_is_read_from_its_level(self):
        maps, boxes = self.inputs()
        crops = self.CROPS([tf.constant(one) for one in maps], tf.constant(boxes), self.IMAGE)
        expected = slow_crops(maps, boxes, 4, self.IMAGE)
        assert crops.shape == expected.shape == (10, 2, 2, 3)
        np.testing.assert_allclose(crops, expected, rtol=1e-4, atol=1e-4)

    def test_aligned_boxes_have_the_stride_of_their_level(self):
        """Means of maps that hold their own positions in pixels are the centers of bins."""
        strides = (32, 64, 128, 256)
        maps = []
        for index, stride in enumerate(strides):
            sides = [np.arange(1024 // stride) for _ in range(2)]
            places = (np.stack(np.meshgrid(*sides, indexing='ij'), -1) + 0.5) * stride
            level = np.full([*places.shape[:2], 1], index)
            maps.append(tf.constant(np.concatenate([places, level], -1)[np.newaxis], tf.float32))
        # Sides of 60, 120, 300 and 600 pixels, away from the edges.
        boxes = np.float32([[[300, 310, 300 + side, 310 + side] for side in (60, 120, 300, 600)]])
        cropped = second_stage.Crops(2, alignment=second_stage.Alignment(strides))
        ours = cropped(maps, tf.constant(boxes), (1024.0, 1024.0)).numpy()
        near, far = boxes[0, :, :2], boxes[0, :, 2:]
        np.testing.assert_allclose(ours[:, 0, 0, :2], near + (far - near) / 4, rtol=1e-4)
        np.testing.assert_allclose(ours[:, 1, 1, :2], far - (far - near) / 4, rtol=1e-4)
        np.testing.assert_allclose(ours[:, 0, 0, 2], [0, 1, 2, 3], atol=1e-4)

    @pytest.mark.parametrize('levels', [[2, 0, 2], [3, 3, 3], []])
    def test_no_level_is_cropped_without_boxes(self, levels):
        """OpenVINO returns uninitialized memory for those that are."""
        counts = []

        def crop(level, boxes, images):
            counts.append(len(boxes))
            return 100.0 * level + boxes[:, :1] + tf.cast(images, tf.float32)[:, tf.newaxis]

        boxes = tf.reshape(tf.range(1.0, 1.0 + len(levels)), [-1, 1])
        images = 10 * tf.range(len(levels))
        crops = pyramid.crop_by_level(crop, 4, tf.constant(levels, tf.int32), boxes, images)
        expected = [[100.0 * level + 11 * row + 1] for row, level in enumerate(levels)]
        np.testing.assert_array_equal(crops, np.reshape(expected, [-1, 1]))
        assert min(counts) == min(len(levels), 1)

    def test_gradients_reach_the_levels_that_boxes_are_read_from(self):
        maps, boxes = self.inputs()
        maps = [tf.constant(one) for one in maps]
        large = tf.constant(boxes[:1, 1:2])  # 300 pixels: the third level
        with tf.GradientTape() as tape:
            tape.watch(maps)
            total = tf.reduce_sum(self.CROPS(maps, large, self.IMAGE))
        sums = [np.abs(one).sum() for one in tape.gradient(total, maps)]
        assert sums[2] > 0 and sums[:2] == [0, 0] and sums[3] == 0


def test_features_of_boxes_go_through_two_layers_with_batch_norm_between():
    random = np.random.RandomState(1)
    crops = random.normal(size=[6, 2, 2, 3]).astype(np.float32)
    norm = layers.BatchNorm(epsilon=0.001, scale=True)
    style = layers.LayerStyle(activation=tf.nn.relu6, batch_norm=norm)
    made = pyramid.FeaturePyramid(
        build_style=lambda is_training: style.but(is_training=is_training)
    )
    shapes = {
        'fully_connected/weights': [12, 1024],
        'fully_connected/biases': [1024],
        'BatchNorm/gamma': [1024],
        'BatchNorm/beta': [1024],
        'fully_connected_1/weights': [1024, 1024],
        'fully_connected_1/biases': [1024],
    }
    values = {name: random.normal(size=shape) for name, shape in shapes.items()}
    moving = {'BatchNorm/moving_mean': random.normal(size=[1024])}
    moving['BatchNorm/moving_variance'] = random.uniform(0.5, 2, [1024])
    recorded = {f'var/{name}': one for name, one in {**values, **moving}.items()}

    def expected(mean, variance):
        hidden = np.maximum(
            crops.reshape([6, 12]) @ values['fully_connected/weights']
            + values['fully_connected/biases'],
            0,
        )
        mean, variance = mean(hidden), variance(hidden)
        hidden = (hidden - mean) / np.sqrt(variance + 0.001)
        hidden = hidden * values['BatchNorm/gamma'] + values['BatchNorm/beta']
        last = hidden @ values['fully_connected_1/weights'] + values['fully_connected_1/biases']
        return np.maximum(last, 0).reshape([6, 1, 1, 1024])

    def check(statistics, *mode):
        ours = oracles.run(lambda: made.box_features(tf.constant(crops), *mode), recorded)
        np.testing.assert_allclose(ours, expected(*statistics), rtol=1e-3, atol=1e-2)

    own = (lambda _: moving['BatchNorm/moving_mean'], lambda _: moving['BatchNorm/moving_variance'])
    check(own, False, True)
    check(own, True, False)
    check((lambda one: one.mean(axis=0), lambda one: one.var(axis=0)), True, True)


def toy(images, style, stride):
    """Return end points by name, like a ResNet: means of the image at strides of 4 to 32."""
    del style, stride
    strides = {f'resnet_v1_50/block{index}': 2 ** (index + 1) for index in (1, 2, 3, 4)}
    return {
        name: tf.nn.avg_pool2d(images, stride, stride, 'SAME') for name, stride in strides.items()
    }


def config_of(*settings, model=tiny_two_stage.PYRAMID, number=2):
    settings = [f'model.faster_rcnn.{one}' for one in settings]
    text = model.format(stages=number)
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    return config.model.faster_rcnn


def build_toy(config):
    """Build the detector with the cheapest network below its pyramid."""
    kinds = Registry('feature extractor')
    made = extractors.EXTRACTORS.get(config.feature_extractor.type)
    below = extractors.Extractor(made.network, toy, pyramid=made.pyramid)
    kinds.add(config.feature_extractor.type, below)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, 'EXTRACTORS', kinds)
        return build.build_faster_rcnn(Section(config, 'model.faster_rcnn'))


def predict(detector, is_training, batch=2, true_shapes=None):
    random = np.random.RandomState(0)
    images = tf.constant(random.uniform(-1, 1, [batch, 128, 128, 3]), tf.float32)
    groundtruth = targets.Groundtruth(
        boxes=tf.constant(batch * [[[0.1, 0.1, 0.3, 0.25], [0.3, 0.2, 0.9, 1.0]]]),
        classes=tf.one_hot(batch * [[0, 1]], detector.num_classes),
        weights=tf.ones([batch, 2]),
        valid=tf.fill([batch, 2], True),
        masks=tf.ones([batch, 2, 128, 128], tf.uint8),
        # In the middle of the boxes.
        keypoints=tf.constant(
            batch * [3 * [[0.2, 0.18]], 3 * [[0.6, 0.6]]], shape=[batch, 2, 3, 2]
        ),
    )
    groundtruth_of_step = groundtruth if is_training else None
    predictions = detector.predict(images, true_shapes, groundtruth_of_step, is_training)
    return {**predictions, fields.PREPROCESSED: images}, groundtruth


def step(detector):
    """Compute predictions, losses, and sums of gradients by variable, of a step."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        predictions, groundtruth = predict(detector, is_training=True)
        losses = detector.losses(predictions, None, groundtruth)
        variables = tf1.trainable_variables()
        gradients = tf.gradients(tf.add_n(list(losses.values())), variables)
        sums = {
            one.op.name: tf.reduce_sum(tf.abs(gradient))
            for one, gradient in zip(variables, gradients)
        }
        session.run(tf1.global_variables_initializer())
        return session.run((predictions, losses, sums))


# Enough proposals that some hold an object.
MANY = 'first_stage_max_proposals=300', 'second_stage_batch_size=64'


@pytest.fixture(scope='module')
def trained():
    return step(build_toy(config_of(*MANY)))


def test_anchors_and_what_is_said_of_them_are_of_all_levels(trained):
    predictions, losses, _ = trained
    # Levels of 16, 8, 4 and 2 cells a side, two anchors each.
    count = 2 * (16**2 + 8**2 + 4**2 + 2**2)
    assert predictions[fields.RPN_BOX_ENCODINGS].shape == (2, count, 4)
    assert predictions[fields.RPN_OBJECTNESS].shape == (2, count, 2)
    boxes = predictions[fields.ANCHORS]
    # The second cell of the first row: 2 strides high and wide, then half as high as wide.
    np.testing.assert_allclose(boxes[2], [0, 4, 12, 20], atol=1e-4)
    # The last level's first: of 128 x 128 around (32, 32), cut off at the image.
    np.testing.assert_allclose(boxes[count - 2 * 4], [0, 0, 96, 96], atol=1e-4)
    assert all(np.isfinite(one) and one > 0 for one in losses.values()), losses
    assert set(losses) == {*model.REGION_LOSSES, *model.BOX_LOSSES}


def test_the_step_reaches_every_variable(trained):
    sums = trained[2]
    heads = {name for name in sums if name.startswith('FirstStageBoxPredictor_')}
    assert len(heads) == 4 * 2 * 2
    # A level's boxes are learned where it has matches; few of the coarsest anchors are drawn.
    idle = {name for name, one in sums.items() if one == 0}
    assert idle < {name for name in heads if 'BoxEncoding' in name or 'Predictor_3/' in name}, idle


@initial_values.left_out()
def ops(is_training, settings=(), batch=2):
    detector = build_toy(config_of(*settings))
    with tf.Graph().as_default() as graph:
        predictions, groundtruth = predict(detector, is_training, batch)
        if is_training:
            detector.losses(predictions, None, groundtruth)
        else:
            detector.postprocess(predictions, None)
        return len(graph.get_operations())


@pytest.mark.parametrize('is_training', [True, False])
def test_the_graph_depends_on_the_levels_alone(is_training):
    count = ops(is_training)
    others = 'num_classes=5', 'first_stage_max_proposals=20', 'second_stage_batch_size=16'
    assert ops(is_training, others, batch=3) == count


class TestMasks:
    """Masks have crops of their own, as the features of boxes are one cell."""

    @pytest.mark.parametrize('aligned', [True, False])
    def test_those_of_detections_are_predicted_from_crops_of_their_levels(self, aligned):
        config = config_of(model=tiny_two_stage.PYRAMID_MASKS, number=3)
        if not aligned:
            config.ClearField('roi_align')
        detector = build_toy(config)
        seen = {}
        predict_masks, compute_maps = third_stage.MaskHead.predict, stages.Backbone.features

        def seen_by_head(head, features):
            seen['crops'] = features
            return predict_masks(head, features)

        def seen_maps(backbone, *args):
            seen['maps'] = compute_maps(backbone, *args)
            return seen['maps']

        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.set_random_seed(1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(third_stage.MaskHead, 'predict', seen_by_head)
                patch.setattr(stages.Backbone, 'features', seen_maps)
                predictions, _ = predict(detector, is_training=False)
            detections = detector.postprocess(predictions, None)
            session.run(tf1.global_variables_initializer())
            found, rows, seen = session.run((detections, predictions[fields.INSTANCE_ROWS], seen))
        assert found[fields.DETECTION_MASKS].shape == (2, 6, 7, 9)
        boxes = found[fields.DETECTION_BOXES].reshape([-1, 4])[rows] * 128
        assert len(boxes) == found[fields.NUM_DETECTIONS].sum() > 2
        for box, row, crop in zip(boxes, rows, seen['crops']):
            level = slow_level(*(box[2:] - box[:2]) / 128, (128, 128), 4)
            features = seen['maps'][level][row // 6].astype(np.float64)
            expected = (
                slow_alignment.align(features, box, 6, 2 ** (3 + level), 2)
                if aligned
                else slow_crop(features, box, 6, (128, 128))
            )
            np.testing.assert_allclose(crop, expected, rtol=1e-3, atol=1e-3)


class TestKeypoints:
    def detector(self, *settings):
        network = 'feature_extractor.type=faster_rcnn_resnet50_fpn_keras'
        return build_toy(config_of(network, *settings, model=tiny_two_stage.INSTANCES, number=3))

    def test_a_step_learns_them_beside_masks(self):
        predictions, losses, sums = step(self.detector(*MANY))
        rows = predictions[fields.INSTANCE_ROWS]
        assert predictions[fields.KEYPOINT_LOGITS].shape == (len(rows), 3, 24, 24)
        assert 0 < len(rows) < 2 * 64
        assert predictions[fields.MASK_LOGITS].shape == (len(rows), 2, 7, 9)
        assert 0 < losses[stages.MASK_LOSS] < 2 * np.log(2)
        layers_of_masks = {name for name in sums if name.startswith('SecondStageBoxPredictor/Conv')}
        assert len(layers_of_masks) == 4 and all(sums[name] > 0 for name in layers_of_masks)
        # Before anything is learned, it is the logarithm of the number of cells.
        np.testing.assert_allclose(losses[stages.KEYPOINT_LOSS], np.log(24 * 24), rtol=0.1)
        start = 'SecondStageBoxPredictor/KeypointPredictor/'
        own = {name for name in sums if name.startswith(start)}
        assert len(own) == 2 * 3 and all(sums[name] > 0 for name in own)

    def test_those_of_padded_images_are_normalized_like_boxes(self):
        detector = self.detector()
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.set_random_seed(1)
            shapes = tf.constant([[128, 80, 3], [64, 128, 3]])
            predictions, _ = predict(detector, is_training=False, true_shapes=shapes)
            detections = detector.postprocess(predictions, shapes)
            session.run(tf1.global_variables_initializer())
            found = session.run(detections)
        near, far = np.split(found[fields.DETECTION_BOXES][:, :, np.newaxis], 2, axis=-1)
        points = found[fields.DETECTION_KEYPOINTS]
        valid = np.arange(6) < found[fields.NUM_DETECTIONS][:, np.newaxis]
        assert valid.any(axis=1).all() and points[valid].max() > 0.7
        # The centers of cells are within the box by half of one.
        margin = (far - near) / 48 - 1e-5
        assert ((points >= near + margin) & (points <= far - margin))[valid].all()
