"""Table of the export formats."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, List, Mapping, Type

from estimator_lib import errors
from estimator_lib.export.devices.device_files import DeviceWriter
from estimator_lib.export.devices.onnx_files import OnnxWriter
from estimator_lib.export.devices.tflite import TfliteWriter
from estimator_lib.export.frozen_graph import FrozenGraphWriter
from estimator_lib.export.saved_model import SavedModelWriter
from estimator_lib.export.writers import Writer
from estimator_lib.task_interfaces.deployable import NO_CHANGES, DeploymentOptions

WRITERS: Mapping[str, Type[Writer[Any]]] = {
    writer.name: writer
    for writer in (SavedModelWriter, FrozenGraphWriter, TfliteWriter, OnnxWriter)
}
_DEPLOYMENT = 'deployment'


def create_writer(
    name: str,
    options: Mapping[str, Any] = {},
    deployment: DeploymentOptions = NO_CHANGES,
) -> Writer[Any]:
    """Return the writer of a format.

    Args:
        name: of the format.
        options: those of any format that were given, by the names of their flags.
        deployment: options that tasks know.

    Raises:
        errors.UserError: there is no such format, or it does not have an option.
    """
    if name not in WRITERS:
        raise errors.UserError(f'--format={name}: unknown{errors.did_you_mean(name, WRITERS)}')
    for option in options:
        _require_option(name, option, option)
    for option in deployment.changed():
        _require_option(name, _DEPLOYMENT, option)
    if deployment.changed():
        options = {**options, _DEPLOYMENT: deployment}
    return WRITERS[name](**options)


def option_names() -> List[str]:
    """Return the names of the options of all formats, without those that only a task knows."""
    names = {field: None for name in WRITERS for field in _fields(name) if field != _DEPLOYMENT}
    return list(names)


def _require_option(name: str, field: str, flag: str) -> None:
    """Refuse a flag whose field the writer of a format does not have."""
    if field not in _fields(name):
        having = [f'--format={each}' for each in WRITERS if field in _fields(each)]
        raise errors.UserError(f'--{flag} is of {" or ".join(having)}; leave it out.')


def _fields(name: str) -> List[str]:
    return [field.name for field in dataclasses.fields(WRITERS[name])]


def endings() -> List[str]:
    """Return the endings of the names of files for devices: `.tflite`, `.onnx`."""
    return list(_device_writers())


def writer_of_file(path: str) -> DeviceWriter:
    """Return the writer of the format of a file for devices, by the ending of its name.

    Raises:
        errors.UserError: no format has such files.
    """
    by_ending = _device_writers()
    ending = os.path.splitext(path)[1]
    if ending not in by_ending:
        listed = ' or '.join(by_ending)
        raise errors.UserError(
            f'{path}: a file of no known format; expected one that ends with {listed}.'
        )
    return by_ending[ending]()


def _device_writers() -> Mapping[str, Type[DeviceWriter]]:
    """Return the formats of files for devices, by the endings of file names."""
    return {
        os.path.splitext(writer.file_name)[1]: writer
        for writer in WRITERS.values()
        if issubclass(writer, DeviceWriter)
    }
