"""Records that a reading leaves out, found by their place or by their source id."""

from __future__ import annotations

import dataclasses
import os
from typing import Dict, Iterator, List, Sequence, Set, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_streams
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import FILE_SPAN, unconverted
from estimator_lib.data.records import count_records
from estimator_lib.task import SOURCE_ID, Task

_FLAG = '--without'
_MOST_NAMES = 2000  # that are searched for a similar one


def leave_out(task: Task, sources: Sequence[Source], names: Sequence[str]) -> Tuple[Source, ...]:
    """Return sources without some records; the others keep positions and augmentation.

    Args:
        task: decodes the source ids.
        sources: the sources of a reading.
        names: source ids, or `file:index` with the path or the name of a file, and the index of
            the record in it, from 0. A record with several frames is left out as a whole.

    Raises:
        errors.DataError: there is no such record, or none is left.
    """
    found: Dict[int, Set[int]] = {source.index: set() for source in sources}
    by_id: List[str] = []
    for name in names:
        places = list(_find_places(sources, name))
        for source_index, record_id in places:
            found[source_index].add(record_id)
        by_id += [] if places else [name]
    if by_id:
        for source_index, record_id in _find_source_ids(task, sources, by_id):
            found[source_index].add(record_id)
    sources = tuple(
        dataclasses.replace(source, without=tuple(sorted(found[source.index])))
        for source in sources
    )
    for source in sources:
        if source.without:
            _require_rest(source)
    return sources


def _find_places(sources: Sequence[Source], name: str) -> Iterator[Tuple[int, int]]:
    """Yield (source index, record id) of a record named `file:index`."""
    # At the last colon: paths have colons too, as in `gs://`.
    path, _, index = name.rpartition(':')
    if not path or not index.isdecimal():
        return
    for source in sources:
        for number, file in enumerate(source.files):
            if path in (file.path, os.path.basename(file.path)):
                yield source.index, number * FILE_SPAN + int(index)


def _find_source_ids(
    task: Task, sources: Sequence[Source], names: Sequence[str]
) -> Iterator[Tuple[int, int]]:
    """Yield (source index, record id) of the records with the given source ids.

    Raises:
        errors.DataError: a name is of no record.
    """
    missing = set(names)
    known: Set[str] = set()
    for source in sources:
        for record_id, source_id in _list_source_ids(task, source):
            if source_id in names:
                missing.discard(source_id)
                yield source.index, record_id
            elif len(known) < _MOST_NAMES:
                known.add(source_id)
    if missing:
        name = min(missing)
        near = errors.nearest(name, known)
        hint = f'; did you mean {near!r}' if near else ''
        raise errors.DataError(
            f'{_FLAG}={name}: no training record has this source id, and it is no place in a file '
            f'(FILE:INDEX){hint}; replay.csv lists both for each example of a step.'
        )


def _list_source_ids(task: Task, source: Source) -> Iterator[Tuple[int, str]]:
    """Yield record id and source id of each record of a source that can be read."""

    def read_id(record_id: tf.Tensor, record: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        return record_id, task.decode(record)[SOURCE_ID]

    with tf.Graph().as_default():
        files = record_streams.file_tensors(source.files)
        records = files.flat_map(
            unconverted(lambda *file: record_streams.read_file(source, file, True))
        )
        # A record that does not decode has no id. The run itself reports or skips it.
        ids = records.map(unconverted(read_id)).ignore_errors()
        for record_id, source_id in record_streams.elements(ids):
            yield int(record_id), source_id.decode('utf-8', 'replace')


def _require_rest(source: Source) -> None:
    """Refuse to leave out records that are not there, or all: the stream would never return."""
    for record_id in source.without:
        file, index = record_streams.locate(source, record_id)
        count = count_records([file])
        if index >= count:
            raise errors.DataError(
                f'{_FLAG}={file.path}:{index}: the file has {count} records; expected an index '
                f'from 0 to {count - 1}.'
            )
    if len(source.without) == count_records(source.files):
        raise errors.DataError(
            f'{_FLAG}: these are all {len(source.without)} records of {source.files[0].path}; '
            'expected to leave some.'
        )
