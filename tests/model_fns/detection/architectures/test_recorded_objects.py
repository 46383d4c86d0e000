"""Recorded detectors of TensorFlow 2, restored from checkpoints in its format."""

import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.architectures.ssd import build as ssd_build
from model_fns.detection.architectures.ssd import model as ssd
from protos import ssd_pb2
from tests import rounding
from tests.model_fns.detection import recorded_detectors, recorded_objects
from tests.model_fns.detection.architectures.test_ssd import groundtruth_of

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

NAMES = ('tf2/ssd_mobilenet_v2_fpnlite_320', 'tf2/efficientdet_d0_256')


@pytest.fixture(scope='module', params=NAMES)
def case(request):
    return recorded_detectors.load(request.param)


def model_of(case):
    config = ssd_pb2.Ssd.FromString(case.config.SerializeToString())
    if 'efficientnet' in config.feature_extractor.type:
        # As it was recorded.
        config.feature_extractor.drop_path_keep_prob = 1.0
    return ssd_build.build_ssd(Section(config, 'model.ssd'))


@pytest.fixture(scope='module')
def ran(case, tmp_path_factory):
    """Run our network in inference, then for one step of training; return its variables too."""
    prefix = recorded_objects.save(
        recorded_objects.weights_of(case), tmp_path_factory.mktemp('recorded')
    )
    model = model_of(case)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = model.preprocess(recorded_detectors.resized(case.config, case.images), None)
        with tf1.variable_scope('', reuse=tf1.AUTO_REUSE):
            inferred = model.predict(images, None, None, is_training=False)
            predicted = model.predict(images, None, None, is_training=True)
        variables = tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        by_path = model.object_paths(variables, 'full')
        groundtruth = groundtruth_of(case)
        losses = model.losses(predicted, None, groundtruth)
        losses['regularization_loss'] = tf1.losses.get_regularization_loss()
        losses['total_loss'] = tf.add_n(list(losses.values()))
        wanted = [by_path[str(key)] for key in case.arrays['train/grad_norm_keys']]
        norms = [tf.norm(one) for one in tf.gradients(losses['total_loss'], wanted)]
        before = (images, inferred, model.postprocess(inferred, None))
        recorded_objects.restore(session, model, prefix)
        before = session.run(before)
        assigned = model.targets(predicted, groundtruth).box_weights
        step = session.run((losses, norms, predicted, assigned))
        return (*before, *step, dict(zip(by_path, session.run(list(by_path.values())))))


def test_predictions_are_as_recorded(case, ran):
    images, inferred, found, *_ = ran
    case.check('infer/preprocessed', images, 1e-5)
    case.check('infer/pred__anchors', inferred[fields.ANCHORS], 1e-6)
    case.check('infer/pred__box_encodings', inferred[fields.BOX_ENCODINGS], 1e-4)
    case.check('infer/pred__class_predictions_with_background', inferred[fields.CLASS_LOGITS], 1e-4)
    case.check('infer/det__raw_detection_boxes', found[fields.RAW_DETECTION_BOXES], 1e-4)
    scores = found[fields.DETECTION_SCORES], case.arrays['infer/det__detection_scores']
    np.testing.assert_allclose(*scores, atol=1e-4)


def test_losses_are_as_recorded(case, ran):
    losses = ran[3]
    for name in (ssd.LOCALIZATION_LOSS, ssd.CLASSIFICATION_LOSS):
        rounding.check_close(
            f'{case.name}: losses', losses[name], case.arrays[f'train/loss__{name}']
        )
    for name in ('regularization_loss', 'total_loss'):
        rounding.check_close(f'{case.name}: losses', losses[name], case.arrays[f'train/{name}'])
    np.testing.assert_array_equal(ran[6], case.arrays['train/targets__reg_weights'])


def test_gradients_are_as_recorded(case, ran):
    rounding.check_gradient_norms(case.name, ran[4], case.arrays['train/grad_norms'])


def test_moving_statistics_after_a_step_are_as_recorded(case, ran):
    start, values = 'train/bn_after_1_step/', ran[7]
    keys = [key[len(start) :] for key in case.arrays if key.startswith(start)]
    assert len(keys) == 4
    for key in keys:
        np.testing.assert_allclose(values[key], case.arrays[start + key], rtol=1e-4, atol=1e-5)
        assert re.search('moving_(mean|variance)$', key)
