"""Warnings during training about images with more boxes than examples can hold.

An evaluation reports such images at its end, see `metrics.accumulation`. Training is too long to
wait for its end.
"""

from __future__ import annotations

import logging
from typing import Dict

import numpy as np
import tensorflow as tf

from estimator_lib import texts

log = logging.getLogger(__name__)

_MAX_NAMED = 5


class CrowdedImages:
    """Warning of the first crowded image, and again whenever their number is ten times as large.

    Args:
        max_boxes: the largest number of boxes of an example.
    """

    def __init__(self, max_boxes: int):
        self._max_boxes = max_boxes
        self._left_out: Dict[bytes, int] = {}
        self._next_warning = 1

    def counted(self, left_out: tf.Tensor, source_id: tf.Tensor) -> tf.Tensor:
        """Return a number of dropped boxes, and count the image if it is not 0.

        Args:
            left_out: int32 scalar: number of dropped boxes of an image.
            source_id: string scalar: id of the image.
        """
        # In a conditional: a call of Python takes its lock, and hardly any image needs it.
        return tf.cond(
            left_out > 0,
            lambda: tf.ensure_shape(
                tf.numpy_function(self.add, [left_out, source_id], tf.int32), []
            ),
            lambda: left_out,
        )

    def add(self, left_out: np.int32, source_id: bytes) -> np.int32:
        """Count an image and return `left_out`; an image counts once, with its latest number."""
        self._left_out[source_id] = int(left_out)
        if len(self._left_out) >= self._next_warning:
            self._next_warning *= 10
            names = [name.decode('utf-8', 'replace') for name in self._left_out]
            log.warning(
                '%s of %s left out in training, because an image has more than '
                'max_number_of_boxes, %d (max_number_of_boxes: %d has room for all of them): %s',
                texts.counted(sum(self._left_out.values()), 'box', 'boxes'),
                texts.counted(len(names), 'image'),
                self._max_boxes,
                self._max_boxes + max(self._left_out.values()),
                ', '.join(names[:_MAX_NAMED]) + (', ...' if len(names) > _MAX_NAMED else ''),
            )
        return left_out
