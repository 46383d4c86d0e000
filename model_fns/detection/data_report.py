"""Reports of the records of a detector: for `--mode=check`, and at the start of a run."""

from __future__ import annotations

from typing import Mapping, Sequence

from estimator_lib.task import DataReport
from model_fns import class_report
from model_fns.datasets.meaning import checks, record_reports
from model_fns.datasets.meaning.record_reports import TRAINING
from model_fns.detection import box_report
from model_fns.detection.data import annotated_records, first_examples
from model_fns.detection.data.inputs import Reader
from model_fns.detection.detector import Detector
from model_fns.structures.label_map import FIRST_ID

_ADVICE = '--mode=check --propose_anchors proposes others'
_FATE = 'are trained as background'


def read_boxes(serialized: bytes, reader: Reader) -> box_report.Record:
    """Read the size of the image and the boxes of a valid record."""
    return box_report.examine(serialized, reader.family, reader.label_map, reader.num_classes)


def examine(serialized: bytes, reader: Reader) -> box_report.Record:
    """Read the boxes of a valid record, and what it says of each."""
    record = read_boxes(serialized, reader)
    annotated = annotated_records.annotate(
        serialized, record.size, record.num_rows(), reader.family, reader.mask_type
    )
    return record._replace(annotated=annotated)


def report(
    model: Detector, reader: Reader, examined: Mapping[str, Sequence[box_report.Record]]
) -> DataReport:
    """Report objects and images of each class, their meaning, and the fit of anchors to boxes.

    Args:
        model: the detector.
        reader: decodes the records.
        examined: results of `examine`, by reader.
    """
    counts = {name: [record.counts() for record in records] for name, records in examined.items()}
    classes = class_report.class_report(counts, reader.class_names(), 'objects')
    boxes = box_report.box_report(model, examined)
    inputs = box_report.input_warnings(model, box_report.first_records(examined))
    room = {name: reader.room(name == TRAINING) for name in examined}
    left_out = box_report.list_warnings(examined, room)
    meaning = check_meaning(examined, reader.num_classes)
    labeled = DataReport()
    if reader.labeled_classes and reader.label_map is not None:
        records = {
            name: [(each.annotated, each.counts()) for each in own if each.annotated is not None]
            for name, own in examined.items()
        }
        find = reader.label_map.id_of_name
        labeled = class_report.labeled_report(records, reader.class_names(), find)
    classes = DataReport(
        [*classes.lines, *labeled.lines, *boxes.lines],
        [*left_out, *labeled.warnings, *classes.warnings, *boxes.warnings, *inputs],
        classes.problems,
    )
    return record_reports.add(classes, meaning)


def check_meaning(
    examined: Mapping[str, Sequence[box_report.Record]], num_classes: int
) -> DataReport:
    """Check what the annotations of all records mean, together.

    Args:
        examined: results of `examine`, by reader.
        num_classes: number of classes of the model.
    """
    labels = range(FIRST_ID, FIRST_ID + num_classes)
    images = {
        name: [record.annotated for record in records if record.annotated is not None]
        for name, records in examined.items()
    }
    return record_reports.report(images, lambda each: checks.find(each, labels=labels, fate=_FATE))


def check_first(
    model: Detector, reader: Reader, records: Sequence[bytes], are_all: bool
) -> Sequence[str]:
    """Check the first training examples: their classes, their meaning, and the fit of anchors.

    Args:
        model: the detector.
        reader: decodes the records.
        records: serialized `tf.train.Example`s; malformed ones are skipped, decoding reports them.
        are_all: whether these are all records.

    Returns:
        Warnings, a sentence each.

    Raises:
        errors.DataError: the model cannot learn from them.
    """
    warnings = first_examples.check(records, are_all, reader)
    valid = [record for record in records if reader.find_problem(record) is None]
    examined = [examine(record, reader) for record in valid]
    meaning = check_meaning({TRAINING: examined}, reader.num_classes)
    anchors = box_report.box_report(model, {TRAINING: examined}).warnings
    warnings = [*warnings, *record_reports.require(meaning, are_all)]
    return [*warnings, *(f'{TRAINING}: {warning}; {_ADVICE}' for warning in anchors)]
