"""Whether this Python and this TensorFlow can run the project, and how much memory there is.

The former is looked at before anything else.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import platform
import sys
from typing import Iterator, Optional

PYTHONS = ((3, 9), (3, 11))
TENSORFLOW = '2.15'
# The names of this package and of its main command in `setup.py`.
PACKAGE = 'vision-model-fns'
FRONT_DOOR = 'run-train-eval'
# What the front door does (`--mode`); the first is what it does unless told.
MODES = ('train_and_evaluate', 'train', 'evaluate', 'export', 'predict', 'check')
# The usual names of TensorFlow's distribution: asked for first, since that is fast.
DISTRIBUTIONS = ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel', 'tensorflow-macos')

# What limits the memory of a container, in the two versions of control groups.
_MEMORY_LIMITS = (
    '/sys/fs/cgroup/memory.max',
    '/sys/fs/cgroup/memory/memory.limit_in_bytes',
)


def front_door_command() -> str:
    """Returns the command that starts the front door: the script, where that is what runs."""
    script = sys.argv[0]
    return f'python {script}' if os.path.basename(script) == 'run_train_eval.py' else FRONT_DOOR


def versions() -> str:
    """Returns the versions of Python, TensorFlow and this package, in words."""
    told = [f'Python {platform.python_version()}', f'TensorFlow {tensorflow_version()}']
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        told.append(f'{PACKAGE} {importlib.metadata.version(PACKAGE)}')
    return ', '.join(told)


def memory_bytes() -> int:
    """Bytes of memory that this machine, or the container that this runs in, has."""
    sizes = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
    for path in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            sizes.append(int(file.read()))
    return min(sizes)


def check() -> None:
    """Raises ImportError with one plain sentence where the versions do not fit.

    Reads TensorFlow's version without importing it, so that bad flags are answered at once. While
    `python -m` looks for a program of this package nobody can catch the error: the sentence is
    printed, and the status is 2.
    """
    problem = _problem()
    if problem and sys.argv[:1] == ['-m']:
        print(f'error: {problem}', file=sys.stderr)
        sys.exit(2)
    if problem:
        raise ImportError(problem)


def _problem() -> Optional[str]:
    least, most = PYTHONS
    if not least <= sys.version_info[:2] <= most:
        return (
            f'This project needs Python {least[0]}.{least[1]} to {most[0]}.{most[1]}, and this is '
            f'Python {sys.version_info[0]}.{sys.version_info[1]}: TensorFlow {TENSORFLOW}, the '
            'last one with tf.estimator, has no builds for it.'
        )
    version = tensorflow_version()
    if version is None or not version.startswith(TENSORFLOW + '.'):
        found = 'there is none here' if version is None else f'this is TensorFlow {version}'
        return (
            f'This project needs TensorFlow {TENSORFLOW}, the last one with tf.estimator, and '
            f'{found}: pip install "tensorflow=={TENSORFLOW}.*".'
        )
    return None


def tensorflow_version() -> Optional[str]:
    """Returns the version that `import tensorflow` gives; None when there is no such module."""
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    if importlib.util.find_spec('tensorflow') is None:
        return None
    # A build of a vendor has a name of its own.
    for distribution in importlib.metadata.distributions():
        if 'tensorflow' in (distribution.read_text('top_level.txt') or '').split():
            return distribution.version
    # A build from source may be on the path without a distribution: only the module knows.
    return getattr(importlib.import_module('tensorflow'), '__version__', None)


@contextlib.contextmanager
def without_setuptools() -> Iterator[None]:
    """Inside, `import distutils` gives Python's own package, where it has one.

    TensorFlow's import asks `distutils` for one path. Setuptools puts its own copy in that place,
    which brings the whole of setuptools along: 0.2 s of a start, for nothing.
    """
    hack = sys.modules.get('_distutils_hack')  # there is none where setuptools is not installed
    finder = getattr(hack, 'DISTUTILS_FINDER', None)
    if finder not in sys.meta_path or not importlib.machinery.PathFinder.find_spec('distutils'):
        yield
        return
    place = sys.meta_path.index(finder)
    sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.meta_path.insert(place, finder)
