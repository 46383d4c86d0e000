"""Records that are sequences of frames: which of the frames become examples."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

AT_RANDOM = -1

_unconverted = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class Sequences:
    """How the records of a source become examples.

    Attributes:
        split: from a record to the serialized examples of its frames. What cannot be split it gives
            back as it is, so that decoding says what is wrong.
        frame: the index of the frame that is taken of each (the last one where there are fewer), or
            `AT_RANDOM`; None: all are.
    """

    split: Callable[[bytes], Sequence[bytes]]
    frame: Optional[int] = None

    def all_frames(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """A dataset of (record id, record) with a record for each frame, where all are taken."""
        if self.frame is not None:
            return dataset

        def frames_of(record_id: tf.Tensor, record: tf.Tensor) -> tf.data.Dataset:
            frames = tf.numpy_function(self._frames, [record], tf.string)
            frames = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(frames, [None]))
            return frames.map(_unconverted(lambda frame: (record_id, frame)))

        return dataset.flat_map(_unconverted(frames_of))

    def one_frame(self, stream: tf.data.Dataset, seed: int) -> tf.data.Dataset:
        """Return a stream with a frame in place of each record, where one is taken.

        Args:
            stream: elements (position, (record id, record)).
            seed: with a record's position, decides which frame is taken at random.

        Returns:
            Such a stream; a sequence without frames has none.
        """
        if self.frame is None:
            return stream

        def frame_of(position: tf.Tensor, rest: Any) -> tf.data.Dataset:
            record_id, record = rest
            pair = tf.stack([tf.constant(seed, tf.int64), position])
            draw = tf.random.stateless_uniform([], pair, dtype=tf.float64)
            frames = tf.numpy_function(self._frame, [record, draw], tf.string)
            frames = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(frames, [None]))
            return frames.map(_unconverted(lambda frame: (position, (record_id, frame))))

        return stream.flat_map(_unconverted(frame_of))

    def _frames(self, record: bytes) -> np.ndarray:
        return np.array(self.split(record), object)

    def _frame(self, record: bytes, draw: float) -> np.ndarray:
        frames = self.split(record)
        index = int(draw * len(frames)) if self.frame == AT_RANDOM else self.frame
        return np.array(frames[min(index, len(frames) - 1) :][:1], object)
