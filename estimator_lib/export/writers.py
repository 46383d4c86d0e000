"""What a format of files for devices is to the engine: how one is written, and how it is run.

Another format is one more `Writer`, in a module of its own, and one more line in `formats`.
"""

from __future__ import annotations

import abc
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.export.deployable import Ops
from estimator_lib.export.static_graph import StaticGraph

NONE, DYNAMIC, FLOAT16, INT8 = 'none', 'dynamic', 'float16', 'int8'


class Request(NamedTuple):
    """How a file is asked for.

    Attributes:
        quantize: `NONE`, `DYNAMIC`, `FLOAT16` or `INT8`; None: `INT8` where the network was trained
            for it, else `NONE`.
        representative_examples: how many images the ranges of `INT8` are measured on.
    """

    quantize: Optional[str] = None
    representative_examples: int = 100


AS_TRAINED = Request()


class FileModel(abc.ABC):
    """A file of a format, loaded.

    Attributes:
        about: what `export.json` says of its inputs and outputs and of what it was made with.
    """

    about: Mapping[str, Any]

    @abc.abstractmethod
    def run(self, image: np.ndarray) -> Dict[str, np.ndarray]:
        """The outputs for an image, by the names of `Deployable.meanings`.

        Args:
            image: float32 [1, *input_shape] in [0, 255]; a file that takes uint8 gets it rounded.
        """


class Writer(abc.ABC):
    """How files of a format are written and read.

    Attributes:
        name: of the format, as `--format` has it.
        file_name: of the file in the export's folder.
        ops: what the format computes with.
        quantizes: the kinds of `Request.quantize` that there are.
        ends_process: whether loading a corrupt file may end the process by a signal.
    """

    name: str
    file_name: str
    ops: Ops
    quantizes: Tuple[str, ...] = (NONE,)
    ends_process: bool = False

    def check(self) -> None:
        """Looks for what is needed to write the format, before anything is built.

        Raises:
            errors.UserError: a package is missing; the message says what to install.
        """
        del self

    @abc.abstractmethod
    def write(
        self,
        graph: StaticGraph,
        path: str,
        quantize: str,
        representative: Sequence[np.ndarray] = (),
    ) -> None:
        """Writes the file.

        Args:
            graph: the network.
            path: of the file.
            quantize: one of `quantizes`.
            representative: for `INT8`, float32 [1, *input_shape] each.

        Raises:
            errors.UserError: the network has no place in the format.
        """

    @abc.abstractmethod
    def load(self, path: str) -> FileModel:
        """Loads a file.

        Raises:
            errors.UserError: it is not of the format, or cannot be run.
        """
