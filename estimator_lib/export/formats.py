"""The table of the formats of files for devices."""

from __future__ import annotations

from typing import Mapping

from estimator_lib import errors
from estimator_lib.export.tflite import TfliteWriter
from estimator_lib.export.writers import Writer

WRITERS: Mapping[str, Writer] = {one.name: one for one in (TfliteWriter(),)}


def writer(name: str) -> Writer:
    """The writer of a format.

    Raises:
        errors.UserError: there is none.
    """
    if name not in WRITERS:
        raise errors.UserError(f'--format={name}: unknown{errors.did_you_mean(name, WRITERS)}')
    return WRITERS[name]


def writer_of_file(path: str) -> Writer:
    """The writer of the format that a file has, by the end of its name.

    Raises:
        errors.UserError: no format has such files.
    """
    endings = {one.file_name.rpartition('.')[2]: one for one in WRITERS.values()}
    ending = path.rpartition('.')[2]
    if ending not in endings:
        listed = ', '.join(f'.{known}' for known in sorted(endings))
        raise errors.UserError(
            f'{path}: a file of no known format; expected one that ends with {listed}.'
        )
    return endings[ending]
