"""Tiles of large images: their names, and their records."""

from __future__ import annotations

import os
from typing import Sequence, Tuple

import numpy as np

from estimator_lib.drawing.tiling import Window
from model_fns.datasets import codecs, records
from model_fns.datasets.files import channel_folders
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.structures import images, rotated_overlaps, rotated_rectangles

_PER_BOX = tuple(
    f'image/object/{name}' for name in ('difficult', 'truncated', 'is_crowd', 'weight')
)
_LEAST_OF_REGION = 1e-6  # square pixels: less may be rounding


def tile_name(source_id: str, window: Window) -> str:
    """Return the name of a tile as DOTA's tools do: `P0001__1__824___0.png` has scale, x and y."""
    stem, ending = os.path.splitext(source_id)
    top, left, _, _ = window
    return f'{stem}__1__{left}___{top}{ending}'


def whole_name(source_id: str) -> str:
    """Return what the names of all tiles of an image have in common, and of no other image."""
    return source_id.rpartition('__1__')[0]


def crop_image(
    features: records.Features, pixels: np.ndarray, window: Window
) -> Tuple[records.Features, images.ImageHeader]:
    """Return the record features of a tile's image, and the size of the tile.

    Args:
        features: of the whole image; its source id is that of the tile.
        pixels: uint8 [height, width, channels] of it.
        window: of the tile.
    """
    top, left, height, width = window
    part = pixels[top : top + height, left : left + width]
    encoded = codecs.encode_png(np.ascontiguousarray(part))
    header = images.image_header(encoded)
    name = tile_name(str(features['image/filename']), window)
    source_id = str(features['image/source_id'])
    made = records.image_features(encoded, header, name, source_id)
    return {**made, **channel_folders.cut(features, window)}, header


def cut_boxes(
    features: records.Features, size: Sequence[int], window: Window, least: float
) -> Tuple[records.Features, np.ndarray]:
    """Cut the boxes of a tile, without its pixels; return them with their indices in the image.

    Args:
        features: of the whole image, with rotated boxes.
        size: height and width of it in pixels.
        window: of the tile.
        least: objects stay, uncut, where the tile holds at least this fraction of their area, and
            their center. Crowds stay where it holds any of them. One whose center is outside
            becomes the smallest box around its part.
    """
    top, left, height, width = window
    numbers = np.stack([features[key] for key in rotated_boxes.KEYS], axis=1)
    boxes = rotated_rectangles.from_record(numbers, *size)
    boxes[:, :2] -= [top, left]
    is_region = np.asarray(features.get('image/object/is_crowd', np.zeros([len(boxes)])), bool)
    tile = np.array([[0, 0], [0, width], [height, width], [height, 0]], np.float64)
    has_center = ((boxes[:, :2] >= 0) & (boxes[:, :2] <= [height, width])).all(axis=1)
    kept = _kept(boxes, has_center, is_region, tile, least)
    for index in kept[~has_center[kept]]:  # records refuse boxes with a center outside
        part = rotated_overlaps.intersection(rotated_rectangles.corners(boxes[index]), tile)
        boxes[index] = rotated_rectangles.smallest_around(part)
    header = images.ImageHeader('png', height, width)
    names = [features['image/object/class/text'][index] for index in kept]
    made = {
        **rotated_boxes.box_features(
            boxes[kept], features['image/object/class/label'][kept], names, header
        ),
        **{key: features[key][kept] for key in _PER_BOX if key in features},
    }
    return made, kept


def _kept(
    boxes: np.ndarray,
    has_center: np.ndarray,
    is_region: np.ndarray,
    tile: np.ndarray,
    least: float,
) -> np.ndarray:
    """Return the indices of the boxes with their center and enough of their area in a tile.

    A crowd is a region to ignore, however little of it is in the tile.
    """
    if not len(boxes):
        return np.zeros(0, np.int64)
    outlines = rotated_rectangles.corners(boxes)
    inside = rotated_overlaps.intersections(outlines, tile[np.newaxis])[:, 0]
    # Rounding must not lose an object that is wholly inside where least is 1.
    enough = inside >= (least - 1e-9) * rotated_overlaps.areas(outlines)
    return np.flatnonzero((enough & has_center) | (is_region & (inside > _LEAST_OF_REGION)))
