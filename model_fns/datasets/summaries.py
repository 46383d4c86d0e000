"""Summary of a conversion: counts of the objects and images in the records."""

from __future__ import annotations

import collections
import types
from typing import Any, Counter, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from estimator_lib import texts
from model_fns.datasets import records

_MOST_CLASSES = 50
_OBJECT_CLASSES, _IMAGE_CLASS = 'image/object/class/text', 'image/class/text'


class Tile(NamedTuple):
    """The objects of a tile.

    Attributes:
        image: path of the image that the tile is a part of.
        num_objects: of the whole image, without regions to ignore.
        kept: indices of those that the tile holds.
        is_written: False where a tile without objects is left out.
    """

    image: str
    num_objects: int
    kept: Sequence[int]
    is_written: bool


class ImageSummary(NamedTuple):
    """The summary of a record, or of a tile that has none.

    Attributes:
        classes: number of objects by class; of a classified image its class; None: no objects are
            listed, as with class ids of pixels.
        num_clipped: boxes cut at the border of the image.
        digest: of the encoded image.
        tile: the part of an image that the record holds; None: the image is whole.
        num_ignored: number of regions to ignore by name, each of which is a crowd of each class; of
            a tile, those of its whole image.
    """

    classes: Optional[Mapping[str, int]]
    num_clipped: int
    digest: str
    tile: Optional[Tile] = None
    num_ignored: Mapping[str, int] = types.MappingProxyType({})


def summarize(
    features: records.Features,
    num_clipped: int,
    tile: Optional[Tile] = None,
    num_ignored: Mapping[str, int] = types.MappingProxyType({}),
) -> ImageSummary:
    """Return the summary of a record's features."""
    classes: Optional[Mapping[str, int]] = None
    if _OBJECT_CLASSES in features:
        listed: Any = features[_OBJECT_CLASSES]
        if tile is None:
            objects = collections.Counter(listed)
            objects.subtract(dict.fromkeys(objects, sum(num_ignored.values())))
            classes = +objects
        else:
            classes = collections.Counter(listed[: len(tile.kept)])  # regions are behind them
    elif _IMAGE_CLASS in features:
        names: Any = features[_IMAGE_CLASS]
        classes = dict.fromkeys([names] if isinstance(names, str) else names, 1)
    digest = str(features['image/key/sha256'])
    return ImageSummary(classes, num_clipped, digest, tile, dict(num_ignored))


class Summary:
    """The summaries of all records; its text has a line for each class."""

    def __init__(self) -> None:
        self._objects: Counter[str] = collections.Counter()
        self._images: Counter[str] = collections.Counter()
        self._digests: Counter[str] = collections.Counter()
        self._num_empty = self._num_clipped = 0
        self._ignored: Counter[str] = collections.Counter()
        self._num_tiles = self._num_left_out = 0
        self._in_no_tile: Dict[str, Set[int]] = {}

    def add(self, image: Optional[ImageSummary]) -> None:
        """Add a record, or a tile that has none."""
        if image is None:
            return
        if image.tile is None or image.tile.image not in self._in_no_tile:
            self._ignored.update(image.num_ignored)
        if image.tile is not None:
            self._add_tile(image.tile)
            if not image.tile.is_written:
                return
        self._digests[image.digest] += 1
        self._num_clipped += image.num_clipped
        if image.classes is not None:
            self._objects.update(image.classes)
            self._images.update(image.classes.keys())
            self._num_empty += not image.classes

    def _add_tile(self, tile: Tile) -> None:
        self._num_tiles += tile.is_written
        self._num_left_out += not tile.is_written
        missing = self._in_no_tile.setdefault(tile.image, set(range(tile.num_objects)))
        missing.difference_update(tile.kept)

    def __str__(self) -> str:
        names = [name for name, _ in self._objects.most_common(_MOST_CLASSES)]
        lines = [
            f'{name}: {texts.counted(self._objects[name], "object")} in '
            f'{texts.counted(self._images[name], "image")}'
            for name in names
        ]
        if len(self._objects) > len(names):
            lines.append(f'and {len(self._objects) - len(names)} classes with fewer objects')
        others = {
            'without objects': self._num_empty,
            'equal to another one': sum(self._digests.values()) - len(self._digests),
        }
        lines += [f'{texts.counted(n, "image")} {text}' for text, n in others.items() if n]
        if self._num_clipped:
            lines.append(
                f'{texts.counted(self._num_clipped, "object")} cut at the border of the image'
            )
        lines += [
            f'{texts.counted(count, "region")} to ignore, {name!r}: a crowd of each class'
            for name, count in self._ignored.items()
        ]
        lines += self._tile_lines()
        return '\n'.join(
            [f'converted {texts.counted(sum(self._digests.values()), "image")}:', *lines]
        )

    def _tile_lines(self) -> List[str]:
        """Return a line for each count of tiles; in the counts above a tile is an image."""
        if not self._in_no_tile:
            return []
        cut = texts.counted(len(self._in_no_tile), 'image')
        lines = [f'{texts.counted(self._num_tiles, "tile")} of {cut}, each counted as an image']
        if self._num_left_out:
            lines.append(f'{texts.counted(self._num_left_out, "tile")} without objects left out')
        num_missing = sum(map(len, self._in_no_tile.values()))
        if num_missing:
            lines.append(f'{texts.counted(num_missing, "object")} in no tile')
        return lines
