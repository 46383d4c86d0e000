"""Records of images of more channels, or of more bits, made of those of three colors."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from model_fns.datasets import codecs

KEY = 'image/additional_channels/encoded'


def deep_png(values):
    """Return a gray PNG of uint16 [height, width]."""
    file = io.BytesIO()
    Image.fromarray(values.astype(np.uint16)).save(file, 'PNG')
    return file.getvalue()


def widened(serialized, encode=codecs.encode_png, gray=90):
    """Move the colors of a record's image to further channels; the colors become gray."""
    record = tf.train.Example.FromString(serialized)
    feature = record.features.feature
    image = np.array(Image.open(io.BytesIO(feature['image/encoded'].bytes_list.value[0])))
    feature['image/encoded'].bytes_list.value[:] = [codecs.encode_png(np.full_like(image, gray))]
    parts = [encode(np.ascontiguousarray(image[..., channel])) for channel in range(3)]
    feature[KEY].bytes_list.value[:] = parts
    return record.SerializeToString()


def widen_file(path, encode=codecs.encode_png):
    """Widen all records of a file."""
    records = [each.numpy() for each in tf.data.TFRecordDataset(str(path))]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(widened(record, encode))


def widen_config(text, fields='num_additional_channels: 3'):
    """Add fields to the readers of a config."""
    return text.replace('tf_record_input_reader', f'{fields} tf_record_input_reader')
