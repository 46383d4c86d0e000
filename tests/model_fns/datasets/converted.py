"""Runs the converter, and reads what it wrote."""

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs, convert


def run(*arguments):
    """The exit status of the command."""
    try:
        convert.main(list(map(str, arguments)))
    except SystemExit as ending:
        return ending.code
    return 0


def write_image(path, height=20, width=30, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codecs.encode_png(np.full([height, width, 3], value, np.uint8)))


def serialized_records(prefix):
    paths = sorted(prefix.parent.glob(prefix.name + '-*.tfrecord'))
    return [one for path in paths for one in tf.compat.v1.io.tf_record_iterator(str(path))]


def records_of(prefix):
    """Features of all records by source id."""
    found = {}
    for serialized in serialized_records(prefix):
        feature = tf.train.Example.FromString(serialized).features.feature
        found[feature['image/source_id'].bytes_list.value[0].decode()] = feature
    return found


def values(feature, key):
    kind = feature[key].WhichOneof('kind')
    return list(getattr(feature[key], kind).value) if kind else []


def boxes(feature):
    """[n, 4], ymin, xmin, ymax, xmax."""
    sides = ('ymin', 'xmin', 'ymax', 'xmax')
    return np.transpose([values(feature, f'image/object/bbox/{side}') for side in sides])


def masks(feature):
    """[n, height, width] of an image's objects."""
    return [tf.io.decode_png(png).numpy()[..., 0] for png in values(feature, 'image/object/mask')]
