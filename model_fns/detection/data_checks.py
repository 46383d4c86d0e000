"""Checks of the records of a detector: for `--mode=check`, and at the start of a run."""

from __future__ import annotations

from typing import Collection, List, Mapping, Optional, Sequence, Tuple

from estimator_lib.analysis.parts import Part
from estimator_lib.task import DataReport
from model_fns.class_checks import ClassChecks
from model_fns.datasets.meaning import checks, record_reports
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue
from model_fns.datasets.meaning.record_reports import TRAINING
from model_fns.detection import box_report
from model_fns.detection.analysis import label_figures
from model_fns.detection.data import annotated_records, first_examples
from model_fns.detection.data.inputs import Reader
from model_fns.detection.detector import Detector
from model_fns.structures.label_map import FIRST_ID

_ADVICE = '--mode=check --propose_anchors proposes others'
_FATE = 'are trained as background'

Readers = Mapping[str, Sequence[box_report.Record]]


class DetectionChecks(ClassChecks):
    """Data checks of a detector.

    Args:
        model: the detector.
        reader: decodes the records.
    """

    def __init__(self, model: Detector, reader: Reader):
        names = reader.label_map if reader.labeled_classes else None
        id_of_name = None if names is None else names.id_of_name
        super().__init__(reader.class_names(), 'objects', id_of_name)
        self._model = model
        self._reader = reader

    def check_example(self, serialized: bytes) -> Optional[str]:
        """Find the first problem of a record; None if there is none."""
        return self._reader.find_problem(serialized)

    def repair_example(self, serialized: bytes) -> Optional[Tuple[bytes, str]]:
        """Clip or remove the malformed objects of a record."""
        return self._reader.repair(serialized)

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Check the first training examples: their classes, meaning, and the fit of anchors.

        Malformed records are skipped: decoding reports them.
        """
        warnings = first_examples.check(records, are_all, self._reader)
        valid = [record for record in records if self._reader.find_problem(record) is None]
        examined = [self.examine(record) for record in valid]
        meaning = self.check_meaning({TRAINING: [each.annotated for each in examined]})
        anchors = box_report.box_report(self._model, {TRAINING: examined}).warnings
        warnings = [*warnings, *record_reports.require(meaning, are_all)]
        return [*warnings, *(f'{TRAINING}: {warning}; {_ADVICE}' for warning in anchors)]

    def _read_boxes(self, serialized: bytes) -> box_report.Record:
        reader = self._reader
        return box_report.examine(serialized, reader.family, reader.label_map, reader.num_classes)

    def examine(self, serialized: bytes) -> box_report.Record:
        """Read the size of the image, the boxes of a valid record, and what it says of each."""
        record, reader = self._read_boxes(serialized), self._reader
        annotated = annotated_records.annotate(
            serialized, record.size, record.num_rows(), reader.family, reader.mask_type
        )
        return record._replace(annotated=annotated)

    def annotate(self, serialized: bytes) -> Optional[Annotated]:
        """Return what a valid record says of each box."""
        return self.examine(serialized).annotated

    def list_classes(self, serialized: bytes) -> Collection[int]:
        """Return the classes of the boxes that training uses."""
        return self._read_boxes(serialized).ids

    def find_issues(self, images: Sequence[Annotated]) -> List[Issue]:
        """Return the issues of what all objects together mean."""
        labels = range(FIRST_ID, FIRST_ID + self._reader.num_classes)
        return checks.find(images, labels=labels, fate=_FATE)

    def report_classes(self, examined: Readers) -> DataReport:
        """Report objects and images of each class, and the fit of anchors and input to boxes."""
        classes = super().report_classes(examined)
        boxes = box_report.box_report(self._model, examined)
        inputs = box_report.input_warnings(self._model, box_report.first_records(examined))
        room = {name: self._reader.room(name == TRAINING) for name in examined}
        left_out = box_report.list_warnings(examined, room)
        return DataReport(
            [*classes.lines, *boxes.lines],
            [*left_out, *classes.warnings, *boxes.warnings, *inputs],
            classes.problems,
        )

    def further_figures(self, examined: Readers) -> Sequence[Part]:
        """Return figures of the boxes beside the anchors."""
        return label_figures.box_figures(self._model, examined)
