"""Input readers of a recognized data set, with lists of the images of a split that is made."""

from __future__ import annotations

import dataclasses
import os
from typing import Dict, List, NamedTuple, Sequence, Tuple

from estimator_lib.config import config_files
from model_fns.datasets import conversion, readers
from model_fns.datasets.files import splits
from model_fns.datasets.recognition import layouts, record_parts
from model_fns.datasets.recognition.layouts import EVALUATION, TRAIN, DataSet, Folder
from model_fns.structures import label_map_files
from model_fns.structures.label_map import LabelMap
from protos import input_reader_pb2

_RECORDS = 'tf_record_input_reader'
# Fields of a reader's message that a task needs, where the message has them.
_FIELDS_OF_TASKS = {'rotated': 'rotated_boxes', 'segmentation': 'class_masks'}


class Readers(NamedTuple):
    """The readers of a run.

    Attributes:
        train: of the training examples.
        evaluation: of the others.
        notes: sentences on parts and splits.
    """

    train: input_reader_pb2.InputReader
    evaluation: input_reader_pb2.InputReader
    notes: Sequence[str]


def create(data: DataSet, task: str, folder: str) -> Readers:
    """Create the readers of a data set; write its label map and lists where they are needed.

    Args:
        data: the data set.
        task: name of the task, one of `data.tasks`.
        folder: for the files that are written.

    Raises:
        errors.DataError: the data set cannot be listed or split.
    """
    of_records = data.reader == _RECORDS
    label_map = data.label_map or os.path.join(os.path.abspath(folder), label_map_files.FILE)
    train = _reader(data, task, data.parts[TRAIN], label_map, folder, TRAIN)
    part, note = layouts.evaluation_part(data.parts)
    notes = [note] if note else []
    if part:
        evaluation = _reader(data, task, data.parts[part], label_map, folder, EVALUATION)
    if not data.label_map:
        found = [train, evaluation] if part else [train]
        classes = readers.list_classes(*found)
        if task == 'keypoints':
            classes = name_keypoints(classes, data)
        conversion.write_label_map(classes, label_map)
    if not part:
        parts, note = _split_records(data, folder) if of_records else _split(data, train)
        notes.append(note)
        train = _reader(data, task, parts[TRAIN], label_map, folder, TRAIN)
        evaluation = _reader(data, task, parts[EVALUATION], label_map, folder, EVALUATION)
    evaluation.shuffle = False
    return Readers(train, evaluation, notes)


def name_keypoints(classes: LabelMap, data: DataSet) -> LabelMap:
    """Add the keypoints of a data set to each class, `0`, `1`, ... where they have no names."""
    count = data.keypoints
    names = [str(name) for name in data.keypoint_names]
    if len(names) != count or len(set(names)) != count:
        names = [str(number) for number in range(count)]
    items = tuple(
        dataclasses.replace(item, keypoints=tuple(enumerate(names))) for item in classes.items
    )
    return dataclasses.replace(classes, items=items)


def _reader(
    data: DataSet,
    task: str,
    folders: Sequence[Folder],
    label_map: str,
    folder: str,
    part: str,
) -> input_reader_pb2.InputReader:
    """Create the reader of a part; lists of names are written for it."""
    reader = input_reader_pb2.InputReader(label_map_path=label_map)
    # Objects that cannot be used are left out with a message: a first run ends with a model.
    reader.corrupt_record_policy = input_reader_pb2.SKIP
    if task == 'instances':
        reader.load_instance_masks, reader.mask_type = True, input_reader_pb2.PNG_MASKS
    if task == 'keypoints':
        reader.num_keypoints = data.keypoints
    message = getattr(reader, data.reader)
    if data.reader == _RECORDS:
        message.input_path.extend(each.images for each in folders)
        return reader
    for number, each in enumerate(folders):
        message.image_path.append(os.path.abspath(each.images))
        if each.annotations:
            message.annotation_path.append(os.path.abspath(each.annotations))
        if any(other.names is not None for other in folders):
            path = os.path.join(os.path.abspath(folder), f'{part}-{number}.txt')
            config_files.write_text('\n'.join(_names(each)) + '\n', path)
            message.options.list_path.append(path)
    for name, value in data.fields.items():
        setattr(message, name, value)
    field = _FIELDS_OF_TASKS.get(task, '')
    if field in message.DESCRIPTOR.fields_by_name:
        setattr(message, field, True)
    return reader


def _names(folder: Folder) -> Sequence[str]:
    """Return the lines of the list of a source."""
    if folder.names is not None:
        return folder.names
    return [
        os.path.join(path, name)
        for path, names in layouts.folder_files.walk(folder.images)
        for name in names
        if layouts.folder_files.is_image(name)
    ]


def _split(
    data: DataSet, reader: input_reader_pb2.InputReader
) -> Tuple[Dict[str, List[Folder]], str]:
    """Split a data set without an evaluation part; return its parts and a sentence on them.

    Raises:
        errors.DataError: it has one image.
    """
    sources = readers.list_items(reader)
    flat = [(number, *each) for number, items in enumerate(sources) for each in items]
    names = [os.path.relpath(item.path, data.parts[TRAIN][n].images) for n, item, _ in flat]
    if len(sources) > 1:
        names = [f'{number}/{name}' for (number, _, _), name in zip(flat, names)]
    strata = [stratum for _, _, stratum in flat]
    sides = splits.split(names, strata if any(strata) else ())
    parts: Dict[str, List[Folder]] = {}
    for part, places in ((TRAIN, sides.train), (EVALUATION, sides.evaluation)):
        chosen: Dict[int, List[str]] = {}
        for place in places:
            chosen.setdefault(flat[place][0], []).append(os.path.abspath(flat[place][1].path))
        parts[part] = [
            data.parts[TRAIN][number]._replace(names=lines) for number, lines in chosen.items()
        ]
    return parts, _describe_split(sides)


def _split_records(data: DataSet, folder: str) -> Tuple[Dict[str, List[Folder]], str]:
    """Split TFRecords without an evaluation part; return their parts and a sentence on them."""
    patterns = [each.images for each in data.parts[TRAIN]]
    parts, sides = record_parts.write_parts(patterns, folder)
    return parts, f'{_describe_split(sides)}. Both parts are written again in {folder}'


def _describe_split(sides: splits.Split) -> str:
    total = len(sides.train) + len(sides.evaluation)
    return (
        f'without a part for evaluation in the data, {len(sides.evaluation)} of {total} images '
        f'became one: whole groups of {sides.num_groups} (copies, frames of a scene), always the '
        'same ones'
    )
