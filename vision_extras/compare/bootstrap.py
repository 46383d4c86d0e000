"""Paired bootstrap of the difference of two models on the same examples (Efron 1979)."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

import numpy as np

from estimator_lib.task_interfaces.analysis import Resampler

SAMPLES = 1000
PERCENTILES = (2.5, 97.5)  # 95 % of the samples

_SEED = 0


class Interval(NamedTuple):
    """Interval of a difference.

    Attributes:
        low: the percentile 2.5 of the samples.
        high: the percentile 97.5.
    """

    low: float
    high: float


def find_order(first: np.ndarray, second: np.ndarray) -> Optional[np.ndarray]:
    """Find the examples of one evaluation in another.

    Args:
        first: names of the examples, [n].
        second: names of those of the other evaluation.

    Returns:
        int [n], the index in `first` of each example of `second`; None if the examples are not the
        same. Examples of equal names are taken in their order.
    """
    ranks = np.argsort(first, kind='stable'), np.argsort(second, kind='stable')
    if len(first) != len(second) or not np.array_equal(first[ranks[0]], second[ranks[1]]):
        return None
    order = np.empty(len(second), np.int64)
    order[ranks[1]] = ranks[0]
    return order


def paired_intervals(first: Resampler, second: Resampler, order: np.ndarray) -> Dict[str, Interval]:
    """Compute the interval of `second - first` of each metric.

    Each sample draws as many examples as there are, with replacement, the same ones of both models.
    The result is the same in each call.

    Args:
        first: metrics of a sample of one model, see `Analysis.create_resampler`.
        second: the same of the other model.
        order: from `find_order`.

    Returns:
        The intervals by metric; metrics that no sample defines for both models are missing.
    """
    random = np.random.default_rng(_SEED)
    differences: Dict[str, List[float]] = {}
    count = len(order)
    for _ in range(SAMPLES if count else 0):
        weights = np.bincount(random.integers(count, size=count), minlength=count)
        before, after = first(weights), second(weights[order])
        for name in before.keys() & after.keys():
            differences.setdefault(name, []).append(after[name] - before[name])
    return {
        name: Interval(*map(float, np.percentile(values, PERCENTILES)))
        for name, values in sorted(differences.items())
    }
