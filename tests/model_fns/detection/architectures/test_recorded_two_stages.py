"""Recorded two-stage detectors of TensorFlow 2, with weights by the paths of checkpoints."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import model as two_stage
from model_fns.detection.architectures.faster_rcnn import stages
from model_fns.detection.boxes import targets
from protos import pipeline_pb2
from tests import rounding
from tests.conftest import shared_folder
from tests.matched_rows import nearest_rows
from tests.model_fns.detection import recorded_detectors, recorded_objects

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# Recorded cases, and the published configs that they were made of.
CASES = {
    'tf2/mask_rcnn_inception_resnet_v2_256x320': (
        'mask_rcnn_inception_resnet_v2_1024x1024_coco17_gpu-8'
    ),
    'tf2/faster_rcnn_resnet50_v1_fpn_256x320': 'faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8',
}


@pytest.fixture(
    scope='module',
    params=[
        # Its parts: `faster_rcnn/test_model.py`, `test_object_paths.py`.
        pytest.param('tf2/mask_rcnn_inception_resnet_v2_256x320', marks=pytest.mark.published),
        'tf2/faster_rcnn_resnet50_v1_fpn_256x320',
    ],
)
def case(request):
    return recorded_detectors.load(request.param)


@pytest.fixture(scope='module')
def ran(case):
    """Run our network in inference, and for losses and gradients; return its variables too."""
    text = (shared_folder() / 'golden' / f'{case.name}.config').read_text()
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model
    model = detector.build_detector(config)
    arrays = case.arrays
    boxes, classes = arrays['train/boxes0'], arrays['train/classes0']
    one_hot = np.eye(model.num_classes, dtype=np.float32)[classes]
    ones = np.ones([len(boxes)], np.float32)
    rows = (boxes, one_hot, ones, ones > 0)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = model.preprocess(tf.constant(case.images, tf.float32), None)
        masks = arrays.get('train/masks0')
        groundtruth = targets.Groundtruth(
            *(tf.constant(one[np.newaxis]) for one in rows),
            masks=None if masks is None else tf.constant(masks[np.newaxis]),
        )
        with tf1.variable_scope('', reuse=tf1.AUTO_REUSE):
            inferred = model.predict(images, None, None, is_training=False)
            predicted = model.predict(images, None, groundtruth, is_training=True)
        inferred[fields.PREPROCESSED] = predicted[fields.PREPROCESSED] = images
        found = model.postprocess(inferred, None)
        losses = model.losses(predicted, None, groundtruth)
        losses['regularization_loss'] = tf1.losses.get_regularization_loss()
        by_path = model.object_paths(tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES), 'full')
        wanted = [by_path[str(key)] for key in arrays['train/grad_norm_keys']]
        gradients = tf.gradients(tf.add_n(list(losses.values())), wanted)
        recorded_objects.assign(session, model, case)
        fetched = inferred, found, losses, [tf.norm(one) for one in gradients]
        shapes = {path: (tuple(one.shape), one.trainable) for path, one in by_path.items()}
        return (*session.run(fetched), shapes)


def test_variables_are_the_published_ones(case, ran):
    shapes, trained = recorded_objects.listed(CASES[case.name])
    ours = ran[-1]
    assert {path: shape for path, (shape, _) in ours.items()} == shapes
    assert len(shapes) == len(case.arrays['weights_keys'])
    assert {path for path, (_, is_trained) in ours.items() if is_trained} == trained


def close(ours, expected, tolerance=1e-4):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_proposals_are_as_recorded(case, ran):
    inferred, arrays = ran[0], case.arrays
    case.check('infer/preprocessed', inferred[fields.PREPROCESSED], 1e-5)
    case.check('infer/pred__rpn_box_encodings', inferred[fields.RPN_BOX_ENCODINGS], 1e-4)
    name = 'infer/pred__rpn_objectness_predictions_with_background'
    case.check(name, inferred[fields.RPN_OBJECTNESS], 1e-4)
    expected = arrays['infer/pred__proposal_boxes'][0]
    rows = nearest_rows(inferred[fields.PROPOSAL_BOXES][0], expected)
    close(inferred[fields.PROPOSAL_BOXES][0][rows], expected)
    for ours, name in (
        (fields.REFINED_BOX_ENCODINGS, 'refined_box_encodings'),
        (fields.CLASS_LOGITS, 'class_predictions_with_background'),
    ):
        expected = arrays[f'infer/pred__{name}']
        close(inferred[ours].reshape(expected.shape)[rows], expected)


def test_detections_and_their_masks_are_as_recorded(case, ran):
    names = fields.DETECTION_BOXES, fields.DETECTION_SCORES, fields.DETECTION_CLASSES
    found, arrays = ran[1], case.arrays
    ours, expected = (
        np.column_stack([one[0] for one in values])
        for values in (
            [found[name] for name in names],
            [arrays[f'infer/det__{name}'] for name in names],
        )
    )
    rows = nearest_rows(ours, expected)
    np.testing.assert_allclose(ours[rows], expected, rtol=1e-4, atol=1e-4)
    if fields.DETECTION_MASKS in found:
        close(found[fields.DETECTION_MASKS][0][rows], arrays['infer/det__detection_masks'][0])


def test_losses_are_as_recorded(case, ran):
    names = {
        two_stage.REGION_LOSSES[0]: 'RPNlocalization_loss',
        two_stage.REGION_LOSSES[1]: 'RPNobjectness_loss',
        two_stage.BOX_LOSSES[0]: 'BoxClassifierlocalization_loss',
        two_stage.BOX_LOSSES[1]: 'BoxClassifierclassification_loss',
        stages.MASK_LOSS: 'BoxClassifiermask_loss',
    }
    expected = {
        name: float(case.arrays[f'train/loss__{one}'])
        for name, one in names.items()
        if f'train/loss__{one}' in case.arrays
    }
    expected['regularization_loss'] = float(case.arrays['train/regularization_loss'])
    assert ran[2].keys() == expected.keys()
    total = sum(ran[2].values()), case.arrays['train/total_loss']
    for ours, one in [*((ran[2][name], expected[name]) for name in expected), total]:
        rounding.check_close(f'{case.name}: losses', ours, one)


def test_gradients_are_as_recorded(case, ran):
    """Variables that batch norm does not train, but its offsets, have gradients too."""
    rounding.check_gradient_norms(case.name, ran[3], case.arrays['train/grad_norms'])
