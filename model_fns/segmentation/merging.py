"""Merging of the outputs of an image's tiles.

A pixel has the class with the highest mean of the probabilities of all tiles that see it. The
probabilities are summed for one row of tiles at a time, and become classes when the next row
begins: memory does not depend on the height of the image.

A pixel has the instance and the edge that its own tile found: that in which it is farther from the
seam. Instances of two tiles are one if each covers more than half of the other in the overlap.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.drawing.tiling import Window
from estimator_lib.task import Arrays
from model_fns.segmentation import fields
from protos import segmentation_pb2

# Above one half of the larger part, so that a part has at most one partner: as in PQ.
_SAME_INSTANCE = 0.5
_BLOCK_ROWS = 256  # of maps that are changed in place


def merge(
    tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int], things: Optional[np.ndarray]
) -> Dict[str, np.ndarray]:
    """Merge the outputs of tiles into those of the image.

    Args:
        tiles: parts of the image, row by row, and the outputs of each; at least one part.
        size: height and width of the image.
        things: bool [C], the classes with instances; needed where the tiles have instances.

    Returns:
        Maps [height, width]: `SEMANTIC_PREDICTIONS` and, where the tiles have them,
        `INSTANCE_PREDICTIONS` (from 1, without gaps) and `EDGE_PREDICTIONS`. Heat maps and offsets
        of centers are not merged. The outputs of a tile that is the image stay as they are.

    Raises:
        errors.UserError: the model has no probabilities.
    """
    classes: Optional[_Classes] = None
    instances: Optional[_Instances] = None
    edges: Optional[np.ndarray] = None
    before = _Before()
    for window, outputs in tiles:
        # Unchanged, so that an image that fits has the same result with and without tiles.
        if window[2:] == tuple(size):
            return dict(outputs)
        if fields.SEMANTIC_PROBABILITIES not in outputs:
            raise errors.UserError(
                f'--tile: the model has no output {fields.SEMANTIC_PROBABILITIES}, whose mean over '
                'tiles gives the classes; expected an export of this version, or no --tile.'
            )
        probabilities = np.asarray(outputs[fields.SEMANTIC_PROBABILITIES])
        classes = classes or _Classes(size, probabilities.shape[2], window.height)
        classes.add(window, probabilities)
        ends = before.ends_of_neighbors(window)
        if fields.INSTANCE_PREDICTIONS in outputs:
            instances = instances or _Instances(size)
            instances.add(window, ends, outputs)
        if fields.EDGE_PREDICTIONS in outputs:
            if edges is None:
                edges = np.zeros(size, np.uint8)
            _write_own(edges, window, ends, np.asarray(outputs[fields.EDGE_PREDICTIONS]))
    semantic = classes.finished()
    merged = {fields.SEMANTIC_PREDICTIONS: semantic}
    if instances is not None:
        merged[fields.INSTANCE_PREDICTIONS] = instances.finished(semantic, things)
    if edges is not None:
        merged[fields.EDGE_PREDICTIONS] = edges
    return merged


def tiled_outputs(model: segmentation_pb2.Segmentation) -> Sequence[str]:
    """Return the names of the outputs that evaluations by tiles merge; empty: there are none.

    Heads of instances have metrics of heat maps and offsets, which are not merged.
    """
    if model.HasField('instance_center') or model.HasField('offset'):
        return ()
    edges = [fields.EDGE_PREDICTIONS] if model.HasField('edge') else []
    return (fields.SEMANTIC_PREDICTIONS, *edges)


class _Ends(NamedTuple):
    """Ends of the tiles before a tile, in pixels of the image.

    Attributes:
        row: the row where the tiles above end; the tile's first row: there are none.
        column: the column where the tile to the left ends; the tile's first column: there is none.
    """

    row: int
    column: int


class _Before:
    """Ends of the last tiles."""

    def __init__(self):
        self._last: Optional[Window] = None
        self._above: Optional[int] = None

    def ends_of_neighbors(self, window: Window) -> _Ends:
        """Return the ends of the neighbors of the next tile."""
        last, self._last = self._last, window
        if last is not None and last.top != window.top:
            self._above, last = last.top + last.height, None
        return _Ends(
            window.top if self._above is None else self._above,
            window.left if last is None else last.left + last.width,
        )


class _Classes:
    """Sums of the probabilities of a row of tiles, and the classes of the rows above.

    Args:
        size: height and width of the image.
        count: number of classes.
        height: of a tile.
    """

    def __init__(self, size: Tuple[int, int], count: int, height: int):
        self._classes = np.zeros(size, np.uint8 if count <= 1 << 8 else np.uint16)
        self._sums = np.zeros([height, size[1], count], np.float32)
        self._top = 0

    def add(self, window: Window, probabilities: np.ndarray) -> None:
        """Add the probabilities [height, width, C] of a tile."""
        if window.top != self._top:
            self._advance(window.top)
        # Sums, not means: a pixel's classes are divided by the same number, which argmax ignores.
        self._sums[:, window.left : window.left + window.width] += probabilities

    def finished(self) -> np.ndarray:
        """Return the classes: uint8 or uint16 [height, width]."""
        self._advance(len(self._classes))
        return self._classes

    def _advance(self, top: int) -> None:
        """Decide the classes of the rows above `top`, which no further tile sees."""
        done = top - self._top
        # Row by row: argmax of all rows would make int64 indices of a whole row of tiles.
        for row in range(min(done, len(self._sums))):
            self._classes[self._top + row] = self._sums[row].argmax(axis=-1)
        left = len(self._sums) - done
        # Copied in ascending order, because source and target overlap.
        for row in range(left):
            self._sums[row] = self._sums[row + done]
        self._sums[max(left, 0) :] = 0.0
        self._top = top


class _Instances:
    """Numbers of the instances of all tiles, and which of them are one.

    Args:
        size: height and width of the image.
    """

    def __init__(self, size: Tuple[int, int]):
        self._numbers = np.zeros(size, np.int32)
        self._same = np.zeros([1], np.int32)  # of each number, a lower number of the same instance
        self._classes: List[int] = [-1]

    def add(self, window: Window, ends: _Ends, outputs: Arrays) -> None:
        """Give the instances of a tile new numbers, and find those of its neighbors."""
        local = np.asarray(outputs[fields.INSTANCE_PREDICTIONS])
        classes = np.asarray(outputs[fields.SEMANTIC_PREDICTIONS])
        first = len(self._same)
        numbers = np.where(local > 0, local + (first - 1), 0)
        count = int(local.max(initial=0))
        # Each number is its own root; `_join` only ever points to lower numbers, so that no circle
        # can come up.
        self._same = np.append(self._same, np.arange(first, first + count, dtype=np.int32))
        self._classes += _most_frequent(local, classes, count)
        top, left, height, width = window
        known = self._numbers[top : top + height, left : left + width]
        rows, columns = max(ends.row - top, 0), max(ends.column - left, 0)
        self._match(known[:rows], numbers[:rows])
        self._match(known[:, :columns], numbers[:, :columns])
        _write_own(self._numbers, window, ends, numbers)

    def finished(self, classes: np.ndarray, things: np.ndarray) -> np.ndarray:
        """Return the instances int32 [height, width], from 1; 0 where a pixel is no thing."""
        roots = self._roots()
        is_there = np.zeros(len(roots), bool)
        for start in range(0, len(self._numbers), _BLOCK_ROWS):
            part = self._numbers[start : start + _BLOCK_ROWS]
            is_thing = things[classes[start : start + _BLOCK_ROWS]]
            # In blocks and in place: images of tiles may have hundreds of megapixels.
            part[...] = np.where(is_thing, roots[part], 0)
            is_there |= np.bincount(part.ravel(), minlength=len(roots)) > 0
        is_there[0] = False
        final = np.where(is_there, np.cumsum(is_there), 0).astype(np.int32)
        for start in range(0, len(self._numbers), _BLOCK_ROWS):
            part = self._numbers[start : start + _BLOCK_ROWS]
            part[...] = final[part]
        return self._numbers

    def _match(self, known: np.ndarray, numbers: np.ndarray) -> None:
        """Find instances of a tile and of its neighbors that are one, in their overlap."""
        both = (known > 0) & (numbers > 0)
        if not both.any():
            return
        # Parts that were joined before count as one area. int64, for products of two numbers below.
        known = self._roots()[known].astype(np.int64)
        size = len(self._same)
        areas = np.bincount(known.ravel(), minlength=size)
        areas += np.bincount(numbers.ravel(), minlength=size)
        pairs, shared = np.unique(known[both] * size + numbers[both], return_counts=True)
        for pair, count in zip(pairs.tolist(), shared.tolist()):
            one, other = divmod(pair, size)
            larger = max(areas[one], areas[other])
            # Of the larger one: a small part inside of a large one is not the same instance.
            if count > _SAME_INSTANCE * larger and self._classes[one] == self._classes[other]:
                self._join(one, other)

    def _join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        self._same[max(one, other)] = min(one, other)

    def _root(self, number: int) -> int:
        while self._same[number] != number:
            number = int(self._same[number])
        return number

    def _roots(self) -> np.ndarray:
        """Return the lowest number of each number's instance."""
        roots = self._same
        while not np.array_equal(roots, roots[roots]):
            roots = roots[roots]
        return roots


def _most_frequent(local: np.ndarray, classes: np.ndarray, count: int) -> List[int]:
    """Return the class of most pixels of each of the instances 1 to `count`."""
    num_classes = int(classes.max(initial=0)) + 1
    pairs = local.astype(np.int64).ravel() * num_classes + classes.ravel()
    votes = np.bincount(pairs, minlength=(count + 1) * num_classes)
    return votes.reshape([count + 1, num_classes]).argmax(axis=1)[1:].tolist()


def _write_own(whole: np.ndarray, window: Window, ends: _Ends, values: np.ndarray) -> None:
    """Write the values of a tile from the middle of its overlaps on; later tiles write over it."""
    row, column = max(ends.row - window.top, 0) // 2, max(ends.column - window.left, 0) // 2
    whole[
        window.top + row : window.top + window.height,
        window.left + column : window.left + window.width,
    ] = values[row:, column:]
