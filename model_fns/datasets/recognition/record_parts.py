"""Parts of TFRecords that come as one set: their records are written again, as two files."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence, Tuple

import tensorflow as tf
from google.protobuf import message

from estimator_lib import errors
from estimator_lib.data.records import find_files, usable_records
from model_fns.datasets import records
from model_fns.datasets.files import splits
from model_fns.datasets.recognition.layouts import EVALUATION, TRAIN, Folder

_NAME_KEYS = ('image/filename', 'image/source_id')
_CLASS_KEY = 'image/class/label'


def write_parts(
    patterns: Sequence[str], folder: str
) -> Tuple[Dict[str, List[Folder]], splits.Split]:
    """Split records by groups, and write a file for each part.

    A record has the name of its image's file; where files share names, its source id, and where
    these are shared too, its place in the set. Records that cannot be read are in neither part.

    Args:
        patterns: paths or globs of TFRecord files.
        folder: for the two files; earlier ones are replaced.

    Raises:
        errors.DataError: there are less than two records, or the folder cannot be written to.
    """
    files = find_files(patterns, '--data')
    labels = [_read_labels(record) for record in usable_records(files)]
    names = [str(place) for place in range(len(labels))]
    for column in range(len(_NAME_KEYS)):
        own = [each[column] for each in labels]
        if all(own) and len(set(own)) == len(own):
            names = own
            break
    strata = [each[-1] for each in labels]
    sides = splits.split(names, strata if all(strata) else ())
    chosen = set(sides.evaluation)
    prefixes = {part: os.path.join(os.path.abspath(folder), part) for part in (TRAIN, EVALUATION)}
    train, evaluation = (records.ShardWriter(prefix, 1) for prefix in prefixes.values())
    with train, evaluation:
        for place, record in enumerate(usable_records(files)):
            (evaluation if place in chosen else train).write(record)
    parts = {part: [Folder(records.shard_path(each, 0, 1))] for part, each in prefixes.items()}
    return parts, sides


def _read_labels(record: bytes) -> Tuple[str, ...]:
    """Return the names of a record's image, and its class if it has one; '' for what it lacks."""
    try:
        feature = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        raise errors.DataError('the TFRecords hold something else than tf.train.Example.') from None
    names = [feature[key].bytes_list.value[:1] or [b''] for key in _NAME_KEYS]
    classes = list(feature[_CLASS_KEY].int64_list.value)
    return (*(name.decode('utf-8', 'replace') for (name,) in names), ','.join(map(str, classes)))
