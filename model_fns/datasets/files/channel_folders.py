"""Channels of images beside the colors, in folders of gray images with the same stems."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, List, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from estimator_lib.drawing.tiling import Window
from estimator_lib.drawing.visualization import encode_png
from model_fns.datasets import image_files
from model_fns.datasets.files import folder_files
from model_fns.structures import images

FLAG = '--additional_channels'  # of the commands that read such folders
_DEEP_MODES = ('I', 'I;16', 'I;16B')  # of Pillow, for gray of 16 bits


class ChannelFolders:
    """Folders of gray images, for the converter, readers of files and predictions.

    Args:
        folders: one for each channel.
    """

    def __init__(self, folders: Sequence[str]):
        self._folders = tuple(folders)

    def __len__(self) -> int:
        return len(self._folders)

    def features(self, path: str, header: images.ImageHeader) -> Dict[str, List[bytes]]:
        """Return the record feature of an image's further channels; empty without folders.

        The arguments and errors are those of `read`.
        """
        encoded = self.read(path, header)
        return {ADDITIONAL_CHANNELS: encoded} if encoded else {}

    def read(self, path: str, header: images.ImageHeader) -> List[bytes]:
        """Return the files of an image's further channels, in the form of a record.

        Args:
            path: of the image with the colors.
            header: of that image.

        Raises:
            errors.DataError: a folder has no file of that stem or several, or its size differs.
        """
        return [_read(channel, header) for channel in self.find(path)]

    def find(self, path: str) -> List[str]:
        """Return the paths of an image's further channels.

        Raises:
            errors.DataError: see `read`.
        """
        place, name = os.path.split(path)
        stem = os.path.splitext(name)[0]
        found = []
        for folder, paths in zip(self._folders, self._paths):
            candidates = paths.get(stem, ())
            if len(candidates) > 1:  # as in `folders`, where stems are unique in a class only
                candidates = [each for each in candidates if _same_place(each, folder, place)]
            if len(candidates) != 1:
                raise errors.DataError(
                    f'{FLAG}: {folder} has {len(paths.get(stem, ()))} images called {stem}; '
                    'expected one.'
                )
            found += candidates
        return found

    @functools.cached_property
    def _paths(self) -> List[Dict[str, List[str]]]:
        return [_paths_by_stem(folder) for folder in self._folders]


def check_folders(folders: Sequence[str]) -> None:
    """Check that folders of channels are there.

    Raises:
        errors.DataError: one is not.
    """
    for folder in folders:
        if not tf.io.gfile.isdir(folder):
            raise errors.DataError(
                f'{FLAG}: {folder}: there is no such folder{errors.relative_to(folder)}.'
            )


def cut(features: Any, window: Window) -> Dict[str, List[bytes]]:
    """Return the part of further channels in a tile; empty where the features have none.

    Args:
        features: of the record of the whole image.
        window: of the tile.
    """
    if ADDITIONAL_CHANNELS not in features:
        return {}
    top, left, height, width = window
    parts = []
    for encoded in features[ADDITIONAL_CHANNELS]:
        image = images.open_image(encoded)
        is_deep = image.mode in _DEEP_MODES
        pixels = np.array(image if is_deep else image.convert('L'))
        part = pixels[top : top + height, left : left + width]
        parts.append(encode_png(part.astype(np.uint16 if is_deep else np.uint8)))
    return {ADDITIONAL_CHANNELS: parts}


def _read(path: str, header: images.ImageHeader) -> bytes:
    try:
        file = image_files.prepare(folder_files.read_bytes(path), apply_exif=False)
    except errors.DataError as error:
        raise errors.DataError(f'{FLAG}: {path}: {error}') from None
    if file.header[1:] != header[1:]:
        raise errors.DataError(
            f'{FLAG}: {path} has {file.header.height} x {file.header.width} pixels; the image has '
            f'{header.height} x {header.width}.'
        )
    return file.encoded


def _same_place(path: str, folder: str, place: str) -> bool:
    """Return whether a file is in folders of the same names as an image's own.

    Args:
        path: of the file.
        folder: that it was found in, or in a folder inside.
        place: the image's folder.
    """
    inner = os.path.relpath(os.path.dirname(path), folder)
    return inner != os.curdir and f'/{place}'.endswith(f'/{inner}')


def _paths_by_stem(folder: str) -> Dict[str, List[str]]:
    paths: Dict[str, List[str]] = {}
    for place, names in folder_files.walk(folder):
        for name in filter(folder_files.is_image, names):
            paths.setdefault(os.path.splitext(name)[0], []).append(os.path.join(place, name))
    return paths
