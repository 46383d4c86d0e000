"""Rotated bars on dark noise, and a network small enough to detect them in tests."""

import math

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs, records
from model_fns.structures import rotated_rectangles
from model_fns.structures.images import image_header
from model_fns.structures.label_map import LabelMap
from tests import tiny_detection, tiny_two_stage

HEIGHT, WIDTH = 64, 96


def scene(random):
    """Return (uint8 image, boxes [n, 5] in pixels, ids): green bars are 1, blue ones 2."""
    image = random.randint(0, 60, [HEIGHT, WIDTH, 3]).astype(np.uint8)
    boxes, ids = [], []
    rows, columns = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    for column in range(random.randint(1, 3)):
        box = np.array(
            [
                random.uniform(22, HEIGHT - 22),
                48 * column + random.uniform(20, 28),
                random.uniform(9, 13),
                random.uniform(28, 36),
                random.uniform(-math.pi / 2, math.pi / 2),
            ]
        )
        class_id = random.randint(1, 3)
        image[inside(box, rows, columns), class_id] = 230
        boxes.append(box)
        ids.append(class_id)
    return image, np.array(boxes), np.array(ids)


def inside(box, rows, columns):
    """Return a bool mask of the points in a box [5]."""
    cy, cx, height, width, angle = box
    along = (columns - cx) * math.cos(angle) + (rows - cy) * math.sin(angle)
    across = (rows - cy) * math.cos(angle) - (columns - cx) * math.sin(angle)
    return (np.abs(along) <= width / 2) & (np.abs(across) <= height / 2)


def record(image, boxes, ids, name='image'):
    encoded = codecs.encode_png(image)
    features = records.image_features(encoded, image_header(encoded), f'{name}.png', name)
    numbers = rotated_rectangles.to_record(np.reshape(boxes, [-1, 5]), *image.shape[:2])
    for column, key in enumerate(('cy', 'cx', 'h', 'w', 'ang')):
        features[f'image/object/rbbox/{key}'] = numbers[:, column].astype(np.float32)
    features['image/object/class/label'] = ids
    return records.serialize(features)


def write_records(path, count, seed):
    random = np.random.RandomState(seed)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(count):
            writer.write(record(*scene(random), f'{path.stem}_{index}'))


MODEL = (
    tiny_detection.MODEL.replace('num_classes: 2', 'num_classes: 2\n    box_type: ROTATED')
    .replace('faster_rcnn_box_coder { }', 'rotated_box_coder { }')
    .replace('faster_rcnn_box_coder {{ }}', 'rotated_box_coder {{ }}')
    .replace('width: 64', 'width: 80')
    .replace(
        'aspect_ratios: 1.0',
        'aspect_ratios: 3.0 angles: [-1.5708, -1.0472, -0.5236, 0, 0.5236, 1.0472]',
    )
)
TWO_STAGES = (
    tiny_two_stage.MODEL.replace('num_classes: 2', 'num_classes: 2\n    box_type: ROTATED')
    .replace('width: 64', 'width: 80')
    .replace(
        'batch_norm_trainable: true',
        'batch_norm_trainable: true override_base_feature_extractor_hyperparams: true '
        'conv_hyperparams {{ {hyperparams} }}',
    )
    .replace(
        'scales: 0.7 scales: 1.0 aspect_ratios: 1.0',
        'scales: 1.0 aspect_ratios: 3.0 angles: [-1.5708, -1.0472, -0.5236, 0, 0.5236, 1.0472]',
    )
)
REST = tiny_detection.REST.replace(
    'DetectionBoxes_Precision/mAP@.50IOU', 'RotatedBoxes_Precision/mAP@0.5IOU'
).replace('num_steps: 100', 'num_steps: 200')


def config_text(folder, stages=0):
    """Return the config of a single-shot detector, or of one of so many stages."""
    model = MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    if stages:
        model = TWO_STAGES.format(stages=stages, hyperparams=tiny_detection.HYPERPARAMS)
    return model + REST.format(folder=folder)


def write_all(folder, stages=0):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    write_records(folder / 'train.tfrecord', 64, seed=0)
    write_records(folder / 'val.tfrecord', 12, seed=1)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))
    path = folder / 'pipeline.config'
    path.write_text(config_text(folder, stages))
    return path
