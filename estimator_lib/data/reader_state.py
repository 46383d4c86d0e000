"""The reader's position: part of the checkpoint, so that a resumed run continues where it was.

The position is an int64 tensor [num_sources + 1, 3]. The row of a source has the epoch, the index
of the next record in the epoch, and the fingerprint of the files. A negative index is that of all
readers together (`checkpoints/reader_positions.py`). The last row has the number of examples drawn
and the number of records skipped. Each process that reads has its own variable,
which the train op sets and the Saver saves. An iterator starts from that variable when it is
initialized: after variables are restored, in each new session.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.checkpoints import reader_positions
from estimator_lib.checkpoints.checkpoint_files import (
    READER_SCOPE,
    latest_checkpoint,
    open_checkpoint,
)
from estimator_lib.data.record_streams import INDEX_SPAN, first_index, unconverted

tf1 = tf.compat.v1

READER = 'reader'  # the key of the reader's state among the features
COLUMNS = 3
_NAMES_COLLECTION = 'input_reader_names'


class ReaderState(NamedTuple):
    """State of the reader after a batch.

    Attributes:
        position: int64 [num_sources + 1, 3]: position after this batch.
        skipped: int64 scalar: number of corrupt records skipped since training began.
        records: int64 [batch]: ids of the records of this batch, as at `record_streams.FILE_SPAN`.
        sources: int64 [batch]: indices of the sources of the records.
        wait_seconds: float32 scalar: time that the step waited for this batch; None where it is not
            measured (a dataset of a distribution strategy).
    """

    position: tf.Tensor
    skipped: tf.Tensor
    records: Optional[tf.Tensor] = None
    sources: Optional[tf.Tensor] = None
    wait_seconds: Optional[tf.Tensor] = None


def pop_reader_state(features: Dict[str, Any]) -> Tuple[Dict[str, Any], Optional[ReaderState]]:
    """Separate the features from the reader's state.

    Returns:
        The features without the state, and the state; None for features of another `input_fn`.
    """
    features = dict(features)
    state = features.pop(READER, None)
    return features, None if state is None else ReaderState(**state)


def variable_name(reader_name: str) -> str:
    """Return the name of the variable of a reader, named by its process: `chief_0`, `worker_1`."""
    return f'{READER_SCOPE}/{reader_name}/position'


def position_variable(reader_name: str, num_sources: int, **options: Any) -> tf.Variable:
    """Create the variable of a reader's position, with an initial value of zeros.

    Args:
        reader_name: the reader's process, as in `variable_name`.
        num_sources: number of sources of the reader.
        **options: passed to `tf.compat.v1.get_variable`.
    """
    return tf1.get_variable(
        variable_name(reader_name),
        [num_sources + 1, COLUMNS],
        tf.int64,
        tf1.zeros_initializer(),
        trainable=False,
        use_resource=True,
        **options,
    )


def create_position_variables(
    reader_names: Sequence[str], own: int, num_sources: int
) -> List[tf.Variable]:
    """Create the variables of all readers, which the chief saves."""
    remember_names(reader_names, own)
    return [position_variable(name, num_sources) for name in reader_names]


def remember_names(reader_names: Sequence[str], own: int) -> None:
    """Store the names of the readers in the graph for `advance_position`, this one first."""
    tf1.get_collection_ref(_NAMES_COLLECTION)[:] = [reader_names[own], *reader_names]


def advance_position(state: ReaderState) -> tf.Operation:
    """Return the op that sets the saved position to that of this batch; part of the train op.

    Under a distribution strategy it is called in replica context. Several replicas then share a
    reader, which gives one batch to each of them at a step: the last one's position counts.
    """
    own, *names = tf1.get_collection(_NAMES_COLLECTION)
    if not tf.distribute.has_strategy():
        own_name = variable_name(own)
        (variable,) = (each for each in tf1.global_variables() if each.name == f'{own_name}:0')
        return variable.assign(state.position, read_value=False)
    context = tf.distribute.get_replica_context()
    replicas_each = max(1, context.num_replicas_in_sync // len(names))
    replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
    is_last = tf.equal(replica % replicas_each, replicas_each - 1)
    # All replicas must assign, and the only one that an aggregation can single out is the first
    # (ONLY_FIRST_REPLICA). The sum of the last one's position and zeros is that position.
    updates = []
    for index, name in enumerate(names):
        counts = tf.logical_and(tf.equal(replica // replicas_each, index), is_last)
        variable = position_variable(
            name, state.position.shape[0] - 1, aggregation=tf.VariableAggregation.SUM
        )
        updates.append(
            variable.assign(tf.where(counts, state.position, tf.zeros_like(state.position)))
        )
    return tf.group(updates)


def read_position(
    model_dir: Optional[str], reader_names: Sequence[str], own: int, num_sources: int
) -> np.ndarray:
    """Read the position from the latest checkpoint of a folder; zeros when none fits.

    Args:
        model_dir: the folder.
        reader_names: the processes of all readers, as in `variable_name`.
        own: index of this reader among them.
        num_sources: number of sources of the reader.

    Returns:
        int64 [num_sources + 1, COLUMNS].
    """
    zeros = np.zeros([num_sources + 1, COLUMNS], np.int64)
    checkpoint = latest_checkpoint(model_dir) if model_dir else None
    if checkpoint is None:
        return zeros
    names = [variable_name(reader_name) for reader_name in reader_names]
    moved = reader_positions.moved_positions(checkpoint, names, zeros.shape)
    if moved:
        return moved[names[own]]
    reader, name = open_checkpoint(checkpoint), names[own]
    if reader.get_variable_to_shape_map().get(name) != list(zeros.shape):
        return zeros
    try:
        return reader.get_tensor(name)
    except tf.errors.OpError:  # restoring the same variable reports the error
        return zeros


def valid_start(position: tf.Tensor, fingerprints: np.ndarray, num_dividing: int = 1) -> tf.Tensor:
    """Return the position to start from.

    When the files of a source have changed since the position was saved, the source starts its
    epoch again, with a warning on standard error.

    Args:
        position: int64 [num_sources + 1, 3]: the saved position.
        fingerprints: int64 [num_sources]: fingerprints of the present files.
        num_dividing: number of readers that divide the files. The epochs of each are shorter, so
            they can only start about where all readers together were.
    """
    epochs, indices, saved = tf.unstack(position[:-1], axis=1)
    if num_dividing > 1:
        indices = tf.where(indices < 0, first_index(indices) // num_dividing, indices)
    # 0 was saved by nobody: it is the initial value, and no fingerprint is 0.
    changed = tf.logical_and(tf.not_equal(saved, fingerprints), tf.not_equal(saved, 0))

    def warn() -> tf.Operation:
        # In the graph: in a session the position is known only after the restore.
        return tf.print(
            'warning: the input files are not those of the checkpoint; epoch',
            tf.boolean_mask(epochs, changed),
            'starts again.',
            output_stream=sys.stderr,
        )

    with tf.control_dependencies([tf.cond(tf.reduce_any(changed), warn, tf.no_op)]):
        indices = tf.where(changed, tf.zeros_like(saved), indices)
    return tf.concat([tf.stack([epochs, indices, fingerprints], axis=1), position[-1:]], axis=0)


def add_state(
    batches: tf.data.Dataset,
    fingerprints: np.ndarray,
    start: tf.Tensor,
    watch: Optional[Callable[[np.ndarray], Any]] = None,
) -> tf.data.Dataset:
    """Add the reader's state to the features of each batch.

    Args:
        batches: elements ((source index, position, number, record id), features, labels); the
            first four int64 [batch], see `record_streams.create_stream`.
        fingerprints: int64 [num_sources]: fingerprints of the files of each source.
        start: int64 [num_sources + 1, 3]: start of the streams.
        watch: called with the start of each batch: int64 [num_sources].

    Returns:
        Elements (features, labels), the features with `READER`.
    """
    num_sources = len(fingerprints)
    started = start[:-1, 0] * INDEX_SPAN + first_index(start[:-1, 1])
    state = (started, tf.zeros([num_sources], tf.int64), tf.zeros([], tf.int64))

    def advance(state: Tuple[tf.Tensor, ...], batch: Any) -> Any:
        (source_index, position, number, record_ids), features, labels = batch
        positions, counts, drawn = state
        if watch is not None:
            positions = _watch_value(positions, watch)

        def latest(before: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
            # Values only grow, so a source without examples in the batch keeps its value.
            # The maximum of no values is the lowest int64.
            return tf.maximum(
                before, tf.math.unsorted_segment_max(values + 1, source_index, num_sources)
            )

        positions, counts = latest(positions, position), latest(counts, number)
        drawn += tf.size(source_index, out_type=tf.int64)
        # `number` counts the corrupt records of a stream too, and `drawn` the examples alone.
        skipped = start[-1, 1] + tf.reduce_sum(counts) - drawn
        # A source without examples yet keeps a start that is of all readers together.
        indices = tf.where(
            tf.equal(positions, started), start[:-1, 1], tf.math.floormod(positions, INDEX_SPAN)
        )
        rows = tf.stack([positions // INDEX_SPAN, indices, fingerprints], axis=1)
        totals = tf.stack([start[-1, 0] + drawn, skipped, 0])
        reader = {
            'position': tf.concat([rows, totals[tf.newaxis]], axis=0),
            'skipped': skipped,
            'records': record_ids,
            'sources': source_index,
        }
        return (positions, counts, drawn), ({**features, READER: reader}, labels)

    return batches.scan(state, unconverted(advance))


def _watch_value(value: tf.Tensor, watch: Callable[[np.ndarray], Any]) -> tf.Tensor:
    def show(value: np.ndarray) -> np.ndarray:
        watch(value)
        return value

    return tf.ensure_shape(tf.numpy_function(show, [value], value.dtype), value.shape)
