from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.accumulation import Metrics
from model_fns.detection.metrics.coco import CocoEvaluator
from model_fns.detection.metrics.evaluator import Evaluator
from model_fns.detection.metrics.open_images import OpenImagesEvaluator
from model_fns.detection.metrics.pascal import PascalEvaluator
from model_fns.detection.metrics.rotated import RotatedEvaluator

tf1 = tf.compat.v1

MAP = 'DetectionBoxes_Precision/mAP'


class Recorder(Evaluator):
    """Reports nothing, and keeps what it was given where a test finds it."""

    def __init__(self):
        super().__init__({1: 'one', 2: 'two', 3: 'three'})
        self.images = {}

    def clear(self):
        self.images.clear()

    def names(self):
        return ['images', 'not told']

    def add_image(self, image_id, groundtruth, detections):
        self.images[image_id] = (groundtruth, detections)

    def evaluate(self):
        return {'images': float(len(self.images))}


def batch(source_ids, **changed):
    """Build images of 200 x 400, shown in the upper half of an input of 100 x 100."""
    size = len(source_ids)
    arrays = {
        fields.IMAGE: np.zeros([size, 100, 100, 3], np.float32),
        fields.TRUE_IMAGE_SHAPE: np.tile([50, 100, 3], [size, 1]).astype(np.int32),
        fields.ORIGINAL_SHAPE: np.tile([200, 400], [size, 1]).astype(np.int32),
        fields.SOURCE_ID: np.array(source_ids, object),
        # One object in three rows: the lower right quarter of the image, whatever pads it.
        fields.BOXES: np.tile(
            np.array([[0.5, 0.5, 1.0, 1.0], [0, 0, 0, 0], [0, 0, 0, 0]], np.float32), [size, 1, 1]
        ),
        fields.CLASSES: np.tile(np.eye(3, dtype=np.float32)[[1, 0, 0]], [size, 1, 1]),
        fields.NUM_BOXES: np.ones([size], np.int32),
        fields.AREA: np.zeros([size, 3], np.float32),
        fields.DETECTION_BOXES: np.tile(
            np.array([[0.5, 0.5, 1.0, 1.0], [0, 0, 0, 0]], np.float32), [size, 1, 1]
        ),
        fields.DETECTION_SCORES: np.tile(np.array([0.75, 0.0], np.float32), [size, 1]),
        fields.DETECTION_CLASSES: np.tile(np.array([2.0, 1.0], np.float32), [size, 1]),
        fields.NUM_DETECTIONS: np.ones([size], np.float32),
    }
    for flag in (fields.IS_CROWD, fields.DIFFICULT, fields.GROUP_OF):
        arrays[flag] = np.zeros([size, 3], bool)
    return {**arrays, **changed}


def run(metrics, batches):
    """Return the scalars of an evaluation of these batches."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {
            name: tf1.placeholder(array.dtype, [None, *array.shape[1:]])
            for name, array in batches[0].items()
        }
        created = metrics.create(tensors, tensors, tensors)
        session.run(tf1.local_variables_initializer())
        for one in batches:
            session.run(
                [update for _, update in created.values()],
                {tensors[name]: array for name, array in one.items()},
            )
        return metrics.finish(session.run({name: value for name, (value, _) in created.items()}))


def test_boxes_are_in_pixels_of_the_original_image():
    recorder = Recorder()
    scalars = run(Metrics([recorder]), [batch([b'a'])])
    assert scalars == {'images': 1.0}
    groundtruth, detections = recorder.images['a']
    np.testing.assert_allclose(groundtruth.boxes, [[100, 200, 200, 400]])
    np.testing.assert_allclose(detections.boxes, [[100, 200, 200, 400]])
    assert groundtruth.boxes.dtype == detections.boxes.dtype == np.float32
    assert groundtruth.classes.tolist() == detections.classes.tolist() == [2]
    assert groundtruth.image_classes.tolist() == []
    assert detections.scores.tolist() == [0.75]


def test_classes_that_were_looked_for():
    recorder = Recorder()
    looked_for = np.array([[1, 0, 1]], np.float32)
    run(Metrics([recorder]), [batch([b'a'], **{fields.IMAGE_CLASSES: looked_for})])
    assert recorder.images['a'][0].image_classes.tolist() == [1, 3]


def test_coco_over_batches():
    metrics = Metrics([CocoEvaluator({1: 'one', 2: 'two', 3: 'three'})])
    missed = batch([b'c'], **{fields.NUM_DETECTIONS: np.zeros([1], np.float32)})
    scalars = run(metrics, [batch([b'a', b'b']), missed])
    assert scalars['DetectionBoxes_Recall/AR@1'] == pytest.approx(2 / 3)
    assert scalars[MAP] == pytest.approx(67 / 101)


def test_an_image_counts_once_and_is_named(caplog):
    recorder = Recorder()
    with caplog.at_level(logging.WARNING, 'model_fns'):
        scalars = run(Metrics([recorder]), [batch([b'a', b'b']), batch([b'a', b'c'])])
    assert scalars == {'images': 3.0}
    assert '1 examples have the id of another one and were counted once: a' in caplog.text


def test_boxes_that_were_more_than_there_is_room_for_are_reported(caplog):
    left_out = {fields.NUM_LEFT_OUT: np.array([0, 3, 2], np.int32)}
    with caplog.at_level(logging.WARNING, 'model_fns'):
        run(Metrics([Recorder()]), [batch([b'a', b'b', b'c'], **left_out)])
    assert '5 boxes of 2 images left out' in caplog.text
    assert 'max_number_of_boxes: b, c' in caplog.text


@pytest.mark.parametrize(
    ('evaluator', 'name'),
    [
        (PascalEvaluator, 'PascalBoxes_Precision/mAP@0.5IOU'),
        (OpenImagesEvaluator, 'OpenImagesV2_Precision/mAP@0.5IOU'),
        (RotatedEvaluator, 'RotatedBoxes_Precision/mAP@0.5IOU'),
    ],
)
def test_summaries_are_nan_with_a_reason_where_there_is_nothing_to_find(evaluator, name, caplog):
    prefix = ('PascalBoxes_',) if evaluator is PascalEvaluator else ()
    metrics = Metrics([evaluator({1: 'one', 2: 'two'}, *prefix)])
    nothing = {fields.NUM_BOXES: np.zeros([1], np.int32)}
    with caplog.at_level(logging.WARNING, 'model_fns'):
        scalars = run(metrics, [batch([b'a'], **nothing)])
    assert np.isnan(scalars[name])
    assert not any('one' in key for key in scalars)
    assert 'not a number, because the examples have no objects to find' in caplog.text


def test_messages_name_the_first_images_alone(caplog):
    ids = [f'{index}'.encode() for index in range(20)]
    with caplog.at_level(logging.WARNING, 'model_fns'):
        run(Metrics([Recorder()]), [batch(ids), batch(ids)])
    assert caplog.text.rstrip().endswith('0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...')


def test_images_without_an_id_are_all_counted():
    scalars = run(Metrics([Recorder()]), [batch([b'', b'']), batch([b'', b'a'])])
    assert scalars == {'images': 4.0}


def test_evaluations_do_not_share_images():
    metrics = Metrics([CocoEvaluator({1: 'one', 2: 'two', 3: 'three'})])
    missed = batch([b'a'], **{fields.NUM_DETECTIONS: np.zeros([1], np.float32)})
    assert run(metrics, [missed])[MAP] == 0.0
    assert run(metrics, [batch([b'a'])])[MAP] == pytest.approx(1.0)


def test_an_evaluation_without_images():
    metrics = Metrics([CocoEvaluator({1: 'one'})])
    assert run(metrics, [batch([])])[MAP] == -1.0


def test_the_graph_does_not_grow_with_classes_or_boxes():
    def count(num_classes, rows):
        with tf.Graph().as_default() as graph:
            arrays = batch([b'a'], **{fields.CLASSES: np.zeros([1, rows, num_classes], np.float32)})
            tensors = {
                name: tf1.placeholder(array.dtype, array.shape) for name, array in arrays.items()
            }
            Metrics([Recorder()]).create(tensors, tensors, tensors)
            return len(graph.get_operations())

    assert count(3, 3) == count(90, 100)


def test_a_pass_begins_without_the_images_of_the_one_before():
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {name: tf.constant(array) for name, array in batch([b'a', b'b']).items()}
        tensors[fields.SOURCE_ID] = source_ids = tf1.placeholder(tf.string, [2])
        ((value, update),) = Metrics([Recorder()]).create(tensors, tensors, tensors).values()
        begin = tf1.local_variables_initializer()
        for ids in ([b'a', b'b'], [b'c', b'd'], [b'e', b'a']):
            session.run(begin)
            session.run(update, {source_ids: ids})
            assert session.run(value)[0] == 2.0
        session.run(begin)  # a pass without examples
        assert session.run(value)[0] == 0.0


def with_masks(**changed):
    """Add masks to `batch`: a groundtruth mask with weight 1 and filled detection masks."""
    masks = np.zeros([1, 1, 100, 100], np.uint8)
    masks[0, 0, 37:50, 50:100] = 1  # of the upper half, which is image
    arrays = batch([b'a'])
    return {
        **arrays,
        fields.MASKS: masks,
        fields.MASK_WEIGHTS: np.array([[1.0, 0.0, 0.0]], np.float32),
        fields.DETECTION_MASKS: np.ones([1, 2, 3, 3], np.float32),
        **changed,
    }


def mask_metrics():
    return Metrics([CocoEvaluator({1: 'one', 2: 'two'}, shape=shapes.MASKS, prefix='M_')])


def test_masks_are_compared_in_the_original_image():
    # Between the 2nd and the 3rd of 5 rows is the line: 5/8 of the box are below.
    lower = np.zeros([1, 2, 5, 5], np.float32)
    lower[:, :, 2:] = 1.0
    # The whole box is twice the mask.
    assert run(mask_metrics(), [with_masks()])['M_Precision/mAP'] == pytest.approx(0.1)
    scalars = run(mask_metrics(), [with_masks(**{fields.DETECTION_MASKS: lower})])
    assert scalars['M_Precision/mAP@.75IOU'] == pytest.approx(1.0)


def test_masks_of_one_image_are_not_kept_as_pixels():
    class Kept(Recorder):
        needs = frozenset([fields.MASKS])

    recorder = Kept()
    run(Metrics([recorder]), [with_masks()])
    groundtruth, detections = recorder.images['a']
    assert groundtruth.masks.areas() == pytest.approx(200 * 52, rel=0.02)
    assert detections.masks.areas() == pytest.approx(100 * 200, rel=0.02)
    assert groundtruth.mask_weights.tolist() == [1.0]
    assert sum(len(one['counts']) for one in groundtruth.masks._encoded) < 1000


def test_keypoints_are_in_pixels_of_the_original_image():
    class Kept(Recorder):
        needs = frozenset([fields.KEYPOINTS])

    recorder = Kept()
    points = np.array([[[[0.5, 0.25], [np.nan, np.nan]]]], np.float32)
    more = {
        fields.KEYPOINTS: np.concatenate([points, points, points], axis=1),
        fields.DETECTION_KEYPOINTS: np.concatenate([points, points], axis=1),
    }
    run(Metrics([recorder]), [batch([b'a'], **more)])
    groundtruth, detections = recorder.images['a']
    np.testing.assert_allclose(groundtruth.keypoints, [[[100, 100], [np.nan, np.nan]]])
    np.testing.assert_allclose(detections.keypoints[:, 0], [[100, 100]])
    assert groundtruth.masks is None and detections.masks is None


def test_what_no_evaluator_needs_is_not_fetched():
    recorder = Recorder()
    run(Metrics([recorder]), [with_masks()])
    assert recorder.images['a'][0].masks is None
