"""Recognition of YOLO's data sets: `data.yaml`, or folders of text files."""

from __future__ import annotations

import math
import os
import posixpath
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import image_files, sources
from model_fns.datasets.files import folder_files, image_lists
from model_fns.datasets.formats import yolo
from model_fns.datasets.recognition import layouts
from model_fns.datasets.recognition.layouts import DataSet, Folder

_READER = 'yolo_input_reader'
_FOLDERS = ('labels', 'label', 'annotations')
_KEYS = {
    layouts.TRAIN: ('train',),
    layouts.EVALUATION: ('val', 'valid', 'validation'),
    layouts.TEST: ('test',),
}
_BOX, _CORNERS, _POLYGON = 4, 8, 6  # numbers behind a class
_MOST_FILES = 2000  # of which lines are read
_MOST_QUADRILATERALS = 100
_RIGHT = 0.05  # largest cosine of a right angle: labels are rounded to few digits
_UPRIGHT = 0.01  # largest sine of an axis-aligned side


def recognize_data_file(path: str) -> Optional[DataSet]:
    """Recognize a `data.yaml`, or a folder that has one; None for anything else.

    Raises:
        errors.DataError: it names folders that are not there.
    """
    file = _find_data_file(path)
    if not file:
        return None
    content = yolo.read_data_file(file)
    parts = {
        part: [
            folder
            for key in keys
            for value in _as_list(content.get(key))
            for folder in _folders(file, content, key, value)
        ]
        for part, keys in _KEYS.items()
    }
    parts = layouts.drop_empty(parts)
    if layouts.TRAIN not in parts:
        raise errors.DataError(f'{file} has no train: expected the folder of the training images.')
    if not any(map(_has_labels, parts[layouts.TRAIN])):
        return _class_folders(file, parts)
    shape = yolo.read_keypoint_shape(file)
    mirrored = [int(text) for text in _as_list(content.get('flip_idx')) if text.isdecimal()]
    return _describe(
        f'YOLO {{}} of {os.path.basename(file)}',
        parts,
        {'names_path': os.path.abspath(file)},
        shape.count if shape else 0,
        mirrored,
    )


def recognize_folders(path: str) -> Optional[DataSet]:
    """Recognize folders of images and text files with a file of class names."""
    if not tf.io.gfile.isdir(path):
        return None
    parts = layouts.find_pairs(path, _FOLDERS, ('.txt',), _is_label_file)
    names = yolo.find_names_file(parts[layouts.TRAIN][0].annotations) if parts else None
    if not names:
        return None
    fields = {'names_path': os.path.abspath(names)}
    return _describe('YOLO {} in folders', layouts.drop_empty(parts), fields)


def _find_data_file(path: str) -> str:
    """Return the path of the data file that a path is or has; '' without one."""
    if path.lower().endswith(('.yaml', '.yml')):
        return path
    files = layouts.files_ending(path, '.yaml', '.yml')
    usual = [file for file in files if os.path.basename(file) in ('data.yaml', 'dataset.yaml')]
    for file in [*usual, *files]:
        content = yolo.read_data_file(file)
        if 'train' in content and ('names' in content or 'nc' in content):
            return file
    return ''


def _as_list(value: Any) -> List[str]:
    """Return the texts of a YAML value: of a list, of one text, or none."""
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]


def _folders(file: str, content: Mapping[str, Any], key: str, value: str) -> Iterator[Folder]:
    """Yield the sources that a value of a data file names: a folder, or a list of images."""
    path = _locate(file, content, key, value)
    if not tf.io.gfile.isdir(path):
        yield from _listed(path)
        return
    inner = os.path.join(path, 'images')
    found = layouts.image_folders(inner if tf.io.gfile.isdir(inner) else path)
    if not found:
        raise errors.DataError(f'{file}: {key}: the folder {path} has no images.')
    for folder in found:
        yield Folder(folder, _find_labels(folder))


def _locate(file: str, content: Mapping[str, Any], key: str, value: str) -> str:
    """Return the path of a value of a data file.

    Values are relative to `path`, which is relative to the file. Roboflow writes `../train/images`
    for a folder beside the file, and archives move: so the last folders are tried too.
    """
    root = os.path.dirname(os.path.abspath(file))
    base = content.get('path')
    bases = [os.path.join(root, base), base] if isinstance(base, str) and base else []
    plain = posixpath.normpath(value.replace('\\', '/'))
    names = [name for name in plain.split('/') if name not in ('..', '.', '')]
    candidates = [os.path.join(each, plain) for each in (*bases, root)]
    candidates += [os.path.join(root, *names[start:]) for start in range(len(names))]
    for candidate in candidates:
        if tf.io.gfile.exists(candidate):
            return os.path.abspath(candidate)
    raise errors.DataError(
        f'{file}: {key} is {value!r:.200}, and there is no {os.path.abspath(candidates[0])}; '
        'expected a folder of images, relative to `path` or to the file.'
    )


def _listed(path: str) -> Iterator[Folder]:
    """Yield the sources of a text file with the path of an image a line."""
    by_folder: Dict[str, List[str]] = {}
    for line in image_lists.read(path):
        image = os.path.join(os.path.dirname(path), line.replace('\\', '/'))
        by_folder.setdefault(os.path.normpath(os.path.dirname(image)), []).append(
            os.path.basename(line.replace('\\', '/'))
        )
    for folder, names in by_folder.items():
        yield Folder(folder, _find_labels(folder), names)


def _find_labels(images: str) -> str:
    """Return the folder of labels of a folder of images: `labels` in place of the last `images`."""
    parts = images.split(os.sep)
    for place in reversed(range(len(parts))):
        if parts[place].lower() == 'images':
            labels = os.sep.join([*parts[:place], 'labels', *parts[place + 1 :]])
            return labels if tf.io.gfile.isdir(labels) else images
    beside = os.path.join(os.path.dirname(images), 'labels', os.path.basename(images))
    return next(filter(tf.io.gfile.isdir, (os.path.join(images, 'labels'), beside)), images)


def _has_labels(folder: Folder) -> bool:
    return any(map(_is_label_file, layouts.files_ending(folder.annotations, '.txt')))


def _class_folders(file: str, parts: Mapping[str, Sequence[Folder]]) -> DataSet:
    """Return the data set of a data file whose parts have a folder for each class."""
    roots = {
        part: [Folder(root) for root in dict.fromkeys(os.path.dirname(each.images) for each in own)]
        for part, own in parts.items()
    }
    description = f'a folder for each class, of {os.path.basename(file)}'
    return DataSet(description, 'folder_input_reader', roots, ('classification',))


def _is_label_file(path: str) -> bool:
    """Return whether the first line of a text file is a label."""
    return any(True for _ in _lines(path)) or not folder_files.read_bytes(path).strip()


def _lines(path: str) -> Iterator[Sequence[float]]:
    """Yield the numbers behind the class in each line that is a label."""
    for line in folder_files.read_text(path).splitlines():
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) > _BOX:
            yield numbers[1:]


def _describe(
    description: str,
    parts: Mapping[str, Sequence[Folder]],
    fields: Mapping[str, str],
    num_keypoints: int = 0,
    mirrored: Sequence[int] = (),
) -> DataSet:
    """Return the data set, with the tasks that its labels suffice for."""
    kind, tasks = 'boxes', ('detection',)  # type: Tuple[str, Tuple[str, ...]]
    if num_keypoints:
        kind, tasks = 'boxes with keypoints', ('keypoints', 'detection')
    else:
        polygons, corners, rotated = _count_shapes(parts[layouts.TRAIN])
        if rotated:
            kind, tasks = 'rotated boxes', ('rotated', 'detection')
        elif polygons > corners:
            kind, tasks = 'polygons', ('detection', 'instances', 'segmentation', 'rotated')
    description = description.format(kind)
    return DataSet(description, _READER, parts, tasks, fields, '', num_keypoints, mirrored)


def _count_shapes(folders: Sequence[Folder]) -> Tuple[int, int, bool]:
    """Count polygons and, among them, quadrilaterals; and tell whether these are rotated boxes."""
    polygons = corners = 0
    quadrilaterals: List[List[Tuple[float, float]]] = []
    for folder in folders:
        images = {
            os.path.splitext(os.path.basename(path))[0]: path
            for path in sources.list_images(folder.images)
        }
        for path in layouts.files_ending(folder.annotations, '.txt')[:_MOST_FILES]:
            image = images.get(os.path.splitext(os.path.basename(path))[0])
            for numbers in _lines(path) if image else ():
                polygons += len(numbers) >= _POLYGON
                corners += len(numbers) == _CORNERS
                if len(numbers) == _CORNERS and len(quadrilaterals) < _MOST_QUADRILATERALS:
                    quadrilaterals.append(_to_pixels(numbers, str(image)))
    is_rotated = bool(corners) and corners == polygons and are_rotated_boxes(quadrilaterals)
    return polygons, corners, is_rotated


def _to_pixels(numbers: Sequence[float], image: str) -> List[Tuple[float, float]]:
    with folder_files.open_binary(image) as file:
        header, _ = image_files.read_header(file)
    return [(x * header.width, y * header.height) for x, y in zip(numbers[::2], numbers[1::2])]


def are_rotated_boxes(quadrilaterals: Sequence[Sequence[Tuple[float, float]]]) -> bool:
    """Return whether quadrilaterals have right angles, and not all of them are axis-aligned.

    The square of the corners (0, 1), (1, 0), (2, 1), (1, 2) is one; that of (0, 0), (2, 0), (2, 2),
    (0, 2) is axis-aligned.

    Args:
        quadrilaterals: the corners of each in pixels, as x and y.
    """
    is_tilted = False
    for corners in quadrilaterals:
        sides = [
            (x - corners[place - 1][0], y - corners[place - 1][1])
            for place, (x, y) in enumerate(corners)
        ]
        for place, (x, y) in enumerate(sides):
            length, before = math.hypot(x, y), math.hypot(*sides[place - 1])
            if min(length, before) < 2:  # a pixel of rounding turns such a side by much
                continue
            cosine = (x * sides[place - 1][0] + y * sides[place - 1][1]) / (length * before)
            if abs(cosine) > _RIGHT + 1 / min(length, before):
                return False
            is_tilted |= min(abs(x), abs(y)) / length > _UPRIGHT + 1 / length
    return is_tilted
