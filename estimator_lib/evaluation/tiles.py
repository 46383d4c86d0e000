"""Evaluations of large images by tiles: `eval_config.tiles`."""

from __future__ import annotations

from typing import Optional

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import serving
from estimator_lib.task import Task
from protos import eval_pb2

FIELD = 'eval_config.tiles'


def from_config(config: eval_pb2.EvalConfig) -> Optional[Tiling]:
    """Return the tiles of evaluations; None: images stay whole.

    Raises:
        errors.ConfigError: the overlap is as large as a tile.
    """
    tiles = config.tiles
    if not tiles.size:
        return None
    overlap = tiles.overlap if tiles.HasField('overlap') else None
    tiling = Tiling.create(tiles.size, overlap, tiles.whole_image)
    if tiling.overlap >= tiles.size:
        raise errors.ConfigError(
            f'{FIELD}.overlap: {tiling.overlap}; expected less than {FIELD}.size, {tiles.size}.'
        )
    return tiling


def as_read(task: Task, tiling: Tiling) -> Task:
    """Return the task that reads the examples of an evaluation by tiles, and no others.

    They have whole images, and the labels that merged outputs are compared with.
    """
    return serving.with_requests(task.as_tiled(tiling.size))


def check(task: Task, config: eval_pb2.EvalConfig) -> None:
    """Check that a task can be evaluated by the tiles of a config, if there are any.

    Raises:
        errors.ConfigError: it cannot.
    """
    tiling = from_config(config)
    if tiling is None:
        return
    if not task.presentation.tiled_outputs:
        raise errors.ConfigError(
            f'{FIELD} (--tile): the metrics of this {task.name} model need outputs that cannot be '
            'put together, or its network needs the context of other images; expected boxes, '
            'rotated boxes, masks of objects, classes of pixels or edges, without context, or no '
            'tiles.'
        )
    if tiling.whole and not task.presentation.merges_whole_image:
        raise errors.ConfigError(
            f'{FIELD}.whole_image (--whole_image): {task.name} has a result for each pixel, which '
            'a tile gives; leave it out.'
        )
