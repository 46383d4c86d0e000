"""Whole two-stage detectors, held against what the published ones compute with the same weights."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import model as two_stage
from model_fns.detection.boxes import targets
from protos import model_pb2
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones

tf1 = tf.compat.v1

NAME = 'faster_rcnn_resnet50_256x320'


@functools.cache
def recorded():
    folder = shared_folder() / 'golden'
    if not (folder / f'{NAME}.npz').is_file():
        pytest.skip(f'the recorded case {NAME} is not in ../shared/golden')
    text = (folder / f'{NAME}.config').read_text()
    config = text_format.Parse(text, model_pb2.DetectionModel())
    with np.load(folder / f'{NAME}.npz') as arrays:
        return config, {name: arrays[name] for name in arrays.files}


def preprocessed(model, arrays):
    return model.preprocess(tf.constant(arrays['input_image_uint8'], tf.float32), None)


@functools.cache
def inferred():
    config, arrays = recorded()
    model = detector.build_detector(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = preprocessed(model, arrays)
        predictions = model.predict(images, None, None, is_training=False)
        predictions[fields.PREPROCESSED] = images
        outputs = model.postprocess(predictions, None)
        recorded_backbones.set_weights(session)
        return session.run((predictions, outputs))


@functools.cache
def trained():
    config, arrays = recorded()
    model = detector.build_detector(config)
    boxes, classes = arrays['train/boxes0'], arrays['train/classes0']
    with tf.Graph().as_default(), tf1.Session() as session:
        images = preprocessed(model, arrays)
        groundtruth = targets.Groundtruth(
            boxes=tf.constant(boxes[np.newaxis]),
            classes=tf.one_hot(classes[np.newaxis], model.num_classes),
            weights=tf.ones([1, len(boxes)]),
            valid=tf.fill([1, len(boxes)], True),
        )
        predictions = model.predict(images, None, groundtruth, is_training=True)
        predictions[fields.PREPROCESSED] = images
        losses = model.losses(predictions, None, groundtruth)
        total = tf.add_n(list(losses.values()))
        by_name = {variable.op.name: variable for variable in tf1.trainable_variables()}
        names = [str(name) for name in arrays['train/grad_norm_names']]
        gradients = tf.gradients(total, list(by_name.values()))
        without = {name for name, one in zip(by_name, gradients) if one is None}
        norms = [
            tf.norm(one) for name in names for key, one in zip(by_name, gradients) if key == name
        ]
        recorded_backbones.set_weights(session)
        predictions, losses, norms = session.run((predictions, losses, norms))
    return predictions, losses, np.array(norms), without


def close(ours, expected, tolerance=1e-4):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * np.abs(expected).max())


class TestRecordedInference:
    @pytest.mark.parametrize(
        ('ours', 'published'),
        [
            (fields.ANCHORS, 'anchors'),
            (fields.RPN_BOX_ENCODINGS, 'rpn_box_encodings'),
            (fields.RPN_OBJECTNESS, 'rpn_objectness_predictions_with_background'),
            (fields.PROPOSAL_BOXES, 'proposal_boxes'),
            (fields.NUM_PROPOSALS, 'num_proposals'),
            (fields.REFINED_BOX_ENCODINGS, 'refined_box_encodings'),
            (fields.CLASS_LOGITS, 'class_predictions_with_background'),
        ],
    )
    def test_predictions(self, ours, published):
        predictions, _ = inferred()
        expected = recorded()[1][f'infer/pred__{published}']
        close(predictions[ours].reshape(expected.shape), expected)

    @pytest.mark.parametrize(
        'name',
        [
            fields.NUM_DETECTIONS,
            fields.DETECTION_SCORES,
            fields.DETECTION_CLASSES,
            fields.DETECTION_BOXES,
            fields.DETECTION_MULTICLASS_SCORES,
            fields.DETECTION_ANCHOR_INDICES,
            fields.RAW_DETECTION_BOXES,
            fields.RAW_DETECTION_SCORES,
        ],
    )
    def test_detections(self, name):
        close(inferred()[1][name], recorded()[1][f'infer/det__{name}'])


class TestRecordedTraining:
    @pytest.mark.parametrize(
        ('ours', 'published'),
        [
            (fields.ANCHORS, 'anchors'),
            (fields.RPN_BOX_ENCODINGS, 'rpn_box_encodings'),
            (fields.RPN_OBJECTNESS, 'rpn_objectness_predictions_with_background'),
            (fields.PROPOSAL_BOXES, 'proposal_boxes'),
            (fields.REFINED_BOX_ENCODINGS, 'refined_box_encodings'),
            (fields.CLASS_LOGITS, 'class_predictions_with_background'),
        ],
    )
    def test_predictions(self, ours, published):
        expected = recorded()[1][f'train/pred__{published}']
        close(trained()[0][ours].reshape(expected.shape), expected)

    def test_losses(self):
        arrays, losses = recorded()[1], trained()[1]
        # Both localization losses were recorded under one name: the second stage's is left.
        expected = {
            'RPNLoss/objectness_loss': arrays['train/loss__objectness_loss'],
            'BoxClassifierLoss/localization_loss': arrays['train/loss__localization_loss'],
            'BoxClassifierLoss/classification_loss': arrays['train/loss__classification_loss'],
        }
        for name, value in expected.items():
            assert losses[name] == pytest.approx(value, rel=1e-4), name
        assert sum(losses.values()) == pytest.approx(arrays['train/total_loss'], rel=1e-4)
        assert set(losses) == {*two_stage.REGION_LOSSES, *two_stage.BOX_LOSSES}

    def test_gradients(self):
        arrays, (_, _, ours, without) = recorded()[1], trained()
        expected = arrays['train/grad_norms']
        assert without == {str(name) for name in arrays['train/no_grad_vars']}
        floor = 0.01 * np.median(expected)
        errors_of_norms = np.abs(ours - expected) / np.maximum(expected, floor)
        assert np.median(errors_of_norms) < 1e-3
        assert errors_of_norms.max() < 0.05
