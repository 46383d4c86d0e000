"""Reports of segmentation records: classes of pixels, and what the values of masks mean."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence

from estimator_lib.analysis.parts import Part
from estimator_lib.task import DataReport
from model_fns import class_analysis, class_report
from model_fns.datasets.meaning import checks, record_reports
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.pixels import PixelValues
from model_fns.segmentation.data import inputs
from model_fns.segmentation.data.presets import Dataset
from model_fns.structures.label_map import LabelMap

_HINT = f'Expected the number of a class at each pixel of {inputs.CLASSES_KEY}'
_MOST_FIRST = 20  # masks that the start of a run decodes


def examine(serialized: bytes) -> class_report.Record:
    """Count the pixels of each value in a valid record."""
    annotated = inputs.annotate(serialized)
    return class_report.Record(annotated.pixels, annotated)


def report(
    examined: Mapping[str, Sequence[class_report.Record]],
    dataset: Dataset,
    label_map: Optional[LabelMap],
) -> DataReport:
    """Report the pixels and images of each class, and what the values of masks mean.

    Args:
        examined: the records, by reader.
        dataset: has the classes.
        label_map: names of the classes; None: there is no label map.
    """
    counts = class_report.counts_by_reader(examined)
    classes = class_report.class_report(counts, dict(enumerate(dataset.class_names)), 'pixels')
    annotated = class_report.annotated_by_reader(examined)
    return record_reports.add(classes, _check_meaning(annotated, dataset, label_map))


def label_figures(
    examined: Mapping[str, Sequence[class_report.Record]],
    dataset: Dataset,
    label_map: Optional[LabelMap],
) -> List[Part]:
    """Return a figure of the classes of each reader, and a table of the issues of masks.

    Args:
        examined: the records, by reader.
        dataset: has the classes.
        label_map: names of the classes; None: there is no label map.
    """
    counts = class_report.counts_by_reader(examined)
    names = dict(enumerate(dataset.class_names))
    meaning = _check_meaning(class_report.annotated_by_reader(examined), dataset, label_map)
    return [
        *class_analysis.class_figures(counts, names, 'pixels'),
        *record_reports.tables(meaning),
    ]


def check_first(
    records: Sequence[bytes], are_all: bool, dataset: Dataset, label_map: Optional[LabelMap]
) -> Sequence[str]:
    """Check what the values of the masks of the first training examples mean.

    Args:
        records: serialized `tf.train.Example`s; those without a mask are skipped, decoding reports
            them.
        are_all: whether these are all records.
        dataset: has the classes.
        label_map: names of the classes; None: there is no label map.

    Returns:
        Warnings, a sentence each.

    Raises:
        errors.DataError: the model cannot learn from them.
    """
    masks = map(inputs.annotate, records[:_MOST_FIRST])
    first = {record_reports.TRAINING: [image for image in masks if image is not None]}
    meaning = _check_meaning(first, dataset, label_map)
    return record_reports.require(meaning, are_all and len(records) <= _MOST_FIRST)


def _check_meaning(
    readers: Mapping[str, Sequence[Annotated]], dataset: Dataset, label_map: Optional[LabelMap]
) -> DataReport:
    are_ids = label_map is None and not dataset.name  # nobody named the classes
    return record_reports.report(
        readers,
        lambda images: checks.find(
            images, more=[PixelValues(dataset.ignore_label, are_ids, _HINT)]
        ),
    )
