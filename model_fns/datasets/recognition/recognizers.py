"""Recognizers of the formats and layouts of data sets: one table, tried in its order."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from estimator_lib import errors
from model_fns.datasets import sources
from model_fns.datasets.files import folder_files, image_lists
from model_fns.datasets.formats import voc
from model_fns.datasets.recognition import layouts, yolo_files
from model_fns.datasets.recognition.layouts import EVALUATION, TEST, TRAIN, DataSet, Folder
from model_fns.structures import id_images

_POLYGON_TASKS = ('detection', 'instances', 'segmentation', 'rotated')
_COCO_KEYS = ('images', 'annotations', 'categories')
_BINARY = '0:background,255:object'
_MOST_MASKS = 20  # that tell what the values are
_START = 4096  # bytes of a JSON file that tell what it is


def recognize(path: str) -> DataSet:
    """Recognize the data set at a path.

    Args:
        path: a file or folder.

    Raises:
        errors.DataError: there is nothing, or nothing that a recognizer knows; or a file names
            others that are not there.
    """
    if not tf.io.gfile.exists(path):
        raise errors.DataError(f'--data={path}: there is no such file{errors.relative_to(path)}.')
    for recognizer in RECOGNIZERS.values():
        data = recognizer(path)
        if data is not None:
            layouts.require_training(data, path)
            return data
    inner = _only_folder(path)
    if inner:  # archives often hold one folder
        return recognize(inner)
    names = folder_files.list_names(path) if tf.io.gfile.isdir(path) else [os.path.basename(path)]
    raise errors.DataError(
        f'--data={path} is no data set that is known here; it has {errors.shortened(names)}. '
        f'Expected {", ".join(RECOGNIZERS)}.'
    )


def _only_folder(path: str) -> str:
    """Return the only folder in a folder without images; '' where there is none."""
    if not tf.io.gfile.isdir(path):
        return ''
    inner = [each for each in layouts.inner_folders(path) if not each.endswith('__MACOSX')]
    has_images = any(map(folder_files.is_image, folder_files.list_names(path)))
    return inner[0] if len(inner) == 1 and not has_images else ''


def _coco(path: str) -> Optional[DataSet]:
    """Recognize COCO: `train/_annotations.coco.json`, or `annotations/instances_train.json`."""
    parts: Dict[str, List[Folder]] = {}
    tasks: Tuple[str, ...] = ('detection',)
    names: List[str] = []
    num_keypoints = 0
    for file, content in _coco_files(path):
        part = layouts.tell_part(os.path.splitext(os.path.basename(file))[0])
        part = part or layouts.tell_part(os.path.basename(os.path.dirname(file))) or TRAIN
        if part in parts:
            continue
        parts[part] = [Folder(_coco_images(file, content, part), os.path.abspath(file))]
        objects = [entry for entry in content['annotations'] if isinstance(entry, dict)]
        lengths = [len(entry['keypoints']) for entry in objects if entry.get('keypoints')]
        if lengths:
            num_keypoints, tasks = max(lengths) // 3, ('keypoints', 'detection')
            classes = [each for each in content['categories'] if isinstance(each, dict)]
            names = next((each['keypoints'] for each in classes if each.get('keypoints')), [])
        elif any(entry.get('segmentation') for entry in objects) and not num_keypoints:
            tasks = _POLYGON_TASKS
    if not parts:
        return None
    kind = {'keypoints': 'keypoints', 'detection': 'boxes'}[tasks[0]]
    kind = 'polygons' if tasks == _POLYGON_TASKS else kind
    mirrored = mirror_names(names)
    return DataSet(
        f'COCO {kind}', 'coco_input_reader', parts, tasks, {}, '', num_keypoints, mirrored, names
    )


def _coco_files(path: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """Yield the instances files of a path, its folder and the folders in it, and their content."""
    folders = [path, *(layouts.inner_folders(path) if tf.io.gfile.isdir(path) else ())]
    files = [path] if path.lower().endswith('.json') else []
    files += [file for folder in folders for file in layouts.files_ending(folder, '.json')]
    for file in files:
        start = folder_files.open_binary(file).read(_START)
        if b'"shapes"' in start:  # a file of labelme
            continue
        try:
            content = json.loads(folder_files.read_bytes(file))
        except (ValueError, RecursionError):
            continue
        if not isinstance(content, dict):
            continue
        has_lists = all(isinstance(content.get(key), list) for key in _COCO_KEYS)
        first = content['annotations'][:1] if has_lists else []
        if has_lists and not (first and isinstance(first[0], dict) and 'segments_info' in first[0]):
            yield file, content


def _coco_images(file: str, content: Mapping[str, Any], part: str) -> str:
    """Return the folder that has the first image of an instances file."""
    entries = [entry for entry in content['images'] if isinstance(entry, dict)]
    name = str(entries[0].get('file_name', '')) if entries else ''
    folder = os.path.dirname(os.path.abspath(file))
    above = os.path.dirname(folder)
    inner = [*layouts.inner_folders(folder), *layouts.inner_folders(above)]
    inner.sort(key=lambda path: layouts.tell_part(os.path.basename(path)) != part)
    deeper = [each for path in inner for each in layouts.inner_folders(path)]
    deeper.sort(key=lambda path: layouts.tell_part(os.path.basename(path)) != part)
    for candidate in (folder, *inner, above, *deeper):
        if name and tf.io.gfile.exists(os.path.join(candidate, name)):
            return candidate
    return above if folder.endswith('annotations') else folder


def mirror_names(names: Sequence[str]) -> List[int]:
    """Return the number that each keypoint has in a mirrored image, by its name.

    Of `nose, left_eye, right_eye` these are 0, 2, 1. Empty where a left one has no right one.
    """
    swap = {'left': 'right', 'right': 'left', 'Left': 'Right', 'Right': 'Left'}
    pattern = re.compile('|'.join(swap))
    mirrored = [pattern.sub(lambda match: swap[match[0]], str(name)) for name in names]
    if not set(mirrored) <= set(names):
        return []
    return [list(names).index(name) for name in mirrored]


def _voc(path: str) -> Optional[DataSet]:
    """Recognize Pascal VOC: XML files beside images or in `Annotations`, with its lists."""
    folders = ('Annotations', 'annotations', 'xmls', 'labels')
    parts = layouts.find_pairs(path, folders, ('.xml',), _is_voc)
    if not parts:
        return None
    files = [
        file for own in parts.values() for file in layouts.files_ending(own[0].annotations, '.xml')
    ]
    tasks = ('rotated', 'detection') if any(map(_is_rotated, files[:50])) else ('detection',)
    if set(parts) == {TRAIN}:
        parts = _voc_lists(path, parts[TRAIN][0])
    return DataSet('Pascal VOC boxes', 'voc_input_reader', parts, tasks)


def _is_voc(path: str) -> bool:
    try:
        return voc.parse(path).tag == 'annotation'
    except errors.DataError:
        return False


def _is_rotated(path: str) -> bool:
    return b'<robndbox>' in folder_files.read_bytes(path)


def _voc_lists(root: str, pair: Folder) -> Dict[str, List[Folder]]:
    """Return the parts of `ImageSets/Main`; these are `trainval` and `test` where it has both."""
    lists = {
        os.path.splitext(os.path.basename(file))[0]: image_lists.read(file)
        for file in layouts.files_ending(os.path.join(root, 'ImageSets', 'Main'), '.txt')
    }
    chosen = {TRAIN: 'trainval', EVALUATION: 'test'}
    if not set(chosen.values()) <= set(lists):
        chosen = {
            part: name for part in (TRAIN, EVALUATION, TEST) for name in [part] if name in lists
        }
    if TRAIN not in chosen:
        return {TRAIN: [pair]}
    return {part: [pair._replace(names=lists[name])] for part, name in chosen.items()}


def _labelme(path: str) -> Optional[DataSet]:
    """Recognize labelme: a JSON file of shapes for each image."""
    folders = ('json', 'jsons', 'annotations', 'labels', 'labelme')
    parts = layouts.find_pairs(path, folders, ('.json',), lambda file: bool(_shapes(file)))
    if not parts:
        return None
    files = [
        file for own in parts.values() for file in layouts.files_ending(own[0].annotations, '.json')
    ]
    kinds = {kind for file in files for kind in _shapes(file)}
    if 'rotation' in kinds:
        return DataSet(
            'labelme rotated boxes', 'labelme_input_reader', parts, ('rotated', 'detection')
        )
    if kinds <= {'rectangle'}:
        return DataSet('labelme boxes', 'labelme_input_reader', parts, ('detection',))
    return DataSet('labelme polygons', 'labelme_input_reader', parts, _POLYGON_TASKS)


def _shapes(path: str) -> List[str]:
    """Return the kinds of the shapes in a file of labelme; none in another file."""
    try:
        content = json.loads(folder_files.read_bytes(path))
    except (ValueError, RecursionError):
        return []
    shapes = content.get('shapes') if isinstance(content, dict) else None
    if not isinstance(shapes, list):
        return []
    return [str(each.get('shape_type', 'polygon')) for each in shapes if isinstance(each, dict)]


def _csv(path: str) -> Optional[DataSet]:
    """Recognize a table of labels or boxes, beside its images or in folders of parts."""
    if path.lower().endswith('.csv'):
        tables = {TRAIN: path}
    elif not tf.io.gfile.isdir(path):
        return None
    else:
        tables = _tables(path)
    rows = {part: _first_row(file) for part, file in tables.items()}
    if TRAIN not in tables or any('pixel value' in ' '.join(row).lower() for row in rows.values()):
        return None
    boxes = re.compile('xmin|x1|bbox|left|cx|xcenter|x_center|^x$', re.IGNORECASE)
    tasks = ('detection',) if any(map(boxes.search, rows[TRAIN])) else ('classification',)
    parts = {}
    for part, file in tables.items():
        folder = os.path.dirname(os.path.abspath(file))
        images = [
            each
            for each in ('images', 'img', 'imgs')
            if tf.io.gfile.isdir(os.path.join(folder, each))
        ]
        is_beside = any(map(folder_files.is_image, folder_files.list_names(folder)))
        inner = os.path.join(folder, images[0]) if images and not is_beside else folder
        parts[part] = [Folder(inner, os.path.abspath(file))]
    kind = 'boxes' if tasks == ('detection',) else 'labels'
    return DataSet(f'a table (CSV) of {kind}', 'csv_input_reader', parts, tasks)


def _tables(path: str) -> Dict[str, str]:
    """Return the table of each part: the only one of its folder, or those with names of parts."""
    tables: Dict[str, str] = {}
    for part, folder in layouts.part_folders(path).items():
        files = layouts.files_ending(folder, '.csv')
        named = {
            layouts.tell_part(os.path.splitext(os.path.basename(each))[0]): each for each in files
        }
        if len(files) == 1:
            tables[part] = files[0]
        elif folder == path and TRAIN in named:
            tables.update({each: file for each, file in named.items() if each})
    return tables


def _first_row(path: str) -> List[str]:
    """Return the names of the columns of a table."""
    lines = folder_files.read_text(path).splitlines()[:1]
    delimiter = max(',;\t', key=(lines or [''])[0].count)
    return [cell.strip() for row in csv.reader(lines, delimiter=delimiter) for cell in row]


def _records(path: str) -> Optional[DataSet]:
    """Recognize TFRecords with a label map."""
    if not tf.io.gfile.isdir(path):
        return None
    folders = [path, *layouts.inner_folders(path)]
    files = [
        file
        for folder in folders
        for file in layouts.files_ending(folder, '.tfrecord', '.record', '.tfrecords')
        + [
            each
            for each in layouts.files_ending(folder, '')
            if re.search(r'record-\d+-of-\d+$', each)
        ]
    ]
    maps = [file for folder in folders for file in layouts.files_ending(folder, '.pbtxt')]
    if not files or not maps:
        return None
    parts: Dict[str, List[Folder]] = {}
    for file in files:
        name = os.path.basename(file).split('.')[0]
        part = layouts.tell_part(name) or layouts.tell_part(os.path.basename(os.path.dirname(file)))
        parts.setdefault(part or TRAIN, []).append(Folder(os.path.abspath(file)))
    tasks = ('detection', 'classification', 'segmentation')
    label_map = os.path.abspath(maps[0])
    return DataSet('TFRecords', 'tf_record_input_reader', parts, tasks, {}, label_map)


def _masks(path: str) -> Optional[DataSet]:
    """Recognize PNGs of class ids or instance ids in folders, or beside images (`x_mask.png`)."""
    beside = _find_masks_beside(path)
    if beside is not None:
        return beside
    folders = ('masks', 'mask', 'SegmentationClass', 'instance_masks', 'instances', 'annotations')
    parts = layouts.find_pairs(path, (*folders, 'labels', 'gt'), ('.png',), _is_mask)
    parts = {part: own for part, own in parts.items() if own[0].images != own[0].annotations}
    if TRAIN not in parts:
        return None
    folder = parts[TRAIN][0].annotations
    if _has_instances(folder):
        tasks = ('detection', 'instances', 'segmentation')
        return DataSet('PNGs of instance ids', 'instance_input_reader', parts, tasks)
    fields = {'mask_values': _BINARY} if _are_binary(folder) else {}
    return DataSet('PNGs of class ids', 'mask_input_reader', parts, ('segmentation',), fields)


def _are_binary(folder: str) -> bool:
    """Return whether the first masks have the values 0 and 255 only, which are no class ids."""
    values: Set[int] = set()
    for path in layouts.files_ending(folder, '.png')[:_MOST_MASKS]:
        with contextlib.suppress(errors.DataError):
            values.update(np.unique(id_images.read(folder_files.read_bytes(path))).tolist())
    return 255 in values and values <= {0, 255}


def _is_mask(path: str) -> bool:
    return _mode(path) in ('1', 'L', 'P', 'I;16', 'I')


def _has_instances(folder: str) -> bool:
    """Return whether PNGs hold instance ids, by the name of their folder or by 16 bits."""
    if 'instance' in folder.lower():
        return True
    return _mode(layouts.files_ending(folder, '.png')[0]) in ('I;16', 'I')


def _mode(path: str) -> str:
    """Return Pillow's mode of an image; empty if it is no image."""
    try:
        with folder_files.open_binary(path) as file:
            return Image.open(file).mode
    except UnidentifiedImageError:
        return ''


def _find_masks_beside(path: str) -> Optional[DataSet]:
    """Recognize Roboflow's masks: `x_mask.png` beside `x.jpg`, values in `_classes.csv`."""
    if not tf.io.gfile.isdir(path):
        return None
    folders = layouts.part_folders(path)
    table = os.path.join(folders[TRAIN], '_classes.csv')
    if not tf.io.gfile.exists(table) or 'pixel' not in ' '.join(_first_row(table)).lower():
        return None
    rows = list(csv.reader(folder_files.read_text(table).splitlines()))[1:]
    values = ','.join(f'{row[0].strip()}:{row[1].strip()}' for row in rows if len(row) > 1)
    parts = {part: [Folder(folder, folder)] for part, folder in folders.items()}
    fields = {'mask_values': values, 'annotation_suffix': '_mask'}
    return DataSet('PNGs of class ids', 'mask_input_reader', parts, ('segmentation',), fields)


def _class_folders(path: str) -> Optional[DataSet]:
    """Recognize a folder of images for each class."""
    if not tf.io.gfile.isdir(path):
        return None
    parts = {
        part: [Folder(folder)]
        for part, folder in layouts.part_folders(path).items()
        if len(list(filter(sources.list_images, layouts.inner_folders(folder)))) > 1
    }
    if TRAIN not in parts:
        return None
    return DataSet('a folder for each class', 'folder_input_reader', parts, ('classification',))


# What a message calls the data, and its recognizer. Those that need a name or a key that nothing
# else has come first; folders of images are what many other layouts have too.
RECOGNIZERS: Mapping[str, Callable[[str], Optional[DataSet]]] = {
    "YOLO's data.yaml": yolo_files.recognize_data_file,
    'COCO JSON': _coco,
    'Pascal VOC': _voc,
    'labelme': _labelme,
    'TFRecords with a label map (.pbtxt)': _records,
    'a table (CSV)': _csv,
    'images and PNGs of masks': _masks,
    'YOLO folders with classes.txt': yolo_files.recognize_folders,
    'or a folder of images for each class': _class_folders,
}
