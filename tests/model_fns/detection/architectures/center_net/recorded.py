"""The recorded CenterNet of ../shared/golden/tf2, and our network run on it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from model_fns.detection import detector, fields
from model_fns.detection.boxes.targets import Groundtruth
from protos import model_pb2
from tests.conftest import shared_folder
from tests.model_fns.detection import recorded_detectors

tf1 = tf.compat.v1

NAME = 'centernet_resnet50_v1_fpn_256'


@functools.cache
def load():
    """Load the case, or skip the test without it."""
    folder = shared_folder() / 'golden' / 'tf2'
    if not (folder / f'{NAME}.npz').is_file():
        pytest.skip(f'the recorded case {NAME} is not in ../shared/golden/tf2')
    with np.load(folder / f'{NAME}.npz') as recorded:
        arrays = {key: recorded[key] for key in recorded.files}
    text = (folder / f'{NAME}.config').read_text()
    # The message of the file has one field, `model`.
    text = text[text.index('{') + 1 : text.rindex('}')]
    return recorded_detectors.Case(
        NAME, text_format.Parse(text, model_pb2.DetectionModel()), arrays
    )


def groundtruth(case):
    """Return groundtruth as a batch, padded to one row more than the fullest image has."""
    rows = case.groundtruth()
    most = max(len(boxes) for boxes, _ in rows) + 1
    num_classes = case.config.center_net.num_classes

    def padded(values):
        return np.pad(values, [(0, most - len(values)), *[(0, 0)] * (values.ndim - 1)])

    boxes = np.stack([padded(boxes) for boxes, _ in rows])
    classes = np.stack([padded(np.eye(num_classes)[of_image]) for _, of_image in rows])
    valid = np.stack([padded(np.ones(len(boxes), bool)) for boxes, _ in rows])
    return Groundtruth(
        tf.constant(boxes, tf.float32),
        tf.constant(classes, tf.float32),
        tf.constant(valid, tf.float32),
        tf.constant(valid),
    )


def build(case, is_training):
    """Build the model and its predictions for the case's images in the current graph."""
    model = detector.build_detector(case.config)
    images = tf.stack([model.resizer.resize(tf.constant(one)).image for one in case.images])
    preprocessed = model.preprocess(images, None)
    predictions = model.predict(preprocessed, None, None, is_training)
    return model, {**predictions, fields.PREPROCESSED: preprocessed}
