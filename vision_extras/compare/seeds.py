"""Runs of one config with several seeds: whether a difference is more than their spread."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from estimator_lib import texts
from vision_extras.compare import bootstrap, compare
from vision_extras.compare.bootstrap import Interval
from vision_extras.compare.runs import Run


class Group(NamedTuple):
    """Runs that differ by their seeds.

    Attributes:
        name: of their folder.
        runs: one for each seed.
    """

    name: str
    runs: Sequence[Run]

    def values(self, set_name: str, metric: str) -> List[float]:
        """Return a metric of each run that has it."""
        found = (run.metrics.get(set_name, {}).get(metric) for run in self.runs)
        return [float(value) for value in found if value is not None]


def describe(groups: Sequence[Group]) -> List[str]:
    """Return lines on the main metrics: means and ranges, differences, and what is within noise.

    Args:
        groups: one or more; the others are compared with the first.
    """
    first = groups[0].runs[0]
    lines = []
    for set_name in first.metrics:
        metrics = [run.metrics.get(set_name, {}) for group in groups for run in group.runs]
        intervals = [_intervals(groups[0], other, set_name) for other in groups[1:]]
        lines.append(f'evaluation set {set_name}, mean (least to greatest) of the seeds:')
        for name in compare.shown_names(first, metrics):
            lines += _metric_lines(groups, set_name, name, intervals)
    return lines


def _metric_lines(
    groups: Sequence[Group],
    set_name: str,
    name: str,
    intervals: Sequence[Mapping[str, Interval]],
) -> List[str]:
    values = [group.values(set_name, name) for group in groups]
    shown = [
        f'{group.name} {np.mean(own):.4g} ({min(own):.4g} to {max(own):.4g}, '
        f'{texts.counted(len(own), "seed")})'
        for group, own in zip(groups, values)
        if own
    ]
    title = groups[0].runs[0].task.presentation.metric_title(name)
    lines = [f'  {title}: {", ".join(shown)}']
    spread = max((max(own) - min(own) for own in values if len(own) > 1), default=None)
    if spread is None:
        return lines
    lines.append(f'    a difference below {spread:.3g} is within the spread of the seeds')
    for group, own, known in zip(groups[1:], values[1:], intervals):
        if own and values[0]:
            difference = float(np.mean(own) - np.mean(values[0]))
            verdict = 'within' if abs(difference) < spread else 'beyond'
            interval = known.get(name)
            between = (
                ''
                if interval is None
                else f', 95 % over seeds and images {interval.low:+.4g} to {interval.high:+.4g}'
            )
            lines.append(
                f'    {group.name}: {difference:+.4g}{between}; {verdict} the spread of the seeds'
            )
    return lines


def _intervals(first: Group, other: Group, set_name: str) -> Dict[str, Interval]:
    """Return the intervals of `other - first` over seeds and images; none without examples."""
    resamplers: List[List[bootstrap.Ordered]] = []
    names: Optional[np.ndarray] = None
    for group in (first, other):
        own: List[bootstrap.Ordered] = []
        for run in group.runs:
            sampled = run.resampler(set_name)
            if sampled is None:
                return {}
            names = sampled[0] if names is None else names
            order = bootstrap.find_order(names, sampled[0])
            if order is None:
                return {}
            own.append((sampled[1], order))
        resamplers.append(own)
    before, after = resamplers
    return {} if names is None else bootstrap.grouped_intervals(before, after, len(names))
