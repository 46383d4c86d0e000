"""The table of the formats of files for devices."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from estimator_lib import errors
from estimator_lib.export.onnx_files import OnnxWriter
from estimator_lib.export.tflite import TfliteWriter
from estimator_lib.export.writers import Writer

WRITERS: Mapping[str, Writer] = {one.name: one for one in (TfliteWriter(), OnnxWriter())}


def writer(name: str) -> Writer:
    """The writer of a format.

    Raises:
        errors.UserError: there is none.
    """
    if name not in WRITERS:
        raise errors.UserError(f'--format={name}: unknown{errors.did_you_mean(name, WRITERS)}')
    return WRITERS[name]


def endings() -> Sequence[str]:
    """How the names of files of the formats end: `.tflite`, `.onnx`."""
    return [os.path.splitext(one.file_name)[1] for one in WRITERS.values()]


def writer_of_file(path: str) -> Writer:
    """The writer of the format that a file has, by the end of its name.

    Raises:
        errors.UserError: no format has such files.
    """
    by_ending = dict(zip(endings(), WRITERS.values()))
    ending = os.path.splitext(path)[1]
    if ending not in by_ending:
        listed = ' or '.join(by_ending)
        raise errors.UserError(
            f'{path}: a file of no known format; expected one that ends with {listed}.'
        )
    return by_ending[ending]
