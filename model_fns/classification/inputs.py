"""Classification examples: records to images and labels of static shapes."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE, SOURCE_ID, Example, Features, Labels
from estimator_lib.task_interfaces.batch_specs import ALWAYS, LEARNING, BatchSpec, BatchTensor
from model_fns.structures.channels import THREE_COLORS, Channels
from model_fns.structures.images import MAX_PIXELS
from model_fns.structures.label_map import LabelMap

LABEL = 'label'
SHARES = 'label_shares'
CHANNELS, CLASSES = 'channels', 'classes'  # names of sizes

_FEATURES = (
    BatchTensor(
        IMAGE,
        tf.float32,
        ('batch', 'height', 'width', CHANNELS),
        'scaled as `task.prepare` does',
        ALWAYS,
    ),
    BatchTensor(SOURCE_ID, tf.string, ('batch',), 'name of the example in messages'),
)
_SHARES = BatchTensor(
    SHARES, tf.float32, ('batch', CLASSES), 'shares of the labels where training mixes images'
)
BATCH = BatchSpec(
    _FEATURES,
    (
        BatchTensor(LABEL, tf.int64, ('batch',), 'index of the logit, from 0', LEARNING),
        _SHARES,
    ),
)
MULTI_LABEL_BATCH = BatchSpec(
    _FEATURES,
    (
        BatchTensor(
            LABEL,
            tf.float32,
            ('batch', CLASSES),
            '1 for each class, else 0; NaN: unknown',
            LEARNING,
        ),
        _SHARES,
    ),
)

OFFSET_FIELD = 'model.classification.labels_offset'

_KEYS = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/class/label': tf.io.FixedLenFeature([], tf.int64, -1),
    'image/class/text': tf.io.FixedLenFeature([], tf.string, ''),
    'image/source_id': tf.io.FixedLenFeature([], tf.string, ''),
    'image/filename': tf.io.FixedLenFeature([], tf.string, ''),
}
UNLABELED = -1


def decode(
    serialized: tf.Tensor,
    num_classes: int,
    labels_offset: int,
    label_map: Optional[LabelMap] = None,
    max_pixels: int = MAX_PIXELS,
    channels: Channels = THREE_COLORS,
) -> Example:
    """Decode one record.

    Args:
        serialized: string scalar, a `tf.train.Example` with `image/encoded` and either
            `image/class/label` or, with a label map, `image/class/text`.
        num_classes: how many labels there are.
        labels_offset: the label of logit 0.
        label_map: ids of names, for records that have only those.
        max_pixels: of the image.
        channels: of the image.

    Returns:
        `IMAGE`: uint8 [height, width, channels]; `LABEL`: int64 scalar in [0, num_classes);
        `SOURCE_ID`: string scalar, the file name where the record has no id.
    """
    parsed = tf.io.parse_single_example(serialized, {**_KEYS, **channels.keys()})
    label = parsed['image/class/label']
    if label_map is not None:
        by_name = label_map.lookup(parsed['image/class/text'])
        label = tf.where(tf.equal(label, UNLABELED), by_name, label)
    index = label - labels_offset
    in_range = tf.Assert(
        tf.logical_and(index >= 0, index < num_classes),
        [
            'image/class/label is',
            label,
            f'expected {labels_offset} to {labels_offset + num_classes - 1} '
            f'({OFFSET_FIELD} is {labels_offset})',
        ],
    )
    with tf.control_dependencies([in_range]):
        index = tf.identity(index)
    source_id = parsed['image/source_id']
    return {
        IMAGE: channels.decode(parsed, max_pixels),
        LABEL: index,
        SOURCE_ID: tf.where(tf.equal(source_id, ''), parsed['image/filename'], source_id),
    }


def split(example: Example) -> Tuple[Features, Labels]:
    """Return features and labels of a prepared example."""
    features = {IMAGE: example[IMAGE], SOURCE_ID: example[SOURCE_ID]}
    return features, {name: example[name] for name in (LABEL, SHARES) if name in example}


def label_lines(labels: Mapping[str, np.ndarray], names: Sequence[str]) -> List[str]:
    """Return the name of a label, or the names and shares of the labels of a mixture."""
    if SHARES not in labels:
        return [names[int(labels[LABEL])]]
    shares = labels[SHARES]
    largest = [index for index in np.argsort(-shares, kind='stable')[:2] if shares[index] > 0]
    return [f'{names[index]} {shares[index]:.0%}' for index in largest]
