"""Numbers of each example of an evaluation, `examples.npz`: other samples are drawn from them."""

from __future__ import annotations

import io
import zipfile
from typing import NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces.tensors import Arrays

FILE = 'examples.npz'
_NAMES = 'example_names'


class Examples(NamedTuple):
    """Content of the file.

    Attributes:
        names: the `SOURCE_ID` of each example, bytes [n].
        arrays: see `Analyzer.examples`.
    """

    names: np.ndarray
    arrays: Arrays


def to_bytes(names: Sequence[bytes], arrays: Arrays) -> bytes:
    """Return the content of the file, compressed."""
    content = io.BytesIO()
    np.savez_compressed(content, **{_NAMES: np.array(names, np.bytes_), **arrays})
    return content.getvalue()


def read(path: str) -> Optional[Examples]:
    """Read the file; None if there is none.

    Raises:
        errors.DataError: it cannot be read.
    """
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = io.BytesIO(file.read())
        # A pickle runs code when it is read, and folders of runs are compared that others have
        # made.
        with np.load(content, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        return Examples(values.pop(_NAMES), values)
    except tf.errors.NotFoundError:
        return None
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, tf.errors.OpError) as error:
        reason = errors.first_line(error)
        raise errors.DataError(
            f'{path} cannot be read ({reason}); --mode=evaluate --analyze writes it again.'
        ) from None
