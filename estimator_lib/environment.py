"""The versions of Python and TensorFlow, and the memory of the machine.

The versions are checked before anything else of the project is imported.
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
# The modes of the front door (`--mode`), the default first.
MODES = ('train_and_evaluate', 'train', 'evaluate', 'export', 'predict', 'check')
# The usual names of TensorFlow's distribution, which are looked up first because that is fast.
DISTRIBUTIONS = ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel', 'tensorflow-macos')

# The memory limit of a container, in the two versions of control groups.
_MEMORY_LIMITS = (
    '/sys/fs/cgroup/memory.max',
    '/sys/fs/cgroup/memory/memory.limit_in_bytes',
)


def front_door_command() -> str:
    """Return the command that starts the front door: the script, if that is running."""
    script = sys.argv[0]
    return f'python {script}' if os.path.basename(script) == 'run_train_eval.py' else FRONT_DOOR


def versions() -> str:
    """Describe the versions of Python, TensorFlow and this package."""
    texts = [f'Python {platform.python_version()}', f'TensorFlow {tensorflow_version()}']
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        texts.append(f'{PACKAGE} {importlib.metadata.version(PACKAGE)}')
    return ', '.join(texts)


def memory_bytes() -> int:
    """Return the memory of this machine, or of the container that this runs in, in bytes."""
    sizes = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
    for path in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            sizes.append(int(file.read()))
    return min(sizes)


def check() -> None:
    """Raise ImportError with one plain sentence if the versions are not supported.

    TensorFlow's version is read without importing it, so that bad flags are reported at once. While
    `python -m` looks for a program of this package no code can catch the error. The sentence is
    then printed, and the exit status is 2.
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
        present = 'there is none here' if version is None else f'this is TensorFlow {version}'
        return (
            f'This project needs TensorFlow {TENSORFLOW}, the last one with tf.estimator, and '
            f'{present}: pip install "tensorflow=={TENSORFLOW}.*".'
        )
    return None


def tensorflow_version() -> Optional[str]:
    """Return the version that `import tensorflow` gives; None if there is no such module."""
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    if importlib.util.find_spec('tensorflow') is None:
        return None
    # The build of a vendor may have another name.
    for distribution in importlib.metadata.distributions():
        if 'tensorflow' in (distribution.read_text('top_level.txt') or '').split():
            return distribution.version
    # A build from source may be on the path without a distribution; only the module has its
    # version.
    return getattr(importlib.import_module('tensorflow'), '__version__', None)


@contextlib.contextmanager
def bypass_setuptools() -> Iterator[None]:
    """Make `import distutils` in the block give Python's own package, where it has one.

    TensorFlow's import needs one path of `distutils`. Setuptools replaces that package by its own
    copy, which imports all of setuptools and takes 0.2 s of the start.
    """
    hack = sys.modules.get('_distutils_hack')  # None if setuptools is not installed
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
