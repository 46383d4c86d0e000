"""Keypoints of objects as records have them."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from model_fns.datasets import records
from model_fns.structures import images

PER_KEYPOINT = 3  # x, y, visibility

# Visibility of a keypoint: 0 not labeled, 1 labeled and hidden, 2 labeled and seen.
_VISIBLE = 2


def keypoint_features(
    keypoints: Sequence[Sequence[float]], header: images.ImageHeader
) -> records.Features:
    """Return the keypoints of all objects; an object without any gets unlabeled ones.

    Args:
        keypoints: of each object x, y in pixels and visibility of each keypoint; or empty.
        header: the image's size.
    """
    length = max(map(len, keypoints))
    rows = [[*values, *[0] * (length - len(values))] for values in keypoints]
    points = np.array(rows, np.float64).reshape(-1, PER_KEYPOINT)
    is_labeled = points[:, 2] >= 1
    return {
        'image/object/keypoint/x': (points[:, 0] / header.width).astype(np.float32),
        'image/object/keypoint/y': (points[:, 1] / header.height).astype(np.float32),
        'image/object/keypoint/visibility': is_labeled.astype(np.int64) * _VISIBLE,
        'image/object/keypoint/num': is_labeled.reshape(len(keypoints), -1).sum(1),
    }
