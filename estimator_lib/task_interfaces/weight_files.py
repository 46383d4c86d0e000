"""Files of weights that other programs wrote, read as checkpoints.

Whoever knows such files adds a function to `FINDERS` or `READERS`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Protocol, TypeVar

from estimator_lib import errors

if TYPE_CHECKING:
    import numpy as np

Found = TypeVar('Found')


class WeightReader(Protocol):
    """Reader of a file, with the methods of a `tf.train.CheckpointReader` that restores use."""

    def get_variable_to_shape_map(self) -> Dict[str, List[int]]:
        """Return the shapes of all variables by the names that the model gives them."""

    def get_variable_to_dtype_map(self) -> Dict[str, Any]:
        """Return the types (`tf.DType`) of all variables by name."""

    def has_tensor(self, name: str) -> bool:
        """Return whether the file has a variable."""

    def get_tensor(self, name: str) -> np.ndarray:
        """Return the value of a variable: an array of the variable's shape."""

    def description(self) -> str:
        """Return a line for the restore report: what the weights are, and their license."""


# By the start of a name: (name, the config field or flag) -> the path of a file on this machine.
FINDERS: Dict[str, Callable[[str, str], str]] = {}
# By the ending of a path: path -> its reader.
READERS: Dict[str, Callable[[str], WeightReader]] = {}


def find(path: str, where: str) -> Optional[str]:
    """Return the path of a file of weights on this machine; None if it is a checkpoint.

    Args:
        path: a path, or a name that begins as one of `FINDERS`.
        where: the config field or flag, for messages.

    Raises:
        errors.CheckpointError: the file does not exist, or cannot be downloaded.
    """
    finder = _first(FINDERS, path.startswith)
    if finder is not None:
        return finder(path, where)
    if not is_weight_file(path):
        return None
    if not os.path.isfile(path):
        raise errors.CheckpointError(f'{where}: there is no file {path}{errors.relative_to(path)}.')
    return path


def is_weight_file(path: str) -> bool:
    """Return whether a path, or a name, is of a file of weights and not of a checkpoint."""
    return (
        _first(READERS, path.endswith) is not None or _first(FINDERS, path.startswith) is not None
    )


def open_weights(path: str) -> Optional[WeightReader]:
    """Open a file that `find` returned; return None for a checkpoint.

    Raises:
        errors.CheckpointError: the file cannot be read, or is of an unknown network.
    """
    opener = _first(READERS, path.endswith)
    return None if opener is None else opener(path)


def _first(table: Mapping[str, Found], fits: Callable[[str], bool]) -> Optional[Found]:
    return next((value for mark, value in table.items() if fits(mark)), None)
