"""`--from=folders`: one folder a class, as people sort photographs."""

from __future__ import annotations

import argparse
import os
from typing import List, Sequence

import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import image_files, records, sources
from model_fns.datasets.files import folder_files
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

# Formats of pictures that cannot be decoded. They are reported; other files are ignored.
_OTHER_PICTURES = ('.heic', '.avif', '.jxl', '.svg', '.psd')


class Folders(Source):
    """Images in `DIR/<class>/`.

    Args:
        folder: that holds the classes' folders.
    """

    def __init__(self, folder: str):
        self._folder = folder

    def items(self) -> List[Item]:
        """Return the images; an item's annotation is its class name."""
        return [item for name in self._names() for item in self._class_items(name)]

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the names of all folders with images, sorted; `--list` does not matter."""
        return [name for name in self._names() if self._class_items(name)]

    def problems(self) -> List[str]:
        """Return a line for each folder without images and each picture of an unknown format."""
        problems = []
        for name in self._names():
            folder = os.path.join(self._folder, name)
            if not sources.list_images(folder):
                problems.append(f'{folder}: there are no images in this folder.')
            problems += [
                f'{os.path.join(folder, file)}: not {image_files.FORMATS}.'
                for file in folder_files.list_names(folder)
                if file.lower().endswith(_OTHER_PICTURES) and not file.startswith('.')
            ]
        return problems

    def stratum(self, item: Item) -> str:
        """Return the class of an image: a split keeps the proportions of the classes."""
        return str(item.annotation)

    def _names(self) -> List[str]:
        if not tf.io.gfile.isdir(self._folder):
            raise folder_files.missing('--images', 'folder', self._folder)
        names = [
            name
            for name in folder_files.list_names(self._folder)
            if not name.startswith('.') and tf.io.gfile.isdir(os.path.join(self._folder, name))
        ]
        if not names:
            raise errors.DataError(
                f'--images: {self._folder} has no folders in it; expected one for each class.'
            )
        return names

    def _class_items(self, name: str) -> List[Item]:
        paths = sources.list_images(os.path.join(self._folder, name))
        files = [(path, os.path.basename(path)) for path in paths]
        return [
            Item(os.path.splitext(file)[0], path, f'{name}/{file}', name) for path, file in files
        ]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of the image's class."""
        name = str(item.annotation)
        return {
            'image/class/label': sources.class_id(classes, name),
            'image/class/text': name,
        }


@sources.SOURCES.register('folders')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    return Folders(arguments.images)
