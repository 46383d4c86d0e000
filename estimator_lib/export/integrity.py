"""Checks of files for devices: the interpreter may end the process that loads a corrupt one."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import Any, Dict

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.export import artifacts

_BYTES, _DIGEST = 'bytes', 'sha256'
_MOST_SECONDS = 120
_REFUSED_STATUS = 3
# Ends with this status, and the reason on standard output, where the file cannot be loaded or run.
_PROGRAM = f"""
import sys
import numpy as np
from estimator_lib import errors
from estimator_lib.export import formats, static_graph
try:
    model = formats.writer_of_file(sys.argv[1]).load(sys.argv[1])
    model.run(np.zeros(model.about['inputs'][static_graph.INPUT]['shape'], np.float32))
except errors.UserError as error:
    print(error)
    sys.exit({_REFUSED_STATUS})
"""


def describe(path: str) -> Dict[str, Any]:
    """Returns the size and the SHA-256 of a file, for `export.json`."""
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    return {_BYTES: len(content), _DIGEST: hashlib.sha256(content).hexdigest()}


def check(path: str, ends_process: bool) -> None:
    """Checks a file before it is loaded.

    One with an `export.json` beside it must be what was exported. Any other one is tried in a
    process of its own, where a corrupt one would end this process.

    Args:
        path: of the file.
        ends_process: whether the interpreter ends its process where a file is corrupt.

    Raises:
        errors.UserError: it is not what was exported, or the other process cannot run it.
    """
    exported = checkpoint_files.read_state(
        os.path.join(os.path.dirname(path), artifacts.EXPORT_FILE)
    )
    known = {key: exported[key] for key in (_BYTES, _DIGEST) if key in exported}
    if known:
        actual = describe(path)
        for key, value in known.items():
            if actual[key] != value:
                raise errors.UserError(
                    f'{path} is not what was exported: {key} is {actual[key]}, and '
                    f'{artifacts.EXPORT_FILE} beside it says {value!r:.80}. It is truncated or '
                    'corrupt; export it again.'
                )
    if ends_process and _DIGEST not in known:
        _try_apart(path)


def _try_apart(path: str) -> None:
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}
    command = [sys.executable, '-c', _PROGRAM, path]
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, timeout=_MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise errors.UserError(
            f'{path} cannot be run: one image takes more than {_MOST_SECONDS} s.'
        ) from None
    # This process does not try what that one has refused: a corrupt file that raises an error in
    # one process may end another one.
    if ended.returncode == _REFUSED_STATUS:
        raise errors.UserError(ended.stdout.decode(errors='replace').strip())
    if ended.returncode < 0:
        name = signal.Signals(-ended.returncode).name
        raise errors.UserError(f'{path} is corrupt: it ends the process that runs it ({name}).')
    if ended.returncode:
        lines = ended.stderr.decode(errors='replace').strip().splitlines() or ['no reason is given']
        raise errors.UserError(f'{path} cannot be run: {lines[-1]}.')
