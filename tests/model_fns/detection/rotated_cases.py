"""Recorded numbers of rotated boxes, and boxes drawn at random."""

from __future__ import annotations

import json
from typing import Any, Dict

import numpy as np
import pytest

from tests.conftest import shared_folder


def recorded() -> Dict[str, Any]:
    """Load the recorded cases, or skip the test without them."""
    path = shared_folder() / 'golden' / 'rotated_oracles.json'
    if not path.exists():
        pytest.skip('the recorded cases of rotated boxes, rotated_oracles.json, are not here')
    return json.loads(path.read_text())


def boxes(count: int, seed: int = 1, size: float = 100.0) -> np.ndarray:
    """Generate boxes float64 [count, 5] in a square."""
    random = np.random.RandomState(seed)
    centers, sides = random.uniform(0, size, [count, 2]), random.uniform(2, size / 2, [count, 2])
    return np.concatenate([centers, sides, random.uniform(-4, 4, [count, 1])], axis=1)


def slow_area(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the common area of two rotated boxes [5] by slicing.

    The length that both have of each of many rows, summed. Good to about a hundredth.
    """

    def spans(box: np.ndarray, rows: np.ndarray) -> tuple:
        cy, cx, height, width, angle = box
        low, high = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
        dy = rows - cy
        # |x cos + y sin| <= w/2 and |y cos - x sin| <= h/2 bound x in each row.
        for along, offset, half in (
            (np.cos(angle), dy * np.sin(angle), width / 2),
            (-np.sin(angle), dy * np.cos(angle), height / 2),
        ):
            if abs(along) < 1e-9:
                high = np.where(np.abs(offset) <= half, high, -np.inf)
                continue
            ends = np.sort([(-half - offset) / along, (half - offset) / along], axis=0)
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        return low + cx, high + cx

    reach = np.hypot(first[2], first[3]) / 2
    rows, step = np.linspace(first[0] - reach, first[0] + reach, 4001, retstep=True)
    low, high = zip(spans(first, rows), spans(second, rows))
    return float(np.sum(np.maximum(np.minimum(*high) - np.maximum(*low), 0.0)) * step)
