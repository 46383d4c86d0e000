"""The whole training and inference graph of a detector: its size, and its padded inputs."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, tf_estimator
from estimator_lib.task import Shown
from model_fns import build_task
from model_fns.detection import fields
from protos import pipeline_pb2
from tests import tiny_detection, tiny_two_stage
from tests.model_fns.detection.records import png, record

pytestmark = pytest.mark.usefixtures('no_initial_values', 'shallow_networks')

ModeKeys = tf_estimator.ModeKeys


def build(**changes):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS), config)
    for name, value in changes.items():
        setattr(config.model.ssd, name, value)
    return config


def batch_of(size, classes, boxes, height=64, width=64):
    features = {
        fields.IMAGE: tf.zeros([size, height, width, 3]),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[height, width, 3]] * size),
    }
    labels = {
        fields.BOXES: tf.tile(tf.constant([[[0.2, 0.2, 0.6, 0.6]]]), [size, boxes, 1]),
        fields.CLASSES: tf.one_hot(tf.zeros([size, boxes], tf.int32), classes),
        fields.WEIGHTS: tf.ones([size, boxes]),
        fields.NUM_BOXES: tf.fill([size], 1),
    }
    return features, labels


def test_the_graph_does_not_grow_with_batch_classes_or_boxes():
    def nodes(size, classes, boxes):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.train.create_global_step()
            features, labels = batch_of(size, classes, boxes)
            before = len(graph.get_operations())
            task = build_task(build(num_classes=classes))
            predictions = task.predict(features, ModeKeys.TRAIN)
            losses = task.losses(predictions, features, labels)
            tf.gradients(sum(losses.values()), tf.compat.v1.trainable_variables())
            task.export_outputs(task.postprocess(predictions, features))
            return len(graph.get_operations()) - before

    assert nodes(2, 20, 10) == nodes(8, 90, 100)


def test_layers_with_statistics_of_all_replicas_are_told():
    config = build()
    assert build_task(config).across_replicas() == ()
    config.model.ssd.feature_extractor.conv_hyperparams.sync_batch_norm.decay = 0.9
    assert build_task(config).across_replicas() == (
        'model.ssd.feature_extractor.conv_hyperparams.sync_batch_norm',
    )


@pytest.mark.usefixtures('initial_values')
def test_padding_holds_what_the_published_order_gives():
    """Published: images are normalized, then padded with zeros."""
    config = build()
    resizer = config.model.ssd.image_resizer.keep_aspect_ratio_resizer
    resizer.min_dimension = resizer.max_dimension = 64
    resizer.pad_to_max_dimension = True
    task = build_task(config)
    image = np.full([1, 32, 64, 3], 255, np.uint8)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.create_global_step()
        features = task.serving_features(tf.constant(image))
        predictions = task.predict(features, ModeKeys.PREDICT)
        outputs = task.postprocess(predictions, features)
        session.run(tf.compat.v1.global_variables_initializer())
        preprocessed, true_shape, boxes = session.run(
            [
                predictions[fields.PREPROCESSED],
                features[fields.TRUE_IMAGE_SHAPE],
                outputs[fields.DETECTION_BOXES],
            ]
        )
    np.testing.assert_array_equal(true_shape, [[32, 64, 3]])
    np.testing.assert_allclose(preprocessed[0, :32], 1.0)
    np.testing.assert_array_equal(preprocessed[0, 32:], 0.0)
    # Boxes are normalized to the image, not to the padded input.
    assert boxes.min() >= 0.0 and boxes.max() <= 1.0 + 1e-6


@pytest.fixture(scope='module')
def training():
    """Build the task of a training, and return it with the variables of its model."""
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        task = build_task(build())
        features, _ = batch_of(1, 2, 3)
        task.predict(features, ModeKeys.TRAIN)
        return task, tf.compat.v1.get_collection('model_variables')


@pytest.mark.parametrize('kind', ['detection', 'fine_tune', 'full', 'classification', ''])
def test_which_variables_a_checkpoint_gives(training, kind):
    task, variables = training
    names = set(task.checkpoints.restore_map(variables, kind))
    # A network of TensorFlow 1 has none that are object-based.
    with pytest.raises(errors.ConfigError, match='is a network of TensorFlow 1'):
        task.checkpoints.object_paths(variables, kind)
    outer = '' if kind in ('classification', '') else 'FeatureExtractor/'
    assert f'{outer}MobilenetV1/Conv2d_0/weights' in names
    assert any('Predictor' in name for name in names) == (kind == 'full')


def test_groundtruth_as_a_detector_gets_it(monkeypatch):
    """Numbers are normalized to the padded input, masks have its size already."""
    config = build()
    resizer = config.model.ssd.image_resizer.keep_aspect_ratio_resizer
    resizer.min_dimension = resizer.max_dimension = 64
    resizer.pad_to_max_dimension = True
    task = build_task(config)
    monkeypatch.setattr(task._model, 'losses', lambda predictions, shapes, groundtruth: groundtruth)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features, labels = batch_of(1, 2, 3)
        features[fields.TRUE_IMAGE_SHAPE] = tf.constant([[32, 64, 3]])
        plain = task.losses({}, features, labels)
        labels[fields.MASKS] = tf.ones([1, 1, 64, 64], tf.uint8)
        labels[fields.MASK_WEIGHTS] = tf.constant([[0.5, 0, 0]])
        labels[fields.KEYPOINTS] = tf.constant([[[[0.5, 0.75]]] * 3])
        labels[fields.KEYPOINT_VISIBILITIES] = tf.constant([[[True]] * 3])
        given = task.losses({}, features, labels).trimmed()
        found = session.run({name: one for name, one in vars(given).items() if one is not None})
    assert plain.masks is None and plain.mask_weights is None
    assert plain.keypoints is None and plain.keypoint_visibilities is None
    np.testing.assert_allclose(found['boxes'], [[[0.1, 0.2, 0.3, 0.6]]])
    np.testing.assert_allclose(found['keypoints'], [[[[0.25, 0.75]]]])
    assert found['keypoint_visibilities'].tolist() == [[[True]]]
    assert found['mask_weights'].tolist() == [[0.5]]
    assert found['masks'].shape == (1, 1, 64, 64) and found['masks'].dtype == np.uint8


@pytest.mark.parametrize('coverage, expected', [(0.0, None), (0.5, 0.5)])
def test_the_coverage_of_ignored_boxes_reaches_the_detector(monkeypatch, coverage, expected):
    config = build()
    config.train_config.ignored_coverage = coverage
    task = build_task(config)
    monkeypatch.setattr(task._model, 'losses', lambda predictions, shapes, groundtruth: groundtruth)
    with tf.Graph().as_default():
        assert task.losses({}, *batch_of(1, 2, 3)).ignored_coverage == expected


def test_classes_of_a_record():
    task = build_task(build())
    boxes = [[0.1, 0.1, 0.5, 0.5]] * 3
    assert sorted(task.checks.list_classes(record(boxes, [2, 1, 2], encoded=png(8, 8)))) == [
        1,
        2,
        2,
    ]


def test_examples_with_masks_differ_in_how_many():
    config = build()
    assert not build_task(config).pads_batches()
    config.train_input_reader.load_instance_masks = True
    assert build_task(config).pads_batches()


def test_what_is_remembered_of_other_images_is_a_side_input():
    text = tiny_two_stage.CONTEXT.format(stages=2)
    task = build_task(text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()))
    example = tf.train.Example.FromString(record())
    numbers = example.features.feature['image/context_features'].float_list.value
    numbers.extend(range(10))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features, received = task.serving_side_inputs(tf.constant(2), None)
        left_out = session.run(features)
        sent = tf.constant([example.SerializeToString()])
        from_examples, none = task.serving_side_inputs(tf.constant(1), sent)
        found = session.run(from_examples)
    assert set(received) == {fields.CONTEXT_FEATURES, fields.NUM_CONTEXT_FEATURES} and not none
    assert left_out[fields.NUM_CONTEXT_FEATURES].tolist() == [0, 0]
    assert found[fields.NUM_CONTEXT_FEATURES].tolist() == [2]
    # Two of five numbers each, and padding to three.
    rows = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [0] * 5]
    np.testing.assert_array_equal(found[fields.CONTEXT_FEATURES], [rows])


def test_other_detectors_take_images_alone():
    assert build_task(build()).serving_side_inputs(tf.constant(1), None) == ({}, {})


@pytest.mark.parametrize(
    ('config_score', 'asked', 'measured', 'expected'),
    [
        (0.2, 0.9, 0.4, '0.9 (from --score_threshold)'),
        (0.2, None, 0.4, '0.4 (from the best F1 in the evaluation)'),
        (0.2, None, None, '0.2 (from eval_config.min_score_threshold)'),
        (None, None, None, '0.5 (from the default of eval_config.min_score_threshold)'),
    ],
)
def test_where_nothing_is_found_the_threshold_is_named(config_score, asked, measured, expected):
    config = build()
    if config_score is not None:
        config.eval_config.min_score_threshold = config_score
    said = build_task(config).presentation.nothing_found(Shown(asked), Shown(measured))
    assert said == f'0 detections reached {expected}; --score_threshold lowers it'


def test_nothing_is_learned_from_boxes_of_unknown_classes():
    task = build_task(build(num_classes=2))
    with pytest.raises(errors.DataError, match='no such classes: 3'):
        task.checks.check_first_examples([record([[0.1, 0.1, 0.5, 0.5]], [3])], True)


def test_a_check_counts_what_training_leaves_out():
    config = build(num_classes=2)
    config.train_config.max_number_of_boxes = 1
    task = build_task(config)
    boxes = [[0.1, 0.1, 0.5, 0.5]] * 4
    found = [task.checks.examine(record(boxes, [1, 2, 2, 3], encoded=png()))]
    warnings = task.checks.data_report(
        {'train_input_reader': found, 'eval_input_reader[0]': found}
    ).warnings
    assert [warning.partition(':')[0] for warning in warnings[:3]] == [
        'train_input_reader',
        'train_input_reader',
        'eval_input_reader[0]',
    ]
    assert '1 box of 1 record ' in warnings[0] and 'does not have, left out: 3' in warnings[0]
    assert '2 boxes of 1 record ' in warnings[1] and warnings[1].endswith(
        'boxes: 3 has room for all of them'
    )


def test_outputs_of_servers_are_compared_in_any_order_of_equal_rows():
    found = {
        fields.DETECTION_BOXES: np.array([[[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]]),
        fields.DETECTION_SCORES: np.array([[0.7, 0.7]]),
    }
    swapped = {name: value[:, ::-1] for name, value in found.items()}
    assert set(build_task(build()).compare_served([found], [swapped]).values()) == {1.0}


def test_a_served_model_makes_colors_gray():
    config = build()
    config.model.ssd.image_resizer.fixed_shape_resizer.convert_to_grayscale = True
    task = build_task(config)
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = task.serving_features(tf.zeros([2, 30, 40, 3], tf.uint8))
        assert features[fields.IMAGE].shape[1:] == [64, 64, 3]
        predictions = task.predict(features, ModeKeys.PREDICT)
        assert predictions[fields.PREPROCESSED].shape[1:] == [64, 64, 1]
        assert fields.DETECTION_BOXES in task.postprocess(predictions, features)
