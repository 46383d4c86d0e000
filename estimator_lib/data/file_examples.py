"""Examples that are made of the files of a data set, without a conversion to TFRecords.

The engine knows no format: another package registers, for each field of `InputReader.input_reader`,
a function that opens the data set.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Callable, Optional, Sequence, Tuple

from estimator_lib import errors
from estimator_lib.registry import Registry

if TYPE_CHECKING:
    from protos import input_reader_pb2


class UnusableFileError(errors.DataError):
    """Error of an image or of its annotation.

    Args:
        place: the file, and the object in it.
        problem: a description of the problem, without a full stop.
    """

    def __init__(self, place: str, problem: str):
        super().__init__(f'{place}: {problem}.')
        self.place = place
        self.problem = problem


class FileExamples(abc.ABC):
    """Sequence of examples; safe to use from several threads.

    Attributes:
        path: the data set in messages; another one for other files or another part of them.
    """

    path: str

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @abc.abstractmethod
    def read(self, index: int) -> bytes:
        """Return a serialized `tf.train.Example`.

        Args:
            index: from 0.

        Raises:
            UnusableFileError: the files of the example are not usable.
        """

    def left_out(self, index: int) -> Optional[UnusableFileError]:
        """Return the first problem of objects that `read` left out of an example; None without.

        Args:
            index: of an example that was read.
        """
        del index
        return None

    @abc.abstractmethod
    def place(self, index: int) -> str:
        """Return the path of the file that an example is of, for messages."""

    @abc.abstractmethod
    def contents(self) -> Sequence[Tuple[str, int]]:
        """Return names and sizes of the files in bytes, which identify the data set."""


# By the field of `InputReader.input_reader`: a function of the reader and of the index of a path in
# it. It raises `errors.UserError` where there is no data set.
OPENERS: Registry[Callable[[input_reader_pb2.InputReader, int], FileExamples]] = Registry(
    'reader of files'
)
