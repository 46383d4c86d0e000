"""Classification examples: records to images and labels of static shapes."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.data import record_sources
from estimator_lib.task import IMAGE, SOURCE_ID, Example, Features, Labels
from estimator_lib.task_interfaces.batch_specs import ALWAYS, LEARNING, BatchSpec, BatchTensor
from model_fns.datasets.meaning import annotated, checks, objects
from model_fns.datasets.meaning.annotated import Annotated, Object
from model_fns.datasets.meaning.issues import Issue
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
NO_EXAMPLE = 'not a tf.train.Example'  # problem of a record
_UNLABELED = -1
_MOST_SHOWN = 10  # Labels in a message.


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
        label = tf.where(tf.equal(label, _UNLABELED), by_name, label)
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


def annotate(serialized: bytes) -> Optional[Annotated]:
    """Return the labels of a record as it has them; None: it is no `tf.train.Example`."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # each protobuf runtime has its own DecodeError
        return None
    source = b''.join(features['image/source_id'].bytes_list.value[:1]).decode(errors='replace')
    labels = features['image/class/label'].int64_list.value
    texts = () if labels else features['image/class/text'].bytes_list.value
    known = [Object(source, label=label) for label in labels if label != _UNLABELED]
    known += [Object(source, name=text.decode(errors='replace')) for text in texts]
    digest = annotated.digest(b''.join(features['image/encoded'].bytes_list.value[:1]))
    looked_for = tuple(name.decode() for name in features[record_sources.LABELED].bytes_list.value)
    return Annotated(
        source,
        (0, 0),
        known,
        len(known),
        source_id=source,
        digest=digest,
        looked_for=looked_for,
    )


def find_issues(images: Sequence[Annotated], num_classes: int, labels_offset: int) -> List[Issue]:
    """Return the issues of what all labels together mean.

    Args:
        images: from `annotate`, also of records with unknown labels.
        num_classes: how many labels there are.
        labels_offset: the label of logit 0.
    """
    expected = range(labels_offset, labels_offset + num_classes)
    hint = f'. Set {OFFSET_FIELD}: {1 - labels_offset}' if labels_offset in (0, 1) else ''
    return checks.find(images, more=[objects.Labels(expected, 'labels', hint)])


def class_id(serialized: bytes, label_map: Optional[LabelMap] = None) -> int:
    """Return the label of a valid record."""
    features = tf.train.Example.FromString(serialized).features.feature
    labels = features['image/class/label'].int64_list.value
    if labels and (label_map is None or labels[0] != _UNLABELED):
        return labels[0]
    return label_map.id_of_name(features['image/class/text'].bytes_list.value[0].decode())


def find_problem(
    serialized: bytes,
    num_classes: int,
    labels_offset: int,
    label_map: Optional[LabelMap] = None,
    channels: Channels = THREE_COLORS,
) -> Optional[str]:
    """Describe the first problem of a record, by its keys and values alone; None: it has none."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:
        return NO_EXAMPLE
    if not features['image/encoded'].bytes_list.value:
        return 'no image/encoded'
    wrong = channels.find_problem(features)
    if wrong:
        return wrong
    labels = features['image/class/label'].int64_list.value
    if not labels:
        names = features['image/class/text'].bytes_list.value
        if label_map is None or not names:
            return 'no image/class/label'
        name = names[0].decode(errors='replace')
        return None if name in label_map else f'unknown class {name!r}'
    if len(labels) > 1:
        return f'image/class/label has {len(labels)} values ({_listed(labels)}); expected one'
    last = labels_offset + num_classes - 1
    if not labels_offset <= labels[0] <= last:
        hint = _offset_hint(labels[0], num_classes, labels_offset)
        return f'image/class/label is {labels[0]}; expected {labels_offset} to {last}{hint}'
    return None


def _listed(labels: Sequence[int]) -> str:
    shown = ', '.join(map(str, labels[:_MOST_SHOWN]))
    return f'{shown}, ..' if len(labels) > _MOST_SHOWN else shown


def _offset_hint(label: int, num_classes: int, labels_offset: int) -> str:
    """Return what to set where labels seem to start at 1, or at 0, unlike the config says."""
    if (label, labels_offset) not in ((num_classes, 0), (0, 1)):
        return ''
    first = 1 - labels_offset
    return f'; for labels that start at {first} set {OFFSET_FIELD}: {first}'


def label_lines(labels: Mapping[str, np.ndarray], names: Sequence[str]) -> List[str]:
    """Return the name of a label, or the names and shares of the labels of a mixture."""
    if SHARES not in labels:
        return [names[int(labels[LABEL])]]
    shares = labels[SHARES]
    largest = [index for index in np.argsort(-shares, kind='stable')[:2] if shares[index] > 0]
    return [f'{names[index]} {shares[index]:.0%}' for index in largest]
