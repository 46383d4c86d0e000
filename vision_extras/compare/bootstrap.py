"""Paired bootstrap of the difference of two models on the same examples (Efron 1979)."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

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
    same = np.arange(len(order))
    return grouped_intervals([(first, same)], [(second, order)], len(order))


# Metrics of a sample, and the index in a common order of each of its examples.
Ordered = Tuple[Resampler, np.ndarray]


def grouped_intervals(
    first: Sequence[Ordered], second: Sequence[Ordered], count: int
) -> Dict[str, Interval]:
    """Compute the interval of `second - first` of each metric, over runs and examples.

    Each sample draws a run of each group, and as many examples as there are, the same ones of both.

    Args:
        first: the runs of a group, as of several seeds.
        second: those of the other group.
        count: number of examples.

    Returns:
        See `paired_intervals`.
    """
    random = np.random.default_rng(_SEED)
    differences: Dict[str, List[float]] = {}
    for _ in range(SAMPLES if count else 0):
        weights = np.bincount(random.integers(count, size=count), minlength=count)
        before, after = (
            run(weights[order]) for run, order in (_draw(random, first), _draw(random, second))
        )
        for name in before.keys() & after.keys():
            differences.setdefault(name, []).append(after[name] - before[name])
    return {
        name: Interval(*map(float, np.percentile(values, PERCENTILES)))
        for name, values in sorted(differences.items())
    }


def _draw(random: np.random.Generator, runs: Sequence[Ordered]) -> Ordered:
    # A group of one run draws no number, so that its intervals are those of the images alone.
    return runs[0] if len(runs) == 1 else runs[random.integers(len(runs))]
