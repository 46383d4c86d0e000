"""Checks of the first training examples: boxes exist, and their classes are known."""

from __future__ import annotations

import collections
from typing import Any, Counter, List, Mapping, Sequence, Union

import tensorflow as tf
from google.protobuf import message

from estimator_lib import errors
from model_fns.detection.data.inputs import Reader
from model_fns.structures.label_map import FIRST_ID

_READER = 'train_input_reader'
_MOST_NAMED = 10  # classes of a message


def check(records: Sequence[bytes], are_all: bool, reader: Reader) -> List[str]:
    """Count the boxes of classes that the model does not have, which training ignores.

    Args:
        records: serialized `tf.train.Example`s; malformed ones are skipped, decoding reports them.
        are_all: whether these are all records.
        reader: reader with the known classes.

    Returns:
        Warnings, a sentence each.

    Raises:
        errors.DataError: no box is of a known class, or there are no boxes at all.
    """
    boxes = 0
    unknown: Counter[Union[int, str]] = collections.Counter()
    for record in records:
        classes = _classes(record, reader)
        boxes += len(classes)
        unknown.update(label for label in classes if not _is_known(label, reader))
    examples = f'{_READER}: the {"" if are_all else "first "}{len(records)} examples'
    if records and not boxes:
        if are_all:
            raise errors.DataError(f'{examples} have no boxes: there is nothing to learn from.')
        return [f'{examples} have no boxes']
    if not unknown:
        return []
    named = [f'{label!r} ({count})' for label, count in unknown.most_common()]
    left_out = sum(unknown.values())
    text = (
        f'{examples} have {boxes} boxes, and {left_out} of them are left out, because the model '
        f'has no such classes: {errors.shortened(named, _MOST_NAMED)}'
    )
    if left_out == boxes:
        raise errors.DataError(f'{text}; expected {_expected(reader)}.')
    return [text]


def _classes(record: bytes, reader: Reader) -> Sequence[Union[int, str]]:
    """Return the class of each box: its name if records use names, else its id."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        return []
    names = _values(features, 'image/object/class/text', 'bytes_list')
    if names and reader.label_map is not None:
        return [name.decode('utf-8', 'replace') for name in names]
    return _values(features, 'image/object/class/label', 'int64_list')


def _values(features: Mapping[str, Any], key: str, kind: str) -> Sequence[Any]:
    return list(getattr(features[key], kind).value) if key in features else []


def _is_known(label: Union[int, str], reader: Reader) -> bool:
    if isinstance(label, str):
        if label not in reader.label_map:
            return False
        label = reader.label_map.id_of_name(label)
    return FIRST_ID <= label < FIRST_ID + reader.num_classes


def _expected(reader: Reader) -> str:
    if reader.label_map is None:
        return f'ids from {FIRST_ID} to {FIRST_ID + reader.num_classes - 1}'
    names = list(map(repr, reader.class_names().values()))
    return f'those of the label map: {errors.shortened(names, _MOST_NAMED)}'
