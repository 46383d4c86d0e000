"""Interface of tasks for analyses of evaluations: errors, curves, statistics of the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence

import numpy as np

from estimator_lib.task_interfaces.tensors import Arrays

if TYPE_CHECKING:
    from estimator_lib.analysis.analyzer import Analyzer
    from estimator_lib.analysis.parts import Part

Resampler = Callable[[np.ndarray], Dict[str, float]]


class Analysis:
    """Optional methods of a task that explain how good its model is."""

    def create_analyzer(self) -> Optional[Analyzer]:
        """Create an analyzer of one evaluation; None: the task has no analysis."""
        return None

    def create_resampler(self, examples: Arrays) -> Optional[Resampler]:
        """Create a function that computes metrics of a sample of an evaluation's examples.

        Args:
            examples: from `Analyzer.examples`.

        Returns:
            A function of the number of times that each example counts, int [n]. It returns metrics
            by their reported names; those that the sample does not define are missing. None: the
            task has no such metrics.
        """
        del examples
        return None

    def label_figures(self, examined: Mapping[str, Sequence[Any]]) -> Sequence[Part]:
        """Return figures and tables about the labels of the data: classes, sizes, issues.

        Args:
            examined: from `examine` for each record, by reader, as in `DataChecks.data_report`.
        """
        del examined
        return ()
