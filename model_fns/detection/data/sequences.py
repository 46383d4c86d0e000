"""Sequences of images: the frames of a `tf.train.SequenceExample` as records of single images.

The keys are those of the Object Detection API. The context has the features that all frames share
(`image/format`, `image/context_features`). Feature lists have those of each frame: `image/encoded`,
`image/source_id`, `region/bbox/*`, `region/label/*`.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

import tensorflow as tf

_IMAGE = 'image/encoded'
_IS_ANNOTATED = 'region/is_annotated'

# Keys of a record of a single image by the keys of a frame's lists.
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
    """Split a sequence into its frames, each a serialized `tf.train.Example`.

    Frames without annotations (`region/is_annotated` 0) are dropped, because the published system
    gives them no loss and does not count their detections. Without that key all frames count as
    annotated.

    Args:
        serialized: a serialized `tf.train.SequenceExample`. Other bytes, and sequences with lists
            of different lengths (see `find_problem`), are returned unchanged as the only record.
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


def find_problem(serialized: bytes) -> Optional[str]:
    """Describe why a sequence cannot be decoded as an example; None for other bytes."""
    sequence = _parse(serialized)
    if sequence is None:
        return None
    return _uneven(sequence) or (
        'a tf.train.SequenceExample; expected a tf.train.Example, or in the input reader '
        'input_type: TF_SEQUENCE_EXAMPLE'
    )


def _parse(serialized: bytes) -> Optional[tf.train.SequenceExample]:
    """Parse a sequence; None for other bytes, including a `tf.train.Example`."""
    try:
        sequence = tf.train.SequenceExample.FromString(serialized)
    except Exception:  # protobuf's DecodeError, whose class depends on the runtime
        return None
    return sequence if sequence.feature_lists.feature_list else None


def _read_keys(lists: Mapping[str, Any]) -> List[str]:
    """List the feature lists that are read; further lists may have other lengths."""
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
    # The context first: a list of the frame replaces a feature of the same key.
    example.features.CopyFrom(sequence.context)
    lists = sequence.feature_lists.feature_list
    for key in _read_keys(lists):
        if lists[key].feature and key != _IS_ANNOTATED:
            name = OF_REGIONS.get(key, key)
            example.features.feature[name].CopyFrom(lists[key].feature[index])
    return example
