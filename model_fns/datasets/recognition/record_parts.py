"""Parts of TFRecords that come as one set: their records are written again, as two files."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Sequence, Tuple

import tensorflow as tf
from google.protobuf import message

from estimator_lib import errors
from estimator_lib.data import corrupt_records
from estimator_lib.data.records import RecordFile, find_files
from model_fns.datasets import records
from model_fns.datasets.files import splits
from model_fns.datasets.recognition.layouts import EVALUATION, TRAIN, Folder

tf1 = tf.compat.v1

_NAME_KEYS = ('image/filename', 'image/source_id')
_CLASS_KEY = 'image/class/label'


def write_parts(
    patterns: Sequence[str], folder: str
) -> Tuple[Dict[str, List[Folder]], splits.Split]:
    """Split records by groups, and write a file for each part.

    A record has the name of its image's file; where files share names, its source id, and where
    these are shared too, its place in the set.

    Args:
        patterns: paths or globs of TFRecord files.
        folder: for the two files; earlier ones are replaced.

    Raises:
        errors.DataError: there are less than two records, one is corrupt, or the folder cannot be
            written to.
    """
    files = find_files(patterns, '--data')
    labels = [_read_labels(*each) for each in _read(files)]
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
        for place, (_, record) in enumerate(_read(files)):
            (evaluation if place in chosen else train).write(record)
    parts = {part: [Folder(records.shard_path(each, 0, 1))] for part, each in prefixes.items()}
    return parts, sides


def _read(files: Sequence[RecordFile]) -> Iterator[Tuple[str, bytes]]:
    """Yield all records with their places.

    Raises:
        errors.DataError: one is corrupt. Skipping it here would lose it without a trace: the
            training that names corrupt records reads what is written.
    """
    for file in files:
        kind = tf1.io.TFRecordOptions(file.compression)
        index = 0
        try:
            for record in tf1.io.tf_record_iterator(file.path, kind):
                yield f'{file.path}: record {index}', record
                index += 1
        except tf.errors.OpError as error:
            problem = corrupt_records.describe_corrupt_frame(file, index)
            raise errors.DataError(
                f'{file.path}: record {index}: {problem.problem}. Without a part for evaluation '
                'records are written again, which would lose it: repair the file, or add a file '
                'with "val" in its name.'
            ) from error


def _read_labels(place: str, record: bytes) -> Tuple[str, ...]:
    """Return the names of a record's image, and its class if it has one; '' for what it lacks."""
    try:
        feature = tf.train.Example.FromString(record).features.feature
    except message.DecodeError:
        raise errors.DataError(f'{place} is no tf.train.Example.') from None
    names = [feature[key].bytes_list.value[:1] or [b''] for key in _NAME_KEYS]
    classes = list(feature[_CLASS_KEY].int64_list.value)
    return (*(name.decode('utf-8', 'replace') for (name,) in names), ','.join(map(str, classes)))
