"""Layouts of data sets: the folders of their parts, and what a recognizer tells of them."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets.files import folder_files

TRAIN, EVALUATION, TEST = 'train', 'val', 'test'
# Names of folders and files, by the part that they hold.
PART_NAMES: Mapping[str, Sequence[str]] = {
    TRAIN: ('train', 'training', 'trainval', 'train2017', 'train2014'),
    EVALUATION: ('val', 'valid', 'validation', 'dev', 'val2017', 'val2014'),
    TEST: ('test', 'testing', 'test2017'),
}
_IMAGES = ('images', 'JPEGImages', 'imgs', 'img', 'image')
_MOST_SNIFFED = 50  # files of a folder, to tell its format


class Folder(NamedTuple):
    """One source of images of a part.

    Attributes:
        images: folder of the images; a glob of TFRecord files.
        annotations: folder or file of the annotations; '' where there is none.
        names: lines of a list of the images to take, see `image_lists.select`; None: all.
    """

    images: str
    annotations: str = ''
    names: Optional[Sequence[str]] = None


class DataSet(NamedTuple):
    """A recognized data set.

    Attributes:
        description: words for the format and the layout.
        reader: field of the reader in `InputReader`.
        parts: sources by part: `TRAIN`, and `EVALUATION` or `TEST` where the data set has them.
        tasks: names of the tasks that the annotations suffice for, the usual one first.
        fields: further fields of the reader's message.
        label_map: path of its label map; '' where it has none.
        keypoints: number of the keypoints of an object.
        mirrored_keypoints: number of the keypoint that each becomes in a mirrored image; empty:
            not known.
        keypoint_names: in their order; empty: they have none.
    """

    description: str
    reader: str
    parts: Mapping[str, Sequence[Folder]]
    tasks: Sequence[str]
    fields: Mapping[str, str] = {}
    label_map: str = ''
    keypoints: int = 0
    mirrored_keypoints: Sequence[int] = ()
    keypoint_names: Sequence[str] = ()


def tell_part(name: str) -> str:
    """Return the part that a name tells; '' where it tells none.

    A whole name counts first, then its words: `instances_val2017` is of the evaluation.
    """
    words = [name, *re.split(r'[^A-Za-z0-9]+', name)]
    for word in words:
        for part, names in PART_NAMES.items():
            if word.lower() in names:
                return part
    return ''


def part_folders(root: str) -> Dict[str, str]:
    """Return the folders of the parts below a folder; the folder itself, as `TRAIN`, without any.

    Raises:
        errors.DataError: the folder cannot be read.
    """
    found: Dict[str, str] = {}
    for name in folder_files.list_names(root):
        path = os.path.join(root, name)
        part = next((each for each, names in PART_NAMES.items() if name.lower() in names), '')
        if part and part not in found and tf.io.gfile.isdir(path):
            found[part] = path
    return found if TRAIN in found else {TRAIN: root}


def inner_folders(root: str) -> List[str]:
    """Return the paths of the visible folders in a folder."""
    names = [name for name in folder_files.list_names(root) if not name.startswith('.')]
    return [path for name in names if tf.io.gfile.isdir(path := os.path.join(root, name))]


def files_ending(folder: str, *endings: str) -> List[str]:
    """Return the paths of visible files with some endings in a folder; none without the folder."""
    if not tf.io.gfile.isdir(folder):
        return []
    names = folder_files.list_names(folder)
    return [
        os.path.join(folder, name)
        for name in names
        if name.lower().endswith(endings) and not name.startswith('.')
    ]


def image_folders(root: str) -> List[str]:
    """Return the folders with images in a folder, itself included, sorted."""
    if not tf.io.gfile.isdir(root):
        return []
    walked = folder_files.walk(root)
    return sorted(path for path, names in walked if any(map(folder_files.is_image, names)))


def pairs(root: str, names: Sequence[str]) -> Iterator[Dict[str, Folder]]:
    """Yield the ways to find images and their annotations below a folder, by part.

    For `names` of `labels` these are `train/images` with `train/labels`; `images/train` with
    `labels/train`; and one folder for both.

    Args:
        root: the folder.
        names: of the folders of annotations.
    """
    folders = part_folders(root)
    beside = {part: _inside(path, names) for part, path in folders.items()}
    yield {part: pair for part, pair in beside.items() if pair}
    pair = _inside(root, names)
    if pair:
        images, annotations = part_folders(pair.images), part_folders(pair.annotations)
        yield {
            part: Folder(images[part], annotations[part]) for part in images if part in annotations
        }
    yield {part: Folder(path, path) for part, path in folders.items()}


def _inside(root: str, names: Sequence[str]) -> Optional[Folder]:
    """Return the folders of images and annotations in a folder."""
    inner = {os.path.basename(path).lower(): path for path in inner_folders(root)}
    images = next((inner[name.lower()] for name in _IMAGES if name.lower() in inner), None)
    annotations = next((inner[name.lower()] for name in names if name.lower() in inner), None)
    return Folder(images, annotations) if images and annotations else None


def find_pairs(
    root: str, names: Sequence[str], endings: Sequence[str], is_annotation: Callable[[str], bool]
) -> Dict[str, List[Folder]]:
    """Return the sources of images with a file of annotations each, by part; empty without any.

    Args:
        root: the folder.
        names: of folders of annotations.
        endings: of names of annotations.
        is_annotation: tells one by its path.
    """
    if not tf.io.gfile.isdir(root):
        return {}
    for way in pairs(root, names):
        fitting = {
            part: [pair]
            for part, pair in way.items()
            if _has_images(pair.images)
            and any(map(is_annotation, files_ending(pair.annotations, *endings)[:_MOST_SNIFFED]))
        }
        if TRAIN in fitting:
            return fitting
    return {}


def _has_images(folder: str) -> bool:
    return any(map(folder_files.is_image, folder_files.list_names(folder)))


def drop_empty(parts: Mapping[str, Sequence[Folder]]) -> Dict[str, List[Folder]]:
    """Return the parts that have a source."""
    return {part: list(folders) for part, folders in parts.items() if folders}


def evaluation_part(parts: Mapping[str, Sequence[Folder]]) -> Tuple[str, str]:
    """Return the part that a run evaluates on, and a sentence on another one; '' where none is."""
    if EVALUATION in parts:
        return EVALUATION, f'{TEST} is not looked at' if TEST in parts else ''
    return (
        (TEST, f'{TEST} is the evaluation: there is no {EVALUATION}') if TEST in parts else ('', '')
    )


def require_training(data: DataSet, path: str) -> None:
    """Check that a data set has images to train on.

    Raises:
        errors.DataError: it has none.
    """
    if not data.parts.get(TRAIN):
        raise errors.DataError(
            f'--data={path}: {data.description} has no images to train on; expected a part of the '
            f'name {" or ".join(PART_NAMES[TRAIN][:2])}.'
        )
