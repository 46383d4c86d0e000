"""Sequences of images: the frames of a `tf.train.SequenceExample` as records of one image each.

The keys are those of the Object Detection API: what all frames share is in the context
(`image/format`, `image/context_features`), what each has in feature lists: `image/encoded`,
`image/source_id`, `region/bbox/*`, `region/label/*`.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

import tensorflow as tf

_IMAGE = 'image/encoded'
_IS_ANNOTATED = 'region/is_annotated'

# A frame's lists by the keys that a record of one image has them under.
OF_REGIONS = {
    **{
        f'region/bbox/{side}': f'image/object/bbox/{side}'
        for side in ('ymin', 'xmin', 'ymax', 'xmax')
    },
    'region/label/string': 'image/object/class/text',
    'region/label/index': 'image/object/class/label',
    'region/label/confidence': 'image/object/weight',
}


def split(serialized: bytes) -> List[bytes]:
    """Return the frames of a sequence, each a serialized `tf.train.Example`.

    Frames that nobody has annotated (`region/is_annotated` 0) are left out: the published system
    gives them no loss and does not count their detections. Where the key is missing all are.

    Args:
        serialized: a `tf.train.SequenceExample`. What is none, or has lists that do not go
            together (see `problem_with`), comes back as it is, alone.
    """
    sequence = _parse(serialized)
    if sequence is None or _uneven(sequence):
        return [serialized]
    lists = sequence.feature_lists.feature_list
    return [
        _frame(sequence, index).SerializeToString()
        for index in range(len(lists[_IMAGE].feature))
        if _is_annotated(lists, index)
    ]


def problem_with(serialized: bytes) -> Optional[str]:
    """What is wrong with a sequence that is to be decoded; None for what is no sequence."""
    sequence = _parse(serialized)
    if sequence is None:
        return None
    return _uneven(sequence) or (
        'a tf.train.SequenceExample; expected a tf.train.Example, or in the input reader '
        'input_type: TF_SEQUENCE_EXAMPLE'
    )


def _parse(serialized: bytes) -> Optional[tf.train.SequenceExample]:
    """Return the sequence; None for other bytes, those of a `tf.train.Example` among them."""
    try:
        sequence = tf.train.SequenceExample.FromString(serialized)
    except Exception:  # protobuf's DecodeError, of which there is one a runtime
        return None
    return sequence if sequence.feature_lists.feature_list else None


def _read_keys(lists: Mapping[str, Any]) -> List[str]:
    """The feature lists that are read: another program may keep lists of other lengths beside."""
    return [
        key
        for key in sorted(lists)
        if key.startswith('image/') or key in OF_REGIONS or key == _IS_ANNOTATED
    ]


def _uneven(sequence: tf.train.SequenceExample) -> Optional[str]:
    lists = sequence.feature_lists.feature_list
    if _IMAGE not in lists:
        return f'a tf.train.SequenceExample without {_IMAGE}; expected a list of it'
    count = len(lists[_IMAGE].feature)
    for key in _read_keys(lists):
        if len(lists[key].feature) not in (0, count):
            return (
                f'{key} has {len(lists[key].feature)} frames; expected {count}, as many as {_IMAGE}'
            )
    return None


def _is_annotated(lists: Mapping[str, Any], index: int) -> bool:
    if _IS_ANNOTATED not in lists or not lists[_IS_ANNOTATED].feature:
        return True
    return any(lists[_IS_ANNOTATED].feature[index].int64_list.value)


def _frame(sequence: tf.train.SequenceExample, index: int) -> tf.train.Example:
    example = tf.train.Example()
    example.features.CopyFrom(sequence.context)
    lists = sequence.feature_lists.feature_list
    for key in _read_keys(lists):
        if lists[key].feature and key != _IS_ANNOTATED:
            name = OF_REGIONS.get(key, key)
            example.features.feature[name].CopyFrom(lists[key].feature[index])
    return example
