"""Images of several sizes: batches are padded to the largest, and everything follows the image."""

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import tf_estimator
from model_fns import build_task
from model_fns.datasets import codecs, records
from model_fns.detection import detector, fields
from model_fns.detection.architectures.ssd import model as ssd
from model_fns.structures.images import image_header
from protos import pipeline_pb2
from tests import learning, served, tiny_detection
from tests.conftest import shared_folder
from tests.test_run_train_eval import NO_EXPORT, estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

FIXED = 'fixed_shape_resizer { height: 64 width: 64 }'
KEEP_ASPECT = 'keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 96 }'
SHAPES = ((64, 64), (64, 96), (96, 64))
ENCODED = 'encoded_image_string_tensor'


def scene(random):
    """Build a scene of `tiny_detection` with dark noise below or to the right of it."""
    image, boxes, ids = tiny_detection.scene(random)
    height, width = SHAPES[random.randint(len(SHAPES))]
    whole = random.randint(0, 60, [height, width, 3]).astype(np.uint8)
    whole[:64, :64] = image
    return whole, boxes * 64 / np.array([height, width, height, width], np.float32), ids


def write_records(path, count, seed):
    random = np.random.RandomState(seed)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(count):
            image, boxes, ids = scene(random)
            encoded = codecs.encode_png(image)
            features = records.image_features(
                encoded, image_header(encoded), f'{index}.png', f'{path.stem}_{index}'
            )
            for column, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
                features[f'image/object/bbox/{side}'] = boxes[:, column]
            features['image/object/class/label'] = ids
            writer.write(records.serialize(features))


def make_task(resizer=KEEP_ASPECT, merged=''):
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config = text_format.Parse(text.replace(FIXED, resizer), pipeline_pb2.TrainEvalPipelineConfig())
    return build_task(text_format.Merge(merged, config))


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('sizes')
    config = tiny_detection.write_all(folder)
    write_records(folder / 'train.tfrecord', 64, seed=0)
    write_records(folder / 'val.tfrecord', 12, seed=1)
    config.write_text(config.read_text().replace(FIXED, KEEP_ASPECT))
    flags = [f'--pipeline_config_path={config}', f'--model_dir={folder / "run"}']
    flags += ['--set=eval_config.analyze=false', NO_EXPORT]
    assert front_door(*flags, '--num_train_steps=50') == 0
    return folder / 'run'


def test_it_learns_and_finds_boxes_of_the_original_images(trained):
    learning.require_falling_loss(trained)
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    assert metrics['DetectionBoxes_Precision/mAP@.50IOU'] >= 0
    assert len(list((trained.parent / 'pictures').glob('*.png'))) == 2


def test_a_check_tells_the_memory_of_the_largest_input(trained, capsys):
    config = trained.parent / 'pipeline.config'
    assert front_door('--mode=check', f'--pipeline_config_path={config}') == 0
    assert ' MiB, for inputs of 64 x 96; this machine has ' in capsys.readouterr().out


@pytest.fixture(scope='module', params=SHAPES[:2], ids=['square', 'wide'])
def predicted(request, trained):
    """Return images of one size, and the predictions of the Estimator."""
    random = np.random.RandomState(5)
    scenes = (scene(random)[0] for _ in range(20))
    sent = np.stack([one for one in scenes if one.shape[:2] == request.param])
    return sent, estimator_predictions(trained, sent)


@pytest.fixture(scope='module')
def exports(trained):
    """Write an export for each kind of input."""
    folders = {kind: trained.parent / kind for kind in ('image_tensor', ENCODED)}
    for kind, folder in folders.items():
        flags = [f'--model_dir={trained}', f'--export_dir={folder}', f'--input_type={kind}']
        assert front_door('--mode=export', *flags) == 0
    return {kind: latest(folder) for kind, folder in folders.items()}


@pytest.mark.parametrize('input_type', ['image_tensor', ENCODED])
def test_a_served_batch_of_one_size(exports, predicted, input_type):
    sent, expected = predicted
    got = served.answers(exports[input_type], sent, input_type)
    assert got['num_detections'].min() > 0
    served.require_close(got, expected, 1e-4)
    if input_type == 'image_tensor':
        served.require_clients(exports[input_type], sent, got)


def test_what_is_batched_and_what_of_it_is_image():
    task = make_task()
    assert task.pads_batches()
    assert not make_task(FIXED).pads_batches()
    small, wide = np.full([32, 32, 3], 255, np.uint8), np.full([32, 64, 3], 255, np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        examples = [
            task.prepare(
                {
                    fields.IMAGE: tf.constant(image),
                    fields.SOURCE_ID: tf.constant('x'),
                    fields.ORIGINAL_SHAPE: tf.constant(image.shape[:2]),
                    fields.BOXES: tf.constant([[0.0, 0.0, 1.0, 0.5]]),
                    fields.CLASSES: tf.constant([0], tf.int64),
                },
                ModeKeys.EVAL,
            )
            for image in (small, wide)
        ]
        values = session.run(examples)
    assert [features[fields.IMAGE].shape for features, _ in values] == [(64, 64, 3), (48, 96, 3)]
    for _, labels in values:
        np.testing.assert_array_equal(labels[fields.BOXES][0], [0.0, 0.0, 1.0, 0.5])


def features_of(true_shapes, height, width):
    return {
        fields.IMAGE: tf.fill([len(true_shapes), height, width, 3], 255.0),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[*shape, 3] for shape in true_shapes]),
    }


def test_the_forward_pass_takes_sizes_at_run_time():
    task = make_task()
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        images = tf1.placeholder(tf.float32, [None, None, None, 3])
        shapes = tf1.placeholder(tf.int32, [None, 3])
        features = {fields.IMAGE: images, fields.TRUE_IMAGE_SHAPE: shapes}
        predictions = task.predict(features, ModeKeys.TRAIN)
        session.run(tf1.global_variables_initializer())
        white = np.full([2, 64, 96, 3], 255.0)
        found = session.run(predictions, {images: white, shapes: [[64, 64, 3], [48, 96, 3]]})
        other = session.run(
            predictions[fields.ANCHORS], {images: white[:, :32], shapes: [[32, 96, 3]] * 2}
        )
    # Cells of 8 and of 16 pixels, with two anchors each.
    assert found[fields.ANCHORS].shape == (2 * (8 * 12 + 4 * 6), 4)
    assert found[fields.BOX_ENCODINGS].shape == (2, *found[fields.ANCHORS].shape)
    assert other.shape == (2 * (4 * 12 + 2 * 6), 4)
    # The first cell's center, 4 pixels from the border, and its square of 16 pixels.
    np.testing.assert_allclose(found[fields.ANCHORS][0], [-4 / 64, -4 / 96, 12 / 64, 12 / 96])
    preprocessed = found[fields.PREPROCESSED]
    np.testing.assert_allclose(preprocessed[0, :, :64], 1.0)
    np.testing.assert_array_equal(preprocessed[0, :, 64:], 0.0)
    np.testing.assert_allclose(preprocessed[1, :48], 1.0)
    np.testing.assert_array_equal(preprocessed[1, 48:], 0.0)


def test_detections_are_clipped_to_the_image_and_normalized_to_it():
    task = make_task()
    with tf.Graph().as_default(), tf1.Session() as session:
        features = features_of([(64, 48), (32, 96)], 64, 96)
        predictions = {
            fields.PREPROCESSED: features[fields.IMAGE],
            fields.ANCHORS: tf.constant([[0.25, 0.25, 0.75, 0.75], [0.6, 0.6, 0.9, 0.9]]),
            fields.BOX_ENCODINGS: tf.zeros([2, 2, 4]),
            fields.CLASS_LOGITS: tf.constant([[[-9.0, 9.0, -9.0], [-9.0, -9.0, 8.0]]] * 2),
        }
        found = session.run(task.postprocess(predictions, features))
    # The second anchor lies on the padding of both images.
    np.testing.assert_array_equal(found[fields.NUM_DETECTIONS], [1, 1])
    np.testing.assert_array_equal(found[fields.DETECTION_CLASSES][:, 0], [1, 1])
    np.testing.assert_allclose(
        found[fields.DETECTION_BOXES][:, 0], [[0.25, 0.5, 0.75, 1.0], [0.5, 0.25, 1.0, 0.75]]
    )


def test_losses_compare_in_the_frame_of_the_padded_input():
    task = make_task()
    anchors = [[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]
    with tf.Graph().as_default(), tf1.Session() as session:
        features = features_of([(64, 48), (32, 96)], 64, 96)
        predictions = {
            fields.PREPROCESSED: features[fields.IMAGE],
            fields.ANCHORS: tf.constant(anchors),
            fields.BOX_ENCODINGS: tf.zeros([2, 2, 4]),
            fields.CLASS_LOGITS: tf.zeros([2, 2, 3]),
        }
        labels = {
            # The first anchor in the frames of both images.
            fields.BOXES: tf.constant([[[0.0, 0.0, 0.5, 1.0]], [[0.0, 0.0, 1.0, 0.5]]]),
            fields.CLASSES: tf.constant([[[1.0, 0.0]]] * 2),
            fields.WEIGHTS: tf.ones([2, 1]),
            fields.NUM_BOXES: tf.constant([1, 1]),
        }
        losses = session.run(task.losses(predictions, features, labels))
    assert losses[ssd.LOCALIZATION_LOSS] == pytest.approx(0.0, abs=1e-9)
    # Focal loss of logits of 0: 1/4 of log 2; of 4 anchors with 3 columns 2 are positives (0.25 as
    # much), the others negatives (0.75 as much); over two matches.
    expected = (2 * 0.25 + 10 * 0.75) * 0.25 * np.log(2) / 2
    assert losses[ssd.CLASSIFICATION_LOSS] == pytest.approx(expected, rel=1e-5)


def test_training_batches_are_without_masks_that_nothing_is_learned_from():
    task = make_task(merged='train_input_reader { load_instance_masks: true mask_type: PNG_MASKS }')
    with tf.Graph().as_default():
        example = task.decode(tf1.placeholder(tf.string, []))
        assert fields.MASKS in example
        assert fields.MASKS not in task.prepare(example, ModeKeys.TRAIN)[1]
        assert fields.MASKS in task.prepare(example, ModeKeys.EVAL)[1]


def test_a_network_of_any_input_size_has_the_published_variables():
    """As published: `ssd_mobilenet_v2_fullyconv_coco` has those of the network of fixed inputs."""
    shared = shared_folder()
    path = shared / 'configs' / 'tf1' / 'ssd_mobilenet_v2_coco.config'
    listed = shared / 'spec' / 'variables' / 'ssd_mobilenet_v2_coco.json'
    if not (path.is_file() and listed.is_file()):
        pytest.skip('the published config is not in ../shared')
    config = text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())
    resizer = 'keep_aspect_ratio_resizer { min_dimension: 320 max_dimension: 640 }'
    text_format.Merge(f'model {{ ssd {{ image_resizer {{ {resizer} }} }} }}', config)
    model = detector.build_detector(config.model)
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [None, None, None, 3])
        model.predict(images, tf1.placeholder(tf.int32, [None, 3]), None, is_training=True)
        found = {one.op.name: one.shape.as_list() for one in tf1.global_variables()}
    expected = {name: shape for name, shape, _ in json.loads(listed.read_text())['variables']}
    assert len(expected) == 324
    assert found == expected
