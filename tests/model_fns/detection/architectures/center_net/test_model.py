"""The whole detector against the recorded one, and what surrounds it."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.checkpoints import object_graphs
from model_fns.detection import detector, fields
from model_fns.detection.architectures.center_net import objects
from model_fns.detection.boxes.targets import Groundtruth
from protos import model_pb2
from tests import rounding
from tests.model_fns.detection import recorded_objects
from tests.model_fns.detection.architectures.center_net import recorded
from tests.tiny_center_net import MODEL

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# The text of the message `model`.
INNER = MODEL[MODEL.index('{') + 1 : MODEL.rindex('}')]
HEADS = (objects.CENTER, objects.SIZE, objects.OFFSET)


@pytest.fixture(scope='module')
def case():
    return recorded.load()


@pytest.fixture(scope='module')
def checkpoint(case, tmp_path_factory):
    """Write the recorded weights as TensorFlow 2 does."""
    folder = str(tmp_path_factory.mktemp('recorded'))
    return object_graphs.write(recorded_objects.weights_of(case), folder)


def test_inference_is_as_recorded(case, checkpoint):
    with tf.Graph().as_default(), tf1.Session() as session:
        model, predictions = recorded.build(case, is_training=False)
        detections = model.postprocess(predictions, None)
        recorded_objects.restore(session, model, checkpoint)
        predictions, detections = session.run((predictions, detections))
    case.check('infer/preprocessed', predictions[fields.PREPROCESSED], 1e-6)
    for name in HEADS:
        case.check(f'infer/pred__{name.replace("/", "|")}_0', predictions[f'{name}/0'], 1e-4)
    for name, values in detections.items():
        case.check(f'infer/det__{name}', values, 1e-4)
    assert {key for key in case.arrays if key.startswith('infer/det__')} == {
        f'infer/det__{name}' for name in detections
    }


def test_training_is_as_recorded(case, checkpoint):
    with tf.Graph().as_default(), tf1.Session() as session:
        model, predictions = recorded.build(case, is_training=True)
        losses = model.losses(predictions, None, recorded.groundtruth(case))
        paths = model.object_paths(tf1.global_variables(), 'full')
        trained = [paths[key] for key in case.arrays['train/grad_norm_keys']]
        gradients = tf.gradients(tf.add_n(list(losses.values())), trained)
        norms = tf.stack([tf.norm(gradient) for gradient in gradients])
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        assert not tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        recorded_objects.restore(session, model, checkpoint)
        found = session.run((predictions, losses, norms))
        session.run(updates)
        prefix = 'train/bn_after_1_step/'
        moved = {key: paths[key[len(prefix) :]] for key in case.arrays if key.startswith(prefix)}
        moved = session.run(moved)
    predictions, losses, norms = found
    for name in HEADS:
        key = name.replace('/', '|')
        pair = case.recorded(f'train/pred__{key}_0', predictions[f'{name}/0'])
        rounding.check_close(f'{case.name}: training', *pair)
        rounding.check_close(
            f'{case.name}: losses', losses[name], case.arrays[f'train/loss__{key}']
        )
    assert len(moved) == 4
    for key, value in moved.items():
        case.check(key, value, 1e-4)
    # With the last bit a unit at the corner of its ReLU gains or loses its gradient.
    rounding.check_gradient_norms(case.name, norms, case.arrays['train/grad_norms'])


def tiny_config():
    return text_format.Parse(INNER, model_pb2.DetectionModel())


@pytest.fixture(scope='module')
def tiny():
    """Compute detections with and without suppression in two images, one of them half padding."""
    random = np.random.RandomState(0)
    values = {
        'object_center/0': random.normal(size=[2, 16, 16, 2]),
        'box/scale/0': random.uniform(2.0, 9.0, size=[2, 16, 16, 2]),
        'box/offset/0': random.uniform(size=[2, 16, 16, 2]),
        fields.PREPROCESSED: np.zeros([2, 64, 64, 3]),
    }
    config = tiny_config()
    config.center_net.post_processing.batch_non_max_suppression.iou_threshold = 0.01
    with tf.Graph().as_default(), tf1.Session() as session:
        predictions = {name: tf.constant(one, tf.float32) for name, one in values.items()}
        shapes = tf.constant([[64, 64, 3], [64, 32, 3]])
        suppressed = detector.build_detector(config).postprocess(predictions, shapes)
        config.center_net.ClearField('post_processing')
        plain = detector.build_detector(config).postprocess(predictions, shapes)
        return session.run((suppressed, plain))


def test_suppression_leaves_the_best_of_overlapping_detections(tiny):
    suppressed, plain = tiny
    for image in range(2):
        count = int(suppressed[fields.NUM_DETECTIONS][image])
        assert 1 <= count < plain[fields.NUM_DETECTIONS][image]
        assert (
            suppressed[fields.DETECTION_SCORES][image, 0]
            == plain[fields.DETECTION_SCORES][image, 0]
        )
        rows = [
            np.flatnonzero(np.all(plain[fields.DETECTION_BOXES][image] == box, axis=1))
            for box in suppressed[fields.DETECTION_BOXES][image, :count]
        ]
        for place, row in enumerate(rows):
            for name in (fields.DETECTION_BOXES_STRIDED, fields.DETECTION_MULTICLASS_SCORES):
                assert suppressed[name][image, place].tolist() in plain[name][image, row].tolist()


def test_boxes_are_normalized_to_the_image_without_its_padding(tiny):
    _, plain = tiny
    strided = plain[fields.DETECTION_BOXES_STRIDED]
    expected = np.clip(strided[1] * 4 / np.array([64, 32, 64, 32]), 0, 1)
    np.testing.assert_allclose(plain[fields.DETECTION_BOXES][1], expected, atol=1e-6)


class _Named:
    """Stands for a variable."""

    def __init__(self, name):
        self.op = self
        self.name = name


def test_restoring_is_of_the_extractor_or_of_its_backbone():
    names = ['hourglass_10/output_conv/0/weights', 'elsewhere/weights']
    of_extractor = [f'FeatureExtractor/{name}' for name in names]
    variables = [_Named(name) for name in (*of_extractor, 'PredictionHeads/box/scale/x')]
    model = detector.build_detector(tiny_config())
    assert list(model.restore_map(variables, 'detection')) == of_extractor
    assert list(model.restore_map(variables, 'classification')) == names[:1]


def test_backbones_of_tensorflow_1_are_not_taken_for_ours():
    config = tiny_config()
    config.center_net.feature_extractor.Clear()
    config.center_net.feature_extractor.type = 'resnet_v2_50'
    model = detector.build_detector(config)
    assert 'compute something else' in model.foreign_checkpoint(['resnet_v2_50/conv1/weights'])
    assert not model.foreign_checkpoint(['PredictionHeads/box/scale/output_0/conv_1/weights'])
    hourglass = detector.build_detector(tiny_config())
    assert not hourglass.foreign_checkpoint(['resnet_v2_50/conv1/weights'])


def test_the_size_of_the_graph_depends_on_the_architecture_alone():
    def operations(num_classes, batch, boxes):
        config = tiny_config()
        config.center_net.feature_extractor.Clear()
        config.center_net.feature_extractor.type = 'hourglass_10'
        config.center_net.num_classes = num_classes
        config.center_net.object_center_params.max_box_predictions = 5 * batch
        model = detector.build_detector(config)
        with tf.Graph().as_default() as graph:
            images = tf.zeros([batch, 64, 64, 3])
            predictions = model.predict(images, None, None, True)
            predictions = {**predictions, fields.PREPROCESSED: images}
            truth = Groundtruth(
                tf.zeros([batch, boxes, 4]),
                tf.zeros([batch, boxes, num_classes]),
                tf.zeros([batch, boxes]),
                tf.zeros([batch, boxes], tf.bool),
            )
            model.losses(predictions, None, truth)
            model.postprocess(predictions, None)
            return len(graph.get_operations())

    assert operations(2, 1, 1) == operations(7, 3, 4)
