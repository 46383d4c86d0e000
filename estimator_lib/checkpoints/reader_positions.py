"""Positions of a checkpoint's readers, for a run that has other readers.

Processes that share the records take turns: each saves the position behind its own last record. So
the furthest of these positions is that of all readers together, from which any number of other
readers can continue.
"""

from __future__ import annotations

from typing import Dict, Sequence

import numpy as np

from estimator_lib.checkpoints.checkpoint_files import (
    READER_SCOPE,
    checkpoint_shapes,
    explained_read,
    open_checkpoint,
)


def joint_index(index: int) -> int:
    """Return how an index is saved that is of all readers together; its own inverse.

    It is negative, which sets it apart from the index behind the last record of one reader.
    """
    return -1 - index


def moved_positions(
    prefix: str, names: Sequence[str], shape: Sequence[int]
) -> Dict[str, np.ndarray]:
    """Return the positions that the readers of a run start from if the checkpoint has others.

    Args:
        prefix: the checkpoint.
        names: names of the position variables of the run's readers, in their order.
        shape: of each position: [num_sources + 1, 3], see `data/reader_state.py`.

    Returns:
        Positions, int64, by name. Empty if the readers of the checkpoint have the same names, or
        other sources.

    Raises:
        errors.CheckpointError: the checkpoint is corrupt.
    """
    shapes = checkpoint_shapes(prefix)
    saved = [name for name in shapes if name.startswith(f'{READER_SCOPE}/')]
    # Equal names are restored as any variable. Another shape means other sources, whose indices say
    # nothing about these.
    if set(saved) == set(names) or any(list(shapes[name]) != list(shape) for name in saved):
        return {}
    reader = open_checkpoint(prefix)
    with explained_read(prefix):
        positions = [reader.get_tensor(name) for name in saved]
    if not positions:
        return {}
    return {name: _join_positions(positions, own, len(names)) for own, name in enumerate(names)}


def _join_positions(positions: Sequence[np.ndarray], own: int, count: int) -> np.ndarray:
    """Return the position of all readers together, with one reader's share of the totals."""
    joint = positions[0].copy()
    for source in range(len(joint) - 1):
        places = []
        for position in positions:
            epoch, index, fingerprint = (int(value) for value in position[source])
            places.append((epoch, joint_index(index) if index < 0 else index, fingerprint))
        # Tuples compare by the epoch first: the start of epoch 2 is further than the end of epoch
        # 1.
        epoch, index, fingerprint = max(places)
        joint[source] = epoch, joint_index(index), fingerprint
    totals = np.sum([position[-1] for position in positions], axis=0)
    # The first readers take the rest, so that the sum over all stays exact.
    joint[-1] = totals // count + (own < totals % count)
    return joint
