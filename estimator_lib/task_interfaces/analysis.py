"""Interface of tasks for analyses of evaluations: errors, curves, statistics of the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from estimator_lib.analysis.analyzer import Analyzer
    from estimator_lib.analysis.parts import Figure


class Analysis:
    """Optional methods of a task that explain how good its model is."""

    def create_analyzer(self) -> Optional[Analyzer]:
        """Create an analyzer of one evaluation; None: the task has no analysis."""
        return None

    def label_figures(self, examined: Mapping[str, Sequence[Any]]) -> Sequence[Figure]:
        """Return figures about the labels of the data: classes, sizes.

        Args:
            examined: from `examine` for each record, by reader, as in `DataChecks.data_report`.
        """
        del examined
        return ()
