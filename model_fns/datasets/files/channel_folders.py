"""Channels of images beside the colors, in folders of gray images with the same stems."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, List, Sequence

import numpy as np

from estimator_lib import errors
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from estimator_lib.drawing.tiling import Window
from estimator_lib.drawing.visualization import encode_png
from model_fns.datasets import image_files
from model_fns.datasets.files import folder_files
from model_fns.structures import images

_DEEP_MODES = ('I', 'I;16', 'I;16B')  # of Pillow, for gray of 16 bits


def channel_features(
    folders: Sequence[str], path: str, header: images.ImageHeader
) -> Dict[str, List[bytes]]:
    """Return the record feature of an image's further channels; empty without folders.

    Args:
        folders: one for each channel.
        path: of the image with the colors.
        header: of that image.

    Raises:
        errors.DataError: a folder has no file of that stem or several, or its size differs.
    """
    stem = os.path.splitext(os.path.basename(path))[0]
    encoded = [_read(folder, stem, header) for folder in folders]
    return {ADDITIONAL_CHANNELS: encoded} if encoded else {}


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


def _read(folder: str, stem: str, header: images.ImageHeader) -> bytes:
    paths = _paths_by_stem(folder).get(stem, ())
    if len(paths) != 1:
        raise errors.DataError(
            f'--additional_channels: {folder} has {len(paths)} images called {stem}; expected one.'
        )
    try:
        file = image_files.prepare(folder_files.read_bytes(paths[0]), apply_exif=False)
    except errors.DataError as error:
        raise errors.DataError(f'--additional_channels: {paths[0]}: {error}') from None
    if file.header[1:] != header[1:]:
        raise errors.DataError(
            f'--additional_channels: {paths[0]} has {file.header.height} x {file.header.width} '
            f'pixels; the image has {header.height} x {header.width}.'
        )
    return file.encoded


@functools.lru_cache(maxsize=64)
def _paths_by_stem(folder: str) -> Dict[str, List[str]]:
    paths: Dict[str, List[str]] = {}
    for place, names in folder_files.walk(folder):
        for name in filter(folder_files.is_image, names):
            paths.setdefault(os.path.splitext(name)[0], []).append(os.path.join(place, name))
    return paths
