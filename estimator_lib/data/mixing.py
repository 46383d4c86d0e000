"""Streams of examples that are combined with others, for mosaics and mixtures of images.

The partners of an example are drawn among the `POOL` examples that follow it in the stream. The
order of the stream is a function of the seed and the epoch, and the draw a function of the seed and
the example's position, so the same examples are combined in every run. Partners follow, and do not
precede: a stream that resumes at an example reads all its partners again, so no example has to be
kept in a checkpoint. Each example is decoded once, though it appears in several results.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.data.record_streams import unconverted
from estimator_lib.task_interfaces import training_step
from estimator_lib.task_interfaces.tensors import Example, Mixing

# More examples would take more memory and delay the first batch. Fewer would show an image several
# times in a batch.
POOL = 16

_SIZE = POOL + 1
_SALT = 1 << 42  # larger than the seeds of streams

Place = Tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def mix_examples(
    examples: tf.data.Dataset,
    mixings: Sequence[Mixing],
    stream_seed: int,
    finish: Callable[[Example, tf.Tensor], Any],
    num_parallel_calls: int,
    find_step: Callable[[tf.Tensor], Optional[tf.Tensor]],
) -> tf.data.Dataset:
    """Combine the examples of an endless stream with their partners.

    Args:
        examples: elements (number, position, record id, example); the examples have been varied
            for the first mixing.
        mixings: applied one after the other, at least one; each combines the results of the one
            before.
        stream_seed: seed of the stream; with the position it is the seed of an example.
        finish: called with the result of the last mixing and its seed.
        num_parallel_calls: number of examples that are combined at a time.
        find_step: returns the training step of an example by its number in the stream, or None.

    Returns:
        Elements (number, position, record id, result of `finish`).
    """
    following = [*(mixing.vary for mixing in mixings[1:]), finish]
    for index, (mixing, then) in enumerate(zip(mixings, following)):
        draw_seed = stream_seed + (index + 1) * _SALT
        groups = _group(examples, mixing.num_examples, draw_seed)
        examples = groups.map(
            unconverted(_combiner(mixing, then, stream_seed, find_step)),
            num_parallel_calls,
            deterministic=True,
        )
    return examples


def _combiner(
    mixing: Mixing,
    then: Callable[[Example, tf.Tensor], Any],
    stream_seed: int,
    find_step: Callable[[tf.Tensor], Optional[tf.Tensor]],
):
    def combine(place: Place, group: Sequence[Example]) -> Any:
        number, position, record_id = place
        seed = tf.stack([tf.constant(stream_seed, tf.int64), position])
        with training_step.provide(find_step(number)):
            return number, position, record_id, then(mixing.combine(group, seed), seed)

    return combine


def _group(examples: tf.data.Dataset, count: int, draw_seed: int) -> tf.data.Dataset:
    """Build elements (place, examples): each example, followed by `count - 1` partners.

    The last examples are in a ring of tensor lists, a list for each tensor of an example: tensors
    of several sizes are kept without copies.
    """
    specs = tf.nest.flatten(examples.element_spec)

    def add(state: Any, *element: Any) -> Any:
        total, rings = state
        index = tf.cast(total % _SIZE, tf.int32)
        rings = [
            tf.raw_ops.TensorListSetItem(input_handle=ring, index=index, item=item)
            for ring, item in zip(rings, tf.nest.flatten(element))
        ]
        # The oldest example has all its partners in the ring. Until the ring is full there is
        # nothing but the newest one; these elements are skipped.
        oldest = tf.where(total < POOL, index, (index + 1) % _SIZE)
        *place, first = _take(rings, specs, oldest, examples.element_spec)
        offsets = _draw_offsets(tf.stack([tf.constant(draw_seed, tf.int64), place[1]]), count - 1)
        group = [first]
        for offset in offsets:
            at = tf.where(total < POOL, index, (oldest + offset) % _SIZE)
            group.append(_take(rings, specs, at, examples.element_spec)[-1])
        return (total + 1, tuple(rings)), (tuple(place), tuple(group))

    rings = tuple(
        tf.raw_ops.TensorListReserve(
            element_shape=tf.constant(-1), num_elements=_SIZE, element_dtype=spec.dtype
        )
        for spec in specs
    )
    return examples.scan((tf.constant(0, tf.int64), rings), unconverted(add)).skip(POOL)


def _draw_offsets(seed: tf.Tensor, count: int) -> List[tf.Tensor]:
    """Draw distinct numbers from 1 to `POOL`: int32 scalars."""
    # The places of the largest of some uniform draws are a random choice without repeats.
    draws = tf.raw_ops.StatelessRandomUniform(shape=[POOL], seed=seed)
    return tf.unstack(tf.math.top_k(draws, count).indices + 1)


def _take(rings: Sequence[tf.Tensor], specs: Sequence[Any], index: tf.Tensor, structure: Any):
    """Return the element at an index of the ring."""
    items = []
    for ring, spec in zip(rings, specs):
        item = tf.raw_ops.TensorListGetItem(
            input_handle=ring,
            index=index,
            element_shape=tf.constant(-1),
            element_dtype=spec.dtype,
        )
        # A tensor list gives up the static rank, which decoding and batching need.
        item.set_shape(spec.shape)
        items.append(item)
    return tf.nest.pack_sequence_as(structure, items)
