"""Records of the tiles of large images with boxes, masks or classes of pixels."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.drawing.tiling import Window
from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import class_maps
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.rotated import tiles as rotated_tiles
from model_fns.structures import id_images

_SIDES = tuple(f'image/object/bbox/{side}' for side in ('ymin', 'xmin', 'ymax', 'xmax'))
_ROTATED = rotated_boxes.KEYS[0]
_LABELS = 'image/object/class/label'
_IS_CROWD = 'image/object/is_crowd'
_PER_OBJECT = (
    _LABELS,
    'image/object/difficult',
    'image/object/truncated',
    _IS_CROWD,
    'image/object/weight',
    'image/object/mask/weight',
)
_KEYPOINT = 'image/object/keypoint'
_CLASSES = 'image/segmentation/class/encoded'
_INSTANCES = 'image/segmentation/instance/encoded'

ROUNDING = 1e-6  # of the part of a box that is in a tile


def cut(
    features: records.Features, pixels: np.ndarray, window: Window, least: float
) -> Tuple[records.Features, np.ndarray, bool]:
    """Cut the record of a tile.

    Objects are clipped at the tile's border, with their masks; rotated boxes are not. Keypoints
    outside of the tile become unlabeled.

    Args:
        features: of the whole image.
        pixels: uint8 [height, width, channels] of it.
        window: of the tile.
        least: objects stay where the tile holds at least this fraction of their box; crowds stay
            where it holds any of them.

    Returns:
        The features; the indices of the image's objects that the tile holds; and whether it holds
        a pixel of a class.

    Raises:
        errors.DataError: the image has one label for all of it.
    """
    if _LABELS not in features and _CLASSES not in features:
        label = features.get('image/class/text', features.get('image/class/label'))
        raise errors.DataError(
            f'a label of a whole image is not one of its tiles; it is {label!r}: leave out --tile.'
        )
    made, _ = rotated_tiles.crop_image(features, pixels, window)
    objects, kept = cut_objects(features, pixels.shape[:2], window, least)
    made.update(objects)
    has_classes = False
    if _CLASSES in features:
        classes = _crop(features[_CLASSES], window)
        made.update(class_maps.class_features(classes))
        is_class = ~np.isin(classes, (class_maps.BACKGROUND, class_maps.IGNORED))
        has_classes = bool(is_class.any())
    if _INSTANCES in features:
        # Numbers stay those of the image: gaps between them mean nothing.
        instances = _crop(features[_INSTANCES], window).astype(np.uint16)
        made[_INSTANCES] = codecs.encode_png(instances)
    return made, kept, has_classes


def cut_objects(
    features: records.Features, size: Sequence[int], window: Window, least: float
) -> Tuple[records.Features, np.ndarray]:
    """Cut the objects of a tile, without its pixels.

    Args:
        features: of the whole image; those without objects give none.
        size: height and width of it in pixels.
        window: of the tile.
        least: as in `cut`.

    Returns:
        The features of the objects; and their indices in the image.
    """
    if _ROTATED in features:
        return rotated_tiles.cut_boxes(features, size, window, least)
    made: records.Features = {}
    if _LABELS not in features:
        return made, np.zeros([0], np.int64)
    sides = np.stack([np.asarray(features[key], np.float64) for key in _SIDES], axis=1)
    clipped, inside = clip_boxes(sides * np.tile(size, 2), window)
    # A crowd is a region to ignore, however little of it is in the tile.
    is_region = np.asarray(features.get(_IS_CROWD, np.zeros([len(sides)])), bool)
    kept = np.flatnonzero((is_region | (inside >= least - ROUNDING)) & (inside > 0))
    for key, values in zip(_SIDES, clipped[kept].T):
        made[key] = values.astype(np.float32)
    made['image/object/class/text'] = [
        _listed(features, 'image/object/class/text')[i] for i in kept
    ]
    for key in _PER_OBJECT:
        if key in features:
            made[key] = np.asarray(features[key])[kept]
    fractions = inside[kept]
    if 'image/object/mask' in features:
        pngs = [_listed(features, 'image/object/mask')[index] for index in kept]
        masks = [_crop(png, window).astype(np.uint8) for png in pngs]
        made['image/object/mask'] = [codecs.encode_png(mask) for mask in masks]
        before = [np.count_nonzero(id_images.read(png)) for png in pngs]
        counts = np.array([np.count_nonzero(mask) for mask in masks], np.float64)
        fractions = counts / np.maximum(before, 1)
    if 'image/object/area' in features:
        area = np.asarray(features['image/object/area'], np.float64)[kept]
        made['image/object/area'] = (area * fractions).astype(np.float32)
    if f'{_KEYPOINT}/num' in features:
        _cut_keypoints(features, made, kept, size, window)
    return made, kept


def _cut_keypoints(
    features: records.Features,
    made: records.Features,
    kept: np.ndarray,
    size: Sequence[int],
    window: Window,
) -> None:
    """Add the keypoints of the kept objects to the features of a tile."""
    count = len(np.asarray(features[f'{_KEYPOINT}/num']))
    rows = {
        name: np.asarray(features[f'{_KEYPOINT}/{name}'], np.float64).reshape(count, -1)[kept]
        for name in ('x', 'y', 'visibility')
    }
    x = (rows['x'] * size[1] - window.left) / window.width
    y = (rows['y'] * size[0] - window.top) / window.height
    # Unlabeled and not clipped: a point on the border would be a false one.
    is_labeled = (rows['visibility'] > 0) & (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    for name, values in (('x', x), ('y', y)):
        made[f'{_KEYPOINT}/{name}'] = np.where(is_labeled, values, 0).astype(np.float32).ravel()
    visibility = np.where(is_labeled, rows['visibility'], 0)
    made[f'{_KEYPOINT}/visibility'] = visibility.astype(np.int64).ravel()
    made[f'{_KEYPOINT}/num'] = is_labeled.sum(axis=1).astype(np.int64)


def clip_boxes(boxes: np.ndarray, window: Window) -> Tuple[np.ndarray, np.ndarray]:
    """Clip boxes to a tile.

    Args:
        boxes: float [n, 4], ymin, xmin, ymax, xmax in pixels of the image.
        window: of the tile.

    Returns:
        The boxes [n, 4], relative to the tile and its sides; and which part of the area of each is
        in the tile [n], 0 for boxes without an area.
    """
    ends = np.tile([window.height, window.width], 2)
    moved = boxes - np.tile([window.top, window.left], 2)
    clipped = np.clip(moved, 0, ends)
    areas, inside = (
        np.prod(np.maximum(each[:, 2:] - each[:, :2], 0), axis=1) for each in (moved, clipped)
    )
    # `where` leaves the others as `out` has them, without NumPy's warning.
    parts = np.divide(inside, areas, out=np.zeros_like(inside), where=areas > 0)
    return clipped / ends, parts


def _listed(features: records.Features, key: str) -> Any:
    return features[key]


def _crop(png: Any, window: Window) -> np.ndarray:
    """Return the ids of a tile: int32 [height, width]."""
    top, left, height, width = window
    return id_images.read(png)[top : top + height, left : left + width]
