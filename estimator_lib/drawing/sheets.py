"""Sheets of the same evaluation examples at several steps: predictions over time, as files."""

from __future__ import annotations

import os
from typing import Collection, List, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.drawing import figures, visualization
from estimator_lib.processes import path_names

FOLDER = 'predictions'  # in the folder of an evaluation set

_EXAMPLES = 6  # on a sheet
_MOST_SHEETS = 12


def write(folder: str, step: int, pictures: Sequence[np.ndarray]) -> None:
    """Write a sheet as `<step>.png`, and remove older ones where there are many.

    A failure is a warning.

    Args:
        folder: the folder of the sheets of a run.
        step: the global step of the pictures.
        pictures: uint8 [height, width, 3] each; none: nothing is written.
    """
    if not pictures:
        return
    path = os.path.join(folder, f'{step}.png')
    with figures.tolerated(path):
        tf.io.gfile.makedirs(folder)
        visualization.write_png(path, visualization.sheet(pictures[:_EXAMPLES]))
        names = {name.partition('.')[0]: name for name in path_names.list_names(folder)}
        for each in thin([int(stem) for stem in names if stem.isdecimal()], _MOST_SHEETS):
            tf.io.gfile.remove(os.path.join(folder, names[str(each)]))


def thin(steps: Collection[int], most: int) -> List[int]:
    """Return the steps to remove so that at most `most` stay, evenly over the run.

    The first and the last step stay. Of the others, that one goes whose neighbors are closest: of
    1, 2, 3 and 9, where three may stay, 2 goes (3 - 1 is less than 9 - 2).

    Args:
        steps: different steps, in any order.
        most: at least 2.
    """
    kept, removed = sorted(steps), []
    while len(kept) > most:
        inner = range(1, len(kept) - 1)
        removed.append(kept.pop(min(inner, key=lambda each: kept[each + 1] - kept[each - 1])))
    return removed
