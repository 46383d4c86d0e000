"""Processes of this project's own modules, beside the process that starts them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import List

# Replaces the path that `python -c` has set, whose first entry is the working folder.
_START = (
    'import sys; sys.path[:] = sys.argv[1].split({separator!r}); name = sys.argv[2]; '
    'del sys.argv[1:3]; import runpy; runpy.run_module(name, run_name="__main__", alter_sys=True)'
)
_PR_SET_PDEATHSIG = 1


def command(module: str, *arguments: str) -> List[str]:
    """Return the command that runs a module, which is found where this process finds it.

    `python -m` would also look into the working folder: a `numpy.py` that lies there, beside the
    files of a stranger, would run. An empty entry of the path means that folder, and is left out.

    Args:
        module: the module, which is run as `__main__`.
        arguments: of the module.
    """
    folders = os.pathsep.join(path for path in sys.path if path)
    start = _START.format(separator=os.pathsep)
    return [sys.executable, '-c', start, folders, module, *arguments]


def end_with_parent() -> None:
    """Ask the kernel to end this process when its parent is killed; Linux only.

    For `preexec_fn` of `subprocess.Popen`.
    """
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
