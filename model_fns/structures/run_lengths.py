"""Masks as COCO's files hold them: run lengths, compressed to text."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np


def encode(mask: np.ndarray) -> Dict[str, Any]:
    """Return a mask, bool [height, width], as `size` and `counts`, which pycocotools reads."""
    # Here: its kernels take a while to load, and few need them.
    from faster_coco_eval.core import mask as coco_masks

    encoded = coco_masks.encode(np.asfortranarray(mask, np.uint8))
    counts = encoded['counts']
    return {
        'size': [int(side) for side in mask.shape],
        'counts': counts.decode() if isinstance(counts, bytes) else counts,
    }
