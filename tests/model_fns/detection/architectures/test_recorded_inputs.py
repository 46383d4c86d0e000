"""Recorded detectors of TensorFlow 2 whose inputs are padded or gray."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from model_fns.detection import detector, fields
from protos import pipeline_pb2
from tests.conftest import shared_folder
from tests.matched_rows import nearest_rows
from tests.model_fns.detection import recorded_detectors, recorded_objects

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

NAMES = (
    pytest.param('tf2/efficientdet_d0_keep_aspect_256', marks=pytest.mark.published),
    'tf2/gray_ssd_mobilenet_v2_fpnlite_256',
    'tf2/faster_rcnn_resnet50_v1_fpn_keep_aspect_256',
)


@pytest.fixture(scope='module', params=NAMES)
def case(request):
    return recorded_detectors.load(request.param)


def model_of(name):
    text = (shared_folder() / 'golden' / f'{name}.config').read_text()
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model
    if 'efficientnet' in config.ssd.feature_extractor.type:
        # As it was recorded.
        config.ssd.feature_extractor.drop_path_keep_prob = 1.0
    return detector.build_detector(config)


@pytest.fixture(scope='module')
def inferred(case):
    """Compute the network's input, true shapes and detections."""
    model = model_of(case.name)
    with tf.Graph().as_default(), tf1.Session() as session:
        resized = [model.resizer.resize(tf.constant(image)) for image in case.images]
        shapes = tf.stack([one.true_shape for one in resized])
        images = model.preprocess(tf.stack([one.image for one in resized]), shapes)
        predictions = model.predict(images, shapes, None, is_training=False)
        predictions[fields.PREPROCESSED] = images
        found = model.postprocess(predictions, shapes)
        recorded_objects.assign(session, model, case)
        return session.run((images, shapes, found))


def test_inputs_are_as_recorded(case, inferred):
    images, shapes, _ = inferred
    case.check('infer/preprocessed', images, 1e-5)
    np.testing.assert_array_equal(shapes[:, :2], case.arrays['infer/true_image_shapes'][:, :2])


def test_detections_are_as_recorded(case, inferred):
    names = (fields.DETECTION_BOXES, fields.DETECTION_SCORES, fields.DETECTION_CLASSES)
    for image in range(len(case.images)):
        ours, expected = (
            np.column_stack([one[image] for one in values])
            for values in (
                [inferred[2][name] for name in names],
                [case.arrays[f'infer/det__{name}'] for name in names],
            )
        )
        rows = nearest_rows(ours, expected)
        np.testing.assert_allclose(ours[rows], expected, rtol=1e-4, atol=1e-4)
