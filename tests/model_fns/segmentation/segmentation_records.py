"""Records of images with ids for tests."""

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs
from model_fns.segmentation import fields
from tests.model_fns.datasets.id_files import png

CLASSES = np.array([[0, 1, 2, 255], [2, 2, 0, 0], [1, 0, 0, 0]])
INSTANCES = np.array([[0, 900, 7, 0], [7, 7, 0, 0], [1, 0, 0, 0]])


def record(image=None, classes=CLASSES, instances=INSTANCES, **texts):
    """A serialized example.

    Args:
        image: uint8 [height, width, 3], or the bytes of a file.
        classes: ids or the bytes of a file; None: none.
        instances: the same.
        **texts: `source_id`, `filename`.
    """
    if image is None:
        size = (3, 4) if isinstance(classes, (bytes, type(None))) else classes.shape
        image = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(*size, 3)
    values = {
        'image/encoded': image if isinstance(image, bytes) else codecs.encode_png(image),
        'image/segmentation/class/encoded': as_file(classes, 8),
        'image/segmentation/instance/encoded': as_file(instances, 16),
        **{f'image/{name}': text.encode() for name, text in texts.items()},
    }
    example = tf.train.Example()
    for key, value in values.items():
        if value is not None:
            example.features.feature[key].bytes_list.value.append(value)
    return example.SerializeToString()


def as_file(ids, bits):
    return ids if ids is None or isinstance(ids, bytes) else png(ids, bits)


def write_records(path, serialized):
    """A TFRecord file; its path as text."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for one in serialized:
            writer.write(one)
    return str(path)


def place_example(height, width):
    """Pixels say where they are: row, column and 50; so do ids: 256 * row + column."""
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([rows, columns, np.full_like(rows, 50)], -1).astype(np.uint8)
    ids = (256 * rows + columns).astype(np.int32)
    return {
        fields.IMAGE: image,
        fields.SEMANTIC: ids,
        fields.INSTANCES: ids + 1,
        fields.TRUE_IMAGE_SHAPE: np.array(image.shape, np.int32),
        fields.SOURCE_ID: b'a.png',
    }
