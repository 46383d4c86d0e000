"""The folder of a job: what the bridge feeds is what our side feeds."""

import json

import numpy as np
import tensorflow as tf

from model_fns.detection import fields
from vision_extras.compare.reference import bridge, folders


def test_the_folder_has_what_both_sides_need(compared):
    folder = compared[0] / 'reference'
    job = json.loads((folder / bridge.JOB).read_text())
    assert job == {'num_steps': 2, 'num_images': 3, 'is_fixed_size': True}
    with open(bridge.__file__, encoding='utf-8') as file:
        assert (folder / 'bridge.py').read_text() == file.read()
    assert 'ssd_mobilenet_v1_fpn' in (folder / bridge.CONFIG).read_text()
    assert (folder / 'notes.txt').read_text() == 'mine'
    shapes = tf.train.load_checkpoint(str(folder / bridge.CHECKPOINT)).get_variable_to_shape_map()
    assert 'FeatureExtractor/MobilenetV1/Conv2d_0/weights' in shapes
    assert not [name for name in shapes if 'Adam' in name or name == 'global_step']


def test_batches_are_those_of_training(compared):
    batches = [bridge.read_batch(str(compared[0] / 'reference'), 'training', i) for i in range(2)]
    assert not np.array_equal(batches[0]['images'], batches[1]['images'])
    for batch in batches:
        assert batch['images'].shape == (2, 64, 64, 3) and batch['images'].max() > 200
        for image, boxes, classes, count in zip(
            *(batch[name] for name in ('images', 'boxes', 'classes', 'counts'))
        ):
            assert 1 <= count <= 2
            for box, one_hot in zip(boxes[:count], classes[:count]):
                # As `tiny_detection.scene` draws: the channel 1 or 2 is bright within the box.
                top, left, bottom, right = np.round(box * 64).astype(int)
                channel = 1 + np.argmax(one_hot)
                assert np.all(image[top:bottom, left:right, channel] == 230)


def test_boxes_are_normalized_to_the_padded_image(tmp_path):
    features = {
        fields.IMAGE: np.zeros([1, 8, 4, 3], np.uint8),
        fields.TRUE_IMAGE_SHAPE: np.array([[4, 4, 3]]),
    }
    labels = {
        fields.BOXES: np.array([[[0.0, 0.25, 1.0, 0.5]]], np.float32),
        fields.CLASSES: np.ones([1, 1, 2]),
        fields.WEIGHTS: np.ones([1, 1], np.float32),
        fields.NUM_BOXES: np.array([1]),
    }
    path = bridge.batch_path(str(tmp_path), bridge.TRAINING, 0)
    folders._write_batch(folders.Batch(features, labels), path)
    found = bridge.read_batch(str(tmp_path), bridge.TRAINING, 0)
    np.testing.assert_array_equal(found['boxes'], [[[0.0, 0.25, 0.5, 0.5]]])
    for name in ('training-notes.txt', 'training-1.npz'):
        (tmp_path / name).touch()
    folders.remove_batches(str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        'training-1.npz',
        'training-notes.txt',
    ]
