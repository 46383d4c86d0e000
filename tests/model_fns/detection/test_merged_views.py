"""Fused detections of views, against views that are made and run one by one."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, tf_estimator
from estimator_lib.export import exported_model
from model_fns import build_task
from model_fns.detection import fields, merged_views
from protos import pipeline_pb2
from tests import tiny_center_net, tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.classification.test_merged_views import slowly_resized
from tests.model_fns.detection.detections.test_fusion import slowly_fused

pytestmark = pytest.mark.usefixtures('shallow_networks')

ModeKeys = tf_estimator.ModeKeys
tf1 = tf.compat.v1

VIEWS = 'flip_horizontally: true scales: [1.0, 1.5]'
SINGLE_SHOT = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
PADDED = SINGLE_SHOT.replace(
    'fixed_shape_resizer { height: 64 width: 64 }',
    'keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true }',
)
OF_ANY_SIZE = PADDED.replace(' pad_to_max_dimension: true', '')
TWO_STAGES = tiny_two_stage.MODEL.format(stages=2)


def config_of(model, views=VIEWS):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    return text_format.Parse(
        f'{model} eval_config {{ test_time_augmentation {{ {views} }} }}', config
    )


# Gains of weights with which scores differ by more than rounding, and boxes by little.
GAINS = {'BoxEncoding': 0.02, 'box/': 0.02, 'ClassPredictor': 4.0, 'object_center': 0.5}


def load_random_values(session, variables):
    assigned = []
    for variable in variables:
        shape, name = variable.shape.as_list(), variable.name
        if 'weights' in name:
            inputs = 9 if 'depthwise' in name else np.prod(shape[:-1])
            gain = next((gain for part, gain in GAINS.items() if part in name), 2.0)
            random = np.random.RandomState(len(name))
            assigned.append(variable.assign(random.normal(0.0, np.sqrt(gain / inputs), shape)))
        elif 'box/scale/output_0/conv_2/biases' in name:
            assigned.append(variable.assign([4.0, 5.0]))  # sides of boxes in cells
    session.run(assigned)


def batch(height, width):
    """Return two images, the second of which has padding, and their sizes."""
    random = np.random.RandomState(0)
    images = random.uniform(0, 255, [2, height, width, 3]).astype(np.float32)
    sizes = np.array([[height, width, 3], [height - 16, width - 24, 3]], np.int32)
    images[1, sizes[1, 0] :], images[1, :, sizes[1, 1] :] = 0, 0
    return images, sizes


def views_of(images, sizes, height, width):
    """Yield pixels, sizes and whether they are mirrored, of each view of scales 1 and 1.5."""
    for factor in (1, 1.5):
        resized = images
        if factor != 1:
            resized = np.stack(
                [
                    slowly_resized(image, int(height * factor), int(width * factor))
                    for image in images
                ]
            )
        shapes = (sizes * [factor, factor, 1]).astype(np.int32)
        mirrored = resized.copy()
        for image, (_, columns, _) in zip(mirrored, shapes):
            image[:, :columns] = image[:, :columns][:, ::-1]
        yield resized, shapes, False
        yield mirrored, shapes, True


@pytest.mark.parametrize(
    ('model', 'pads'),
    [
        (OF_ANY_SIZE, True),
        (TWO_STAGES, False),
        (tiny_center_net.MODEL, False),
    ],
    ids=['any_size', 'two_stages', 'centers'],
)
def test_detections_are_fused_of_views_that_are_run_one_by_one(model, pads):
    task = build_task(config_of(model))
    images, sizes = batch(64, 64)
    if not pads:
        sizes[1] = sizes[0]
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        tf1.train.create_global_step()
        static = [2, 64, 64, 3] if model is not OF_ANY_SIZE else [None, None, None, 3]
        pixels = tf1.placeholder_with_default(images, static)
        features = {fields.IMAGE: pixels, fields.TRUE_IMAGE_SHAPE: tf.constant(sizes)}
        predictions = task.predict(features, ModeKeys.EVAL)
        variables = tf1.global_variables()
        outputs = task.postprocess(predictions, features)
        # A task of one view, which takes images of any size.
        single = task.as_exported()
        seen = {
            fields.IMAGE: tf1.placeholder(tf.float32, [None, None, None, 3]),
            fields.TRUE_IMAGE_SHAPE: tf1.placeholder(tf.int32, [None, 3]),
        }
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=True):
            one = single.postprocess(single.predict(seen, ModeKeys.PREDICT), seen)
        assert tf1.global_variables() == variables
        session.run(tf1.global_variables_initializer())
        load_random_values(session, variables)
        found = session.run(outputs)
        by_view = []
        for view, shapes, is_mirrored in views_of(images, sizes, 64, 64):
            feed = {seen[fields.IMAGE]: view, seen[fields.TRUE_IMAGE_SHAPE]: shapes}
            values = session.run({name: one[name] for name in found}, feed)
            boxes = values[fields.DETECTION_BOXES]
            if is_mirrored:
                values[fields.DETECTION_BOXES] = np.stack(
                    [boxes[..., 0], 1 - boxes[..., 3], boxes[..., 2], 1 - boxes[..., 1]], -1
                )
            by_view.append(values)
    assert set(found) == set(merged_views._MERGED)
    rows = found[fields.DETECTION_SCORES].shape[1]
    joined = 0
    for image in range(2):
        own = [{name: value[image] for name, value in values.items()} for values in by_view]
        slow = slowly_fused(
            *([values[name] for values in own] for name in merged_views._MERGED), rows
        )
        joined += sum(len(cluster['boxes']) > 1 for cluster in slow)
        assert found[fields.NUM_DETECTIONS][image] == len(slow)
        np.testing.assert_allclose(
            found[fields.DETECTION_SCORES][image, : len(slow)],
            [cluster['score'] for cluster in slow],
            atol=1e-4,
        )
        np.testing.assert_allclose(
            found[fields.DETECTION_BOXES][image, : len(slow)],
            [cluster['fused'] for cluster in slow],
            atol=1e-3,
        )
    assert joined > 0


def test_a_prediction_from_a_checkpoint_is_that_of_the_graph_with_variables(tmp_path):
    config = config_of(SINGLE_SHOT)
    task = build_task(config, 'predict')
    images = batch(80, 100)[0].astype(np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        features = task.serving_features(tf.constant(images))
        outputs = task.postprocess(task.predict(features, ModeKeys.PREDICT), features)
        session.run(tf1.global_variables_initializer())
        load_random_values(session, tf1.global_variables())
        expected = session.run(task.export_outputs(outputs))
        checkpoint = tf1.train.Saver().save(session, str(tmp_path / 'model.ckpt'), 1)
    found = exported_model.CheckpointPredictor(task, config, checkpoint).predict(images)
    assert set(found) == set(merged_views._MERGED)
    assert found[fields.NUM_DETECTIONS].min() > 1
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-3, err_msg=name)


def test_training_and_exports_see_the_image_as_it_is():
    task = build_task(config_of(SINGLE_SHOT))
    for one, mode in ((task, ModeKeys.TRAIN), (task.as_exported(), ModeKeys.PREDICT)):
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            features = {
                fields.IMAGE: tf.zeros([1, 64, 64, 3]),
                fields.TRUE_IMAGE_SHAPE: tf.constant([[64, 64, 3]]),
            }
            predictions = one.predict(features, mode)
            assert not [name for name in predictions if name.startswith('views')]
            assert fields.RAW_DETECTION_BOXES in one.postprocess(predictions, features)


@pytest.mark.parametrize(
    ('size', 'scale', 'expected'),
    [
        ((300, 300), 0.8, (240, 240)),
        ((512, 512), 0.8, (384, 384)),  # a pyramid of stride 128 halves it exactly
        ((640, 1024), 1.2, (768, 1280)),
        ((64, 64), 0.5, (32, 32)),
        ((600, 1001), 0.8, (480, 801)),
        ((64, 64), 0.01, (16, 16)),
    ],
)
def test_sizes_of_views(size, scale, expected):
    assert merged_views._scaled(*size, scale) == expected
    found = merged_views._scaled(*(tf.constant(side) for side in size), scale)
    assert tuple(int(side) for side in found) == expected


@pytest.mark.parametrize(
    ('model', 'views', 'said'),
    [
        (
            tiny_rotated.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS),
            VIEWS,
            'model.ssd has rotated boxes; only axis-aligned boxes are',
        ),
        (
            tiny_two_stage.MASKS.format(stages=3),
            VIEWS,
            'model.faster_rcnn has detection_masks',
        ),
    ],
    ids=['rotated', 'masks'],
)
def test_what_is_not_fused_is_refused(model, views, said):
    with pytest.raises(errors.ConfigError) as caught:
        build_task(config_of(model, views))
    assert said in str(caught.value)
