"""Regions of many objects, or of none that counts, in records."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from model_fns.datasets import records


def features(is_crowd: Sequence[bool]) -> records.Features:
    """Return the record features that tell which objects training and evaluation ignore.

    Args:
        is_crowd: of each object.
    """
    flags = np.array(is_crowd, np.int64)
    return {
        'image/object/is_crowd': flags,
        # Training ignores a crowd: its box holds many objects.
        'image/object/weight': 1 - flags.astype(np.float32),
    }
