"""Interface of analyses of evaluations: errors, curves, metrics of samples."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.task_interfaces.tensors import Arrays, Features, Labels, Tensors

if TYPE_CHECKING:
    from estimator_lib.analysis.parts import ExampleError, Finding, Section

Resampler = Callable[[np.ndarray], Dict[str, float]]


class Analyzer(abc.ABC):
    """Analysis of one pass over a set of examples.

    `fetches` and `drawn` are called once, of an instance that takes no examples; each pass has an
    instance of its own. An analyzer keeps what its numbers need and no images; its docstring states
    the memory for 100,000 examples.
    """

    @abc.abstractmethod
    def fetches(self, features: Features, outputs: Tensors, labels: Labels) -> Tensors:
        """Return the tensors that `add` needs, by name, where the graph is built.

        Args:
            features: features of a batch.
            outputs: the task's outputs of `postprocess`.
            labels: labels of the batch.

        Returns:
            Tensors whose first dimension is the batch. They are fetched for each batch: small ones
            keep the analysis fast.
        """

    def drawn(
        self, features: Features, outputs: Tensors, labels: Labels
    ) -> Tuple[Features, Tensors, Labels]:
        """Return what `Presentation.draw` needs of a batch; by default everything.

        The worst examples stay in memory until the end. So large tensors that no picture shows are
        to be left out, and images are to be uint8.
        """
        return features, outputs, labels

    @abc.abstractmethod
    def add(self, arrays: Arrays) -> Finding:
        """Add one example.

        Args:
            arrays: values of `fetches`, without the batch dimension; views of a batch, which must
                be copied to be kept.
        """

    @abc.abstractmethod
    def finish(self, metrics: Mapping[str, float]) -> Sequence[Section]:
        """Compute the results of all examples.

        Args:
            metrics: the reported metrics of the evaluation by name, as in `metrics.json`.

        Returns:
            Sections of the report, the most important first; empty without examples.
        """

    def examples(self) -> Arrays:
        """Return numbers of each example, from which metrics of other samples can be computed.

        They are written to `examples.npz`, and `Analysis.create_resampler` reads them. Empty: there
        are none.
        """
        return {}

    def advise(self, metrics: Mapping[str, float]) -> Sequence[str]:
        """Return suggestions for a better model, the most important first.

        It takes no examples.

        Args:
            metrics: the reported metrics of an evaluation by name.

        Returns:
            Phrases that begin with what to change: `more images of class cat: ...`.
        """
        del metrics
        return ()

    def late_errors(self, number: int) -> Sequence[ExampleError]:
        """Return the errors of an example that depend on all examples; called after `finish`.

        Args:
            number: of the example, in the order of `add`, from 0.
        """
        del number
        return ()


@dataclasses.dataclass(frozen=True)
class Analysis:
    """Part of a task that explains how good its model is.

    Attributes:
        create_analyzer: creates an analyzer of one evaluation.
        create_resampler: creates a function from the number of times that each example counts,
            int [n], to metrics by their reported names; those that the sample does not define are
            missing. The argument is what `Analyzer.examples` returned. None: no such metrics.
    """

    create_analyzer: Callable[[], Analyzer]
    create_resampler: Optional[Callable[[Arrays], Resampler]] = None
