"""Records that are sequences of frames, and their splitting into examples."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

AT_RANDOM = -1

_unconverted = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Splitting of the records of a source into frames.

    Attributes:
        split: maps a record to the serialized examples of its frames. It returns a malformed record
            unchanged, so that decoding reports the problem.
        frame: index of the frame to take of each record (the last frame of a shorter record), or
            `AT_RANDOM`; None: all frames.
    """

    split: Callable[[bytes], Sequence[bytes]]
    frame: Optional[int] = None

    def all_frames(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Replace each record of (record id, record) by its frames, if all are taken."""
        if self.frame is not None:
            return dataset

        def split_record(record_id: tf.Tensor, record: tf.Tensor) -> tf.data.Dataset:
            frames = tf.numpy_function(self._frames, [record], tf.string)
            frames = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(frames, [None]))
            return frames.map(_unconverted(lambda frame: (record_id, frame)))

        return dataset.flat_map(_unconverted(split_record))

    def one_frame(self, stream: tf.data.Dataset, seed: int) -> tf.data.Dataset:
        """Replace each record of a stream by one of its frames, if one is taken.

        Args:
            stream: elements (position, (record id, record)).
            seed: decides, with a record's position, the random frame.

        Returns:
            A stream of the same form; a sequence without frames is dropped.
        """
        if self.frame is None:
            return stream

        def pick_frame(position: tf.Tensor, rest: Any) -> tf.data.Dataset:
            record_id, record = rest
            pair = tf.stack([tf.constant(seed, tf.int64), position])
            draw = tf.random.stateless_uniform([], pair, dtype=tf.float64)
            frames = tf.numpy_function(self._frame, [record, draw], tf.string)
            frames = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(frames, [None]))
            return frames.map(_unconverted(lambda frame: (position, (record_id, frame))))

        return stream.flat_map(_unconverted(pick_frame))

    def _frames(self, record: bytes) -> np.ndarray:
        # As objects: NumPy's own type of bytes cuts zero bytes off at the end of each.
        return np.array(self.split(record), object)

    def _frame(self, record: bytes, draw: float) -> np.ndarray:
        frames = self.split(record)
        index = int(draw * len(frames)) if self.frame == AT_RANDOM else self.frame
        # A slice, since a sequence may have no frame at all.
        return np.array(frames[min(index, len(frames) - 1) :][:1], object)
