"""Checks of records with classes: how often each class is there, and what all labels mean."""

from __future__ import annotations

import abc
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from estimator_lib.analysis.parts import Part
from estimator_lib.task import DataChecks, DataReport
from model_fns import class_analysis, class_report
from model_fns.class_report import Counts
from model_fns.datasets.meaning import record_reports
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue

# `counts` (by class id) and `annotated` (None: not known) of each record, by reader.
Readers = Mapping[str, Sequence[Any]]


class ClassChecks(DataChecks):
    """Data checks of records that are examined as `Readers` says.

    Args:
        names: names of the classes by id.
        unit: of the counts: `objects`, `images`, `pixels`.
        id_of_name: returns the id of a class by one of its names, where images may be labeled for
            some classes only; None: all classes were looked for.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        unit: str,
        id_of_name: Optional[Callable[[str], int]] = None,
    ):
        self._names = names
        self._unit = unit
        self._id_of_name = id_of_name

    @abc.abstractmethod
    def annotate(self, serialized: bytes) -> Optional[Annotated]:
        """Return what a record says; None: it is malformed."""

    @abc.abstractmethod
    def find_issues(self, images: Sequence[Annotated]) -> List[Issue]:
        """Return the issues of what all annotations of a reader together mean."""

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Check what the annotations of the first training examples mean, unknown classes too."""
        meaning = self.check_meaning({record_reports.TRAINING: map(self.annotate, records)})
        return record_reports.require(meaning, are_all)

    def check_meaning(self, readers: Mapping[str, Iterable[Optional[Annotated]]]) -> DataReport:
        """Check what the annotations of the records of each reader mean, together."""
        known = {
            name: [image for image in images if image is not None]
            for name, images in readers.items()
        }
        return record_reports.report(known, self.find_issues)

    def data_report(self, examined: Readers) -> DataReport:
        """Report the objects, images or pixels of each class, and what the annotations mean."""
        return record_reports.add(self.report_classes(examined), self._examined_meaning(examined))

    def report_classes(self, examined: Readers) -> DataReport:
        """Report the counts of each class, and those of partly labeled images."""
        classes = class_report.class_report(_counts(examined), self._names, self._unit)
        if self._id_of_name is None:
            return classes
        records = {
            name: [(each.annotated, each.counts) for each in own if each.annotated is not None]
            for name, own in examined.items()
        }
        labeled = class_report.labeled_report(records, self._names, self._id_of_name)
        return DataReport(
            [*classes.lines, *labeled.lines],
            [*labeled.warnings, *classes.warnings],
            classes.problems,
        )

    def label_figures(self, examined: Readers) -> Sequence[Part]:
        """Return figures of the classes, and a table of what the annotations mean."""
        figures = class_analysis.class_figures(_counts(examined), self._names, self._unit)
        issues = record_reports.tables(self._examined_meaning(examined))
        return [*figures, *self.further_figures(examined), *issues]

    def further_figures(self, examined: Readers) -> Sequence[Part]:
        """Return figures that follow those of the classes."""
        del examined
        return ()

    def _examined_meaning(self, examined: Readers) -> DataReport:
        return self.check_meaning(
            {name: [each.annotated for each in records] for name, records in examined.items()}
        )


def _counts(examined: Readers) -> Dict[str, List[Counts]]:
    return {name: [each.counts for each in records] for name, records in examined.items()}
