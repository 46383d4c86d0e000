"""Files of class names: from a config, or in the folders of records and saved models."""

from __future__ import annotations

import functools
import itertools
import logging
import os
from typing import Dict, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config import reader_checks
from estimator_lib.data import record_sources
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis, ClassColumns
from model_fns.structures.label_map import FIRST_ID, LabelMap
from protos import pipeline_pb2

log = logging.getLogger(__name__)

FILE = 'label_map.pbtxt'  # in a `model_dir`, and among the files of an export
LINES_FILE = 'labels.txt'  # in the folder of the records


def read_label_maps(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    num_classes: Optional[int] = None,
    first_id: int = FIRST_ID,
) -> Optional[LabelMap]:
    """Read the label maps of a config's readers, and merge them; None: no reader has one.

    Each reader may have its own label map: other names for the same ids, fewer classes or more. The
    first reader's names are shown.

    Args:
        config: the pipeline config.
        num_classes: how many classes the model has; every id must be within it.
        first_id: the least id that a class may have: 1, or 0 where there is no background.

    Raises:
        errors.DataError: label maps are not valid (the message has a line for each, with its
            field), or two contradict each other.
    """
    fields: Dict[str, str] = {}
    for reader in reader_checks.list_readers(config):
        if reader.message.label_map_path:
            fields.setdefault(reader.message.label_map_path, reader.at('label_map_path'))
    maps, problems = [], []
    for path, field in fields.items():
        try:
            maps.append(LabelMap.read(path, num_classes, first_id))
        except errors.DataError as error:
            problems.append(f'{field}: {error}')
    if problems:
        raise errors.DataError('\n'.join(problems))
    return functools.reduce(LabelMap.merged, maps) if maps else None


def read_labels_file(
    config: pipeline_pb2.TrainEvalPipelineConfig, ids: range
) -> Optional[LabelMap]:
    """Read a `labels.txt` in the folder of the records, where no reader has a label map.

    Some programs write lines `0:daisy` there, and no config names the file. Other programs write
    other things under that name: a file that does not fit is ignored, with a warning.

    Args:
        config: the pipeline config.
        ids: of the model's classes.
    """
    readers = [config.train_input_reader, *config.eval_input_reader]
    if any(reader.label_map_path for reader in readers):
        return None
    patterns = [one for reader in readers for one in reader.tf_record_input_reader.input_path]
    folders = dict.fromkeys(os.path.dirname(pattern) for pattern in patterns)
    paths = [os.path.join(folder, LINES_FILE) for folder in folders]
    path = next((path for path in paths if _exists(path)), None)
    if path is None:
        return None
    try:
        label_map = LabelMap.read(path, first_id=ids.start)
        wrong = [item.id for item in label_map.items if item.id not in ids]
        problem = f'id {wrong[0]} is not one of {ids.start} to {ids.stop - 1}' if wrong else ''
    except errors.DataError as error:
        problem = errors.first_line(error)
    if problem:
        log.warning('%s does not name the classes: %s', path, problem)
        return None
    log.info('class names: %s', path)
    return label_map


def asset_files(label_map: Optional[LabelMap]) -> Dict[str, str]:
    """Return the contents of the asset files by name: the label map, where there is one."""
    return {} if label_map is None else {FILE: label_map.text()}


def check_labeled_classes(
    config: pipeline_pb2.TrainEvalPipelineConfig, label_map: Optional[LabelMap]
) -> bool:
    """Check the names of `labeled_classes`; return whether any reader has some.

    Raises:
        errors.ConfigError: the label map has no such class.
    """
    readers = [
        (each.at('labeled_classes'), record_sources.labeled_names(each.message))
        for each in reader_checks.list_readers(config)
    ]
    for field, entries in readers:
        for name in itertools.chain(*entries):
            try:
                if label_map is not None:
                    label_map.id_of_name(name)
            except errors.DataError as error:
                raise errors.ConfigError(f'{field}: {error}') from error
    return any(any(entries) for _, entries in readers)


def class_columns(axes: Mapping[str, ClassAxis], first_id: int = FIRST_ID) -> ClassColumns:
    """Return the variables of a model that has label maps, for restores by class name.

    Args:
        axes: by the name of a variable, its axis of classes and the index of the first one.
        first_id: the id of the class of index 0.
    """

    def indices(text: str) -> Dict[str, int]:
        items = LabelMap.parse(text, first_id=min(FIRST_ID, first_id)).items
        named = {item.name: item.id - first_id for item in items}
        for item in items:
            named.setdefault(item.display_name, item.id - first_id)
        return named

    return ClassColumns(axes, indices)


def list_columns(scopes: Sequence[str], num_classes: int, first_id: int) -> ClassColumns:
    """Return `class_columns` of layers of logits, one column for each class."""
    return class_columns(dict.fromkeys(scopes, ClassAxis(num_classes)), first_id)


def localize(
    config: pipeline_pb2.TrainEvalPipelineConfig, folders: Sequence[str], only_names: bool
) -> None:
    """Point the readers of a saved config to the label map that was saved with it.

    Args:
        config: changed in place.
        folders: may hold a copy, see `FILE`; the first that does counts.
        only_names: the label maps give names only; nothing is decoded with them. The copy is then
            used even where a reader's own path exists, which may be any file in another working
            directory. Where there is neither, classes have no names, with a warning. False: a
            reader keeps a path that exists.
    """
    copies = [os.path.join(folder, FILE) for folder in folders if folder]
    copy = next((path for path in copies if _exists(path)), '')
    readers = [config.train_input_reader, *config.eval_input_reader]
    if copy and not any(reader.label_map_path for reader in readers):
        readers[0].label_map_path = copy  # the names came from a `labels.txt`
    for index, reader in enumerate(readers):
        path = reader.label_map_path
        if not path or (_exists(path) and not (copy and only_names)):
            continue
        if copy:
            reader.label_map_path = copy
        elif only_names or index == 0:
            log.warning('label map %s: it is not there, so classes have no names', path)
            reader.ClearField('label_map_path')


def _exists(path: str) -> bool:
    try:
        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    except tf.errors.OpError:  # of a file system that is not there either
        return False
