"""The bridge with a stand-in for the API: a line through points, trained by hand beside it."""

import ast
import json
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from protos import pipeline_pb2
from vision_extras.compare.reference import bridge

tf1 = tf.compat.v1

POINTS = [[1.0, 2.0], [3.0, 0.5], [2.0, 2.0]]  # the gray values of two images, by step
TARGETS = [[3.0, 1.0], [4.0, 2.0], [2.0, 5.0]]
WEIGHTS = [[1.0, 0.5], [2.0, 1.0], [1.0, 1.0]]
SLOPE, OFFSET, RATE, DECAY = 0.5, 0.25, 0.01, 0.125


class Line:
    """A model with the published methods: its only box begins at slope * gray + offset."""

    def __init__(self, is_training):
        self._is_training = is_training

    def preprocess(self, images):
        return images / 2.0, tf.shape(images)

    def predict(self, images, true_shapes):
        assert true_shapes.dtype == tf.int32
        gray = tf.reduce_mean(images, [1, 2, 3]) * 2.0
        with tf1.variable_scope('Line', use_resource=False):
            slope = tf1.get_variable('weights', [], regularizer=lambda w: DECAY * w * w)
            offset = tf1.get_variable('biases', [])
            seen = tf1.get_variable('seen', [], trainable=False)
        if self._is_training:
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, seen.assign_add(tf.reduce_sum(gray)))
        return {'box_encodings': slope * gray + offset}

    def provide_groundtruth(self, boxes, classes, groundtruth_weights_list):
        assert all(each.shape.as_list() == [None, 4] for each in boxes)
        self._targets = tf.concat([each[:, 0] for each in boxes], 0)
        self._classes = tf.concat(classes, 0)
        self._weights = tf.concat(groundtruth_weights_list, 0)

    def loss(self, predictions, true_shapes):
        errors = predictions['box_encodings'] - self._targets
        return {
            'Loss/localization_loss': tf.reduce_sum(self._weights * errors * errors),
            'Loss/classification_loss': tf.reduce_sum(self._classes),
        }

    def postprocess(self, predictions, true_shapes):
        boxes = tf.tile(predictions['box_encodings'][:, None, None], [1, 1, 4])
        ones = tf.ones_like(boxes[..., 0])
        return {
            'detection_boxes': boxes,
            'detection_scores': ones / 2,
            'detection_classes': ones,
            'num_detections': ones[:, 0],
        }


@pytest.fixture(autouse=True)
def package(monkeypatch):
    optimizer = lambda config: (tf1.train.GradientDescentOptimizer(RATE), ())  # noqa: E731
    modules = {
        'object_detection.protos.pipeline_pb2': pipeline_pb2,
        'object_detection.builders.model_builder': types.SimpleNamespace(
            build=lambda model, is_training: Line(is_training)
        ),
        'object_detection.builders.optimizer_builder': types.SimpleNamespace(build=optimizer),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def batch(gray, targets=None, weights=None):
    values = {
        'images': np.tile(np.reshape(gray, [-1, 1, 1, 1]), [1, 2, 2, 3]).astype(np.float32),
        'true_shapes': np.tile([[2, 2, 3]], [len(gray), 1]),
    }
    if targets is not None:
        # The second row is padding.
        boxes = np.full([len(gray), 2, 4], np.nan, np.float32)
        boxes[:, 0] = np.reshape(targets, [-1, 1])
        padded = np.stack([weights, np.full(len(gray), np.nan)], axis=1).astype(np.float32)
        classes = np.where(np.isnan(boxes[..., :1]), np.nan, 1.0)
        values.update(boxes=boxes, weights=padded, classes=classes, counts=[1] * len(gray))
    return values


@pytest.fixture
def folder(tmp_path):
    for index, values in enumerate(zip(POINTS, TARGETS, WEIGHTS)):
        np.savez(bridge.batch_path(str(tmp_path), bridge.TRAINING, index), **batch(*values))
    for index, gray in enumerate((4.0, 6.0)):
        np.savez(bridge.batch_path(str(tmp_path), bridge.EVALUATION, index), **batch([gray]))
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable('Line/weights', initializer=SLOPE, use_resource=False)
        tf1.get_variable('Line/biases', initializer=OFFSET, use_resource=False)
        tf1.get_variable('Line/seen', initializer=10.0, use_resource=False)
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, str(tmp_path / bridge.CHECKPOINT))
    return str(tmp_path)


def config(**fields):
    built = pipeline_pb2.TrainEvalPipelineConfig()
    built.train_config.add_regularization_loss = True
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(built.train_config, name).extend(value)
        else:
            setattr(built.train_config, name, value)
    return built


def by_hand(bias_factor=1.0, norm=np.inf, trains_offset=True):
    """Train the line; return losses by step, the first gradient, and the last values."""
    slope, offset = SLOPE, OFFSET
    losses, first = [], None
    for gray, targets, weights in zip(*map(np.array, (POINTS, TARGETS, WEIGHTS))):
        errors = slope * gray + offset - targets
        losses.append(np.sum(weights * errors**2))
        gradient = np.array(
            [
                np.sum(2 * weights * errors * gray) + 2 * DECAY * slope,
                np.sum(2 * weights * errors) * bias_factor * trains_offset,
            ]
        )
        first = gradient if first is None else first
        gradient = gradient * min(1.0, norm / np.linalg.norm(gradient))
        slope, offset = np.array([slope, offset]) - RATE * gradient
    return losses, first, (slope, offset)


@pytest.mark.parametrize(
    'fields, changes',
    [
        ({}, {}),
        ({'bias_grad_multiplier': 3.0}, {'bias_factor': 3.0}),
        ({'gradient_clipping_by_norm': 0.5}, {'norm': 0.5}),
        ({'freeze_variables': ['biases']}, {'trains_offset': False}),
    ],
)
def test_training_is_as_by_hand(folder, fields, changes):
    found = bridge.train(tf1, config(**fields), folder, 3)
    losses, gradient, (slope, offset) = by_hand(**changes)
    np.testing.assert_allclose(found['losses']['localization_loss'], losses, rtol=1e-5)
    np.testing.assert_allclose(found['losses']['classification_loss'], [2.0] * 3)
    regularization = found['losses']['regularization_loss']
    assert regularization[0] == pytest.approx(DECAY * SLOPE**2)
    np.testing.assert_allclose(
        found['losses']['total_loss'], np.add(losses, 2.0) + regularization, rtol=1e-5
    )
    assert found['gradients']['Line/weights'] == pytest.approx(gradient[0], rel=1e-5)
    if 'freeze_variables' in fields:
        assert set(found['gradients']) == {'Line/weights'}
    else:
        assert found['gradients']['Line/biases'] == pytest.approx(gradient[1], rel=1e-5)
    assert found['initial'] == {'Line/weights': SLOPE, 'Line/biases': OFFSET, 'Line/seen': 10.0}
    assert found['variables']['Line/weights'] == pytest.approx(slope, rel=1e-5)
    assert found['variables']['Line/biases'] == pytest.approx(offset, rel=1e-5)
    # The other variable is updated once by each step, as a moving mean would be.
    assert found['variables']['Line/seen'] == pytest.approx(10.0 + np.sum(POINTS))
    expected = SLOPE * np.array(POINTS[0]) + OFFSET
    np.testing.assert_allclose(found['raw']['box_encodings'], expected)
    assert found['raw']['preprocessed_inputs'].shape == (2, 2, 2, 3)


@pytest.mark.parametrize('num_steps', [0, 3])
def test_evaluation_uses_the_trained_values(folder, num_steps):
    slope, offset = SLOPE, OFFSET
    if num_steps:
        bridge.train(tf1, config(), folder, num_steps)
        slope, offset = by_hand()[2]
    job = {'num_steps': num_steps, 'num_images': 2, 'is_fixed_size': True}
    found = bridge.evaluate(tf1, config(), folder, job)['detections']
    expected = slope * np.array([4.0, 6.0]) + offset
    np.testing.assert_allclose(found['detection_boxes'][:, 0, 3], expected, rtol=1e-5)
    np.testing.assert_array_equal(found['detection_classes'], [[2.0], [2.0]])
    np.testing.assert_array_equal(found['num_detections'], [1.0, 1.0])


def test_a_job_writes_its_results(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(bridge, 'import_tensorflow', lambda: tf1)
    job = {'num_steps': 2, 'num_images': 2, 'is_fixed_size': True}
    (tmp_path / bridge.JOB).write_text(json.dumps(job))
    (tmp_path / bridge.CONFIG).write_text('train_config { add_regularization_loss: true }')
    assert bridge.main(folder) == bridge.NO_PACKAGE  # the parts alone are no package
    monkeypatch.setitem(sys.modules, 'object_detection', types.ModuleType('object_detection'))
    assert bridge.main(folder) == 0
    with np.load(bridge.result_path(folder, bridge.RESULTS)) as values:
        np.testing.assert_allclose(values['losses/localization_loss'], by_hand()[0][:2], rtol=1e-5)
    about = json.loads((tmp_path / 'reference.json').read_text())
    assert about['missing'] == [] and about['tensorflow'] == tf.__version__


def test_a_variable_that_the_checkpoint_lacks_is_named(folder):
    with tf.Graph().as_default(), tf1.Session() as session:
        known = tf1.get_variable('Line/weights', [], use_resource=False)
        tf1.get_variable('Line/biases', [2], use_resource=False)
        tf1.get_variable('Line/other', [], use_resource=False)
        assert bridge.restore(tf1, session, folder) == ['Line/biases', 'Line/other']
        assert session.run(known) == SLOPE


def test_dropout_is_turned_off_everywhere():
    built = pipeline_pb2.TrainEvalPipelineConfig()
    head = built.model.ssd.box_predictor.convolutional_box_predictor
    head.kernel_size = 1
    assert head.use_dropout  # the published default
    bridge.turn_off_dropout(built.model)
    assert not head.use_dropout


def test_old_pythons_can_run_it():
    """No imports beyond NumPy, TensorFlow, protobuf and the library; no syntax after 3.5."""
    with open(bridge.__file__, encoding='utf-8') as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    imported = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    allowed = [
        'importlib',
        'json',
        'os',
        're',
        'sys',
        'typing',
        'numpy',
        'tensorflow',
        'tensorflow.compat.v1',
    ]
    assert imported == {*allowed, 'google.protobuf', 'tensorflow', 'tensorflow.compat.v1'}
    later = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFor)
    assert not [node for node in nodes if isinstance(node, later)]
