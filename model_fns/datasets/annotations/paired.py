"""Base of formats with one annotation file per image, named by the image's stem."""

from __future__ import annotations

import os
import posixpath
from typing import Dict, List, Mapping, Sequence

import tensorflow as tf

from estimator_lib import errors, texts
from model_fns.datasets import sources
from model_fns.datasets.files import folder_files
from model_fns.datasets.sources import Item, Source


class PairedSource(Source):
    """Images in one folder, a file of annotations for each in another.

    A file belongs to the image of its stem. Where there is none, it belongs to the image that it
    names, if the format has such a name and no other file belongs to that image.

    Args:
        image_folder: of the images.
        annotation_folder: of the annotations.

    Attributes:
        ending: of the names of annotations.
        kind: what messages call an annotation.
        needs_annotation: images without one are left out; else they have no objects.
    """

    ending = '.txt'
    kind = 'text file'
    needs_annotation = True

    def __init__(self, image_folder: str, annotation_folder: str):
        self._image_folder = image_folder
        self._annotation_folder = annotation_folder

    def items(self) -> List[Item]:
        """Return the images; an item's annotation is the path of its file, '' without one.

        Raises:
            errors.DataError: the folder of annotations is missing, or has none for any of the
                images.
        """
        paths = self._image_paths()
        if not tf.io.gfile.isdir(self._annotation_folder):
            raise folder_files.missing('--annotations', 'folder', self._annotation_folder)
        annotations = self._annotation_paths()
        if not paths.keys() & annotations.keys():
            raise errors.DataError(
                f'--annotations: {self._annotation_folder} has no {self.kind} with the stem of any '
                f'of the images in {self._image_folder} ({texts.counted(len(paths), "image")}).'
            )
        return [
            Item(
                os.path.splitext(os.path.basename(path))[0],
                path,
                os.path.relpath(path, self._image_folder),
                annotations.get(key, ''),
            )
            for key, path in paths.items()
            if key in annotations or not self.needs_annotation
        ]

    def annotation_path(self, item: Item) -> str:
        """Return the path of the item's annotation."""
        return str(item.annotation)

    def problems(self) -> Sequence[str]:
        """Return one line on the annotations without an image."""
        alone = _missing(self._annotation_paths(), self._image_paths())
        if not alone:
            return ()
        count = texts.counted(len(alone), self.kind)
        return [
            f'{self._annotation_folder}: no image in {self._image_folder} has the stem of {count}: '
            f'{errors.shortened(alone)}.'
        ]

    def notes(self) -> Sequence[str]:
        """Return one line on the images without annotation, where they are left out."""
        if not self.needs_annotation:
            return ()
        alone = _missing(self._image_paths(), self._annotation_paths())
        return sources.note_left_out(alone, 'annotation', self._annotation_folder)

    def _image_paths(self) -> Dict[str, str]:
        """Return the paths of the images by the key that an image and its annotation share."""
        return sources.index_by_stem(sources.list_images(self._image_folder))

    def _annotation_paths(self) -> Dict[str, str]:
        """Return the paths of the annotations by the same key."""
        folder = self._annotation_folder
        names = folder_files.list_names(folder)
        paths = sources.index_by_stem(
            [os.path.join(folder, name) for name in names if self._is_annotation(name)]
        )
        images = self._image_paths()
        without_file = images.keys() - paths.keys()
        named: Dict[str, List[str]] = {}
        for stem in paths.keys() - images.keys() if without_file else ():
            name = self._image_name(paths[stem]).replace('\\', '/')
            key = os.path.splitext(posixpath.basename(name))[0]
            if key in without_file:
                named.setdefault(key, []).append(stem)
        renamed = {stems[0]: key for key, stems in named.items() if len(stems) == 1}
        return {renamed.get(stem, stem): path for stem, path in paths.items()}

    def _image_name(self, path: str) -> str:
        """Return the name of its image that a file of annotations has; '' without one."""
        del path
        return ''

    def _is_annotation(self, name: str) -> bool:
        return name.lower().endswith(self.ending) and not name.startswith('.')


def _missing(paths: Mapping[str, str], others: Mapping[str, str]) -> List[str]:
    return [os.path.basename(path) for key, path in paths.items() if key not in others]
