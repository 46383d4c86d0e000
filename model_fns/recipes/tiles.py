"""Decision on tiles: of images that are far larger than the input that a first run has."""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple, Optional

import numpy as np

from estimator_lib.drawing.tiling import Tiling
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Decision

# Tasks whose predictions for tiles are merged, and whose facts have the boxes.
TASKS = ('detection', 'instances')
LEAST_INSIDE = 0.7  # of the area of an object in a tile; the default of readers

_LARGE = 960  # pixels of the longer side: 1.5 times the largest input that is not asked for
_FAR_LARGER = 2.0  # times the longer side of the input
_UNCLEAR = 12.0  # pixels of the median object at the input
_CLEAR = 24.0  # pixels of the median object at the input, of a tile
_MULTIPLE = 32  # of the side of a tile
_MOST_OF_A_ROW = 16  # tiles along the longer side, without their overlap
_LONGEST = 95.0  # percentile of the longer sides of objects, which an overlap holds


class Choice(NamedTuple):
    """Tiles and their reason."""

    tiling: Tiling
    reason: str


def choose(facts: Facts, side: float, tile_side: float) -> Optional[Choice]:
    """Choose tiles where the input of whole images leaves too little of most objects.

    Images of 1920 x 1080 pixels have 1440 as the root of their area. Where the median object has
    0.02 of it, 28.8 pixels, it has 8 at an input of 400 x 400. At 256 x 256 it has 24 in a tile of
    307 pixels, which become 320.

    Args:
        facts: of whole images.
        side: root of the area of the input that they would have.
        tile_side: root of the area of the input that tiles begin with.

    Returns:
        The tiles; None: images stay whole.
    """
    sides, (height, width) = facts.sides(), facts.typical_size()
    longest, root = max(height, width), math.sqrt(height * width)
    if not len(sides) or longest < max(_LARGE, _FAR_LARGER * side * longest / root):
        return None
    middle = float(np.median(sides))
    if middle * side >= _UNCLEAR:
        return None
    wanted = max(middle * root * tile_side / _CLEAR, tile_side / 2, longest / _MOST_OF_A_ROW)
    size = _MULTIPLE * math.ceil(wanted / _MULTIPLE - 0.5)
    if 2 * size > longest:
        return None
    overlap = min(max(Tiling.create(size, None).overlap, _longest_object(facts)), size // 2)
    reason = (
        f'Images have about {width} x {height} pixels: at {side:.0f} x {side:.0f} the median '
        f'object would have {middle * side:.0f}, and in a tile of {size} x {size} it has '
        f'{middle * root * tile_side / size:.0f} at {tile_side:.0f} x {tile_side:.0f}'
    )
    return Choice(Tiling(size, overlap), reason)


def _longest_object(facts: Facts) -> int:
    """Return the longer side in pixels that 95 % of the objects do not exceed."""
    sides = [
        ((image.boxes[:, 2:] - image.boxes[:, :2]) * image.size).max(axis=1)
        for image in facts.all()
        if len(image.boxes)
    ]
    return math.ceil(np.percentile(np.concatenate(sides), _LONGEST))


def decisions(choice: Choice) -> Iterator[Decision]:
    """Decide the fields of tiles: of training, and of evaluations of whole images."""
    size, overlap = choice.tiling[:2]
    tiles = f'size: {size} overlap: {overlap}'
    reason = f'{choice.reason}. Tiles without objects are left out'
    yield Decision('train_input_reader.tiles', f'{{ {tiles} drop_empty: true }}', reason)
    reason = (
        'Evaluations merge the detections of tiles, and compare them with the labels of whole '
        f'images, as --mode=predict --tile={size} --overlap={overlap} merges them'
    )
    yield Decision('eval_config.tiles', f'{{ {tiles} }}', reason)
