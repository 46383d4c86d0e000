"""Folders `<timestamp>/` of exports; those of a run are in `model_dir/export/{best,latest,final}`.

A folder gets its name when it is complete, so that a server never loads an incomplete model.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.processes import path_names
from protos import export_pb2

SAVED_MODEL_FILE = tf.saved_model.SAVED_MODEL_FILENAME_PB
VARIABLES = 'variables/variables'  # prefix of the checkpoint of a SavedModel
VARIABLES_FILE = f'{VARIABLES}.data-00000-of-00001'
# The exports of a run that follow its evaluations.
BEST, LATEST, FINAL = 'best', 'latest', 'final'
_POLICIES = (BEST, LATEST, FINAL)
_UNFINISHED = 'temp-'  # before the name of an export that is not complete
_MOST_DIGITS = 18  # of the names of exports: servers read them as int64


def run_folder(model_dir: str, name: str) -> str:
    """Return the folder of a run's exports of one kind: `BEST`, or the name of an exporter."""
    return os.path.join(model_dir, 'export', name)


def enabled_policies(config: export_pb2.ExportConfig) -> List[str]:
    """Return those of `BEST`, `LATEST` and `FINAL` that a config enables."""
    enabled = {
        BEST: config.HasField('best'),
        LATEST: config.HasField('latest'),
        FINAL: config.final.enabled,
    }
    return [name for name in _POLICIES if enabled[name]]


def write_whole(export_dir: str, write: Callable[[str], None]) -> str:
    """Write a folder under a temporary name, and rename it when it is complete.

    Args:
        export_dir: the parent of the new folder.
        write: writes the folder whose path it gets. If it fails, the folder is removed.

    Returns:
        The path of `export_dir/<timestamp>`.

    Raises:
        errors.UserError: the folder cannot be written.
    """
    path = _new_path(export_dir)
    # The name is not an integer, so a server does not take the folder for a version of a model.
    unfinished = os.path.join(export_dir, f'{_UNFINISHED}{os.path.basename(path)}')
    try:
        write(unfinished)
        tf.io.gfile.rename(unfinished, path)
    # Also Ctrl-C and the end of the process by a signal, which are no `Exception`.
    except BaseException as error:
        if tf.io.gfile.isdir(unfinished):
            tf.io.gfile.rmtree(unfinished)
        if isinstance(error, (tf.errors.OpError, OSError)):
            raise errors.UserError(f'the export to {export_dir} failed: {error}') from error
        raise
    return path


def copy_export(path: str, export_dir: str) -> str:
    """Copy a SavedModel to `export_dir/<timestamp>/` and return the path of the copy."""

    def copy(unfinished: str) -> None:
        for folder, _, files in tf.io.gfile.walk(path):
            target = os.path.normpath(os.path.join(unfinished, os.path.relpath(folder, path)))
            tf.io.gfile.makedirs(target)
            for file in files:
                tf.io.gfile.copy(os.path.join(folder, file), os.path.join(target, file))

    return write_whole(export_dir, copy)


def latest_export(folder: str) -> Optional[str]:
    """Return the newest SavedModel in a folder of exports, or in the folders in it.

    Returns:
        Its path; None where there is no SavedModel.
    """
    folders = [folder, *(os.path.join(folder, name) for name in path_names.list_names(folder))]
    return max(
        (path for each in folders for path in list_exports(each)), key=_timestamp, default=None
    )


def list_exports(folder: str) -> List[str]:
    """Return the SavedModels `folder/<timestamp>`, oldest first."""
    names = [name for name in path_names.list_names(folder) if _is_number(name)]
    paths = [os.path.join(folder, name) for name in names]
    models = [path for path in paths if tf.io.gfile.exists(os.path.join(path, SAVED_MODEL_FILE))]
    return sorted(models, key=_timestamp)


def keep_newest(folder: str, count: int) -> None:
    """Delete all SavedModels in a folder but the newest ones; none for a count of 0."""
    if count:
        for path in list_exports(folder)[:-count]:
            tf.io.gfile.rmtree(path)


def _new_path(export_dir: str) -> str:
    """Return the path of a new folder, named by the time in seconds.

    The number is larger than those of all earlier exports of the run, even if the clock was set
    back: the newest export is the one with the largest number. Numbers of incomplete exports are
    taken too: a killed process may have left files there, or another one writes there now.
    """
    parent, name = os.path.split(export_dir.rstrip('/'))
    siblings = _POLICIES if name in _POLICIES else ()
    folders = (export_dir, *(os.path.join(parent, each) for each in siblings))
    timestamps = [
        each.removeprefix(_UNFINISHED) for f in folders for each in path_names.list_names(f)
    ]
    taken = [int(each) for each in timestamps if _is_number(each) and len(each) <= _MOST_DIGITS]
    return os.path.join(export_dir, str(max(int(time.time()), *(each + 1 for each in taken), 0)))


def _is_number(name: str) -> bool:
    # `isdigit` alone holds for a superscript two, of which `int` makes no number.
    return name.isascii() and name.isdigit()


def _timestamp(path: str) -> int:
    return int(os.path.basename(path))
