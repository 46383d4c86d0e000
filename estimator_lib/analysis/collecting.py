"""Collection of the examples of an evaluation for an analyzer, and of the worst for pictures."""

from __future__ import annotations

import dataclasses
import heapq
import zlib
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.analysis.parts import ExampleError, Section
from estimator_lib.hooks import summaries
from estimator_lib.task_interfaces.analysis import Analysis
from estimator_lib.task_interfaces.tensors import SOURCE_ID, Arrays

tf1 = tf.compat.v1

SHOWN = 32  # examples that are drawn
# Examples that are kept until all errors are known; those with most errors are drawn.
_KEPT = 2 * SHOWN
_LARGE = 1 << 21  # bytes from which an array is kept compressed: masks


@dataclasses.dataclass(frozen=True)
class Place:
    """Name of an example, and where its record is.

    Attributes:
        name: the example's `SOURCE_ID`.
        path: path of the record's file; '' where it is not known.
        index: index of the record in the file, from 0; -1 where it is not known, or the
            file is the record.
    """

    name: str
    path: str = ''
    index: int = -1


@dataclasses.dataclass(frozen=True)
class WorstExample:
    """Example with many errors.

    Attributes:
        place: name and record.
        errors: its errors.
        features: what `Analyzer.drawn` returned, without the batch dimension; the same holds for
            `outputs` and `labels`.
        outputs: outputs of the model.
        labels: the groundtruth.
    """

    place: Place
    errors: Sequence[ExampleError]
    features: Arrays
    outputs: Arrays
    labels: Arrays


@dataclasses.dataclass(frozen=True)
class Analyzed:
    """Results of an analysis.

    Attributes:
        count: number of examples.
        sections: of the report.
        worst: examples with errors, most errors first.
        errors: errors of all examples, in order.
        names: names of the examples, in order.
        examples: numbers of each example, see `Analyzer.examples`.
    """

    count: int
    sections: Sequence[Section]
    worst: Sequence[WorstExample]
    errors: Iterator[Tuple[Place, ExampleError]]
    names: Sequence[bytes] = ()
    examples: Arrays = dataclasses.field(default_factory=dict)


class Collector(tf1.train.SessionRunHook):
    """Hook that passes the examples of an evaluation to the analyzer of a task.

    Args:
        analysis: creates the analyzers.
        locate: returns path and index of a record, by its id; as `RecordInput.locate`.

    Attributes:
        enabled: whether the next passes are analyzed.
    """

    def __init__(self, analysis: Analysis, locate: Callable[[int], Tuple[str, int]]):
        self.enabled = False
        self._create_analyzer = analysis.create_analyzer
        self._locate = locate
        self._fetches: Any = None
        self._clear()

    def _clear(self) -> None:
        self._analyzer: Any = None
        self._count = 0
        self._names: List[bytes] = []
        self._records: List[int] = []
        self._errors: List[Tuple[int, ExampleError]] = []
        # A heap of (badness and number, packed features, outputs and labels), the best first.
        self._worst: List[Tuple[Tuple[float, int], List[Any]]] = []

    def begin(self) -> None:
        """Choose the tensors to fetch."""
        analyzer = self._create_analyzer()
        batch = summaries.offered_examples()
        shown = batch.features, batch.outputs, batch.labels
        records = [] if batch.records is None else [batch.records]
        names = batch.features[SOURCE_ID]
        self._fetches = analyzer.fetches(*shown), analyzer.drawn(*shown), names, records

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Forget the last pass."""
        self._clear()

    def before_run(self, run_context: Any) -> tf1.train.SessionRunArgs:
        """Fetch the batch, in each pass: another graph would have to be compiled."""
        return tf1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: tf1.train.SessionRunValues) -> None:
        """Add each example of the batch, if this pass is analyzed."""
        if not self.enabled:
            return
        if self._analyzer is None:
            self._analyzer = self._create_analyzer()
        arrays, drawn, names, records = run_values.results
        self._names += names.tolist()
        self._records += [record_id for batch in records for record_id in batch.tolist()]
        for row in range(len(names)):
            finding = self._analyzer.add({name: values[row] for name, values in arrays.items()})
            number = self._count
            self._errors += [(number, error) for error in finding.errors]
            # The number makes all ranks different: the heap never compares the packed arrays behind
            # them.
            rank = finding.badness, -number
            if finding.badness > 0 and (len(self._worst) < _KEPT or rank > self._worst[0][0]):
                keep = heapq.heappush if len(self._worst) < _KEPT else heapq.heappushpop
                keep(self._worst, (rank, [_packed(batch, row) for batch in drawn]))
            self._count += 1

    def finish(self, metrics: Mapping[str, float]) -> Optional[Analyzed]:
        """Compute the results of the last pass; None if it was not analyzed or had no examples.

        Args:
            metrics: the reported metrics of the pass.
        """
        if self._analyzer is None:
            return None
        sections = self._analyzer.finish(metrics)
        errors = self._error_lookup()
        worst = []
        for (badness, negative), drawn in self._worst:
            of_example = errors(-negative)
            if of_example:
                worst.append(((-len(of_example), -badness, -negative), of_example, drawn))
        worst.sort(key=lambda each: each[0])
        return Analyzed(
            self._count,
            sections,
            [
                WorstExample(self._place(rank[-1]), found, *map(_unpacked, drawn))
                for rank, found, drawn in worst[:SHOWN]
            ],
            (
                (self._place(number), error)
                for number in range(self._count)
                for error in errors(number)
            ),
            self._names,
            self._analyzer.examples(),
        )

    def _error_lookup(self) -> Callable[[int], Sequence[ExampleError]]:
        """Return a function from the number of an example to its errors."""
        found, analyzer = self._errors, self._analyzer
        starts = np.searchsorted([number for number, _ in found], np.arange(self._count + 1))

        def errors(number: int) -> Sequence[ExampleError]:
            early = [error for _, error in found[starts[number] : starts[number + 1]]]
            return [*early, *analyzer.late_errors(number)]

        return errors

    def _place(self, number: int) -> Place:
        name = self._names[number].decode('utf-8', 'replace')
        return Place(name, *self._locate(self._records[number])) if self._records else Place(name)


class _Packed(NamedTuple):
    """Compressed array: masks and images take a fraction of their memory."""

    content: bytes
    shape: Tuple[int, ...]
    dtype: np.dtype


def _packed(batch: Mapping[str, np.ndarray], row: int) -> Mapping[str, Any]:
    example = summaries.copy_example(batch, row)
    return {name: _compressed(value) for name, value in example.items()}


def _compressed(value: Any) -> Any:
    array = np.asarray(value)
    # Arrays of strings hold pointers, which cannot be compressed.
    if array.nbytes < _LARGE or array.dtype.hasobject:
        return value
    content = zlib.compress(np.ascontiguousarray(array).data, 1)
    return _Packed(content, array.shape, array.dtype)


def _unpacked(example: Mapping[str, Any]) -> Arrays:
    return {
        name: (
            np.frombuffer(zlib.decompress(value.content), value.dtype).reshape(value.shape)
            if isinstance(value, _Packed)
            else value
        )
        for name, value in example.items()
    }
