"""Whether this Python and this TensorFlow can run the project; looked at before anything else."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Optional

PYTHONS = ((3, 9), (3, 11))
TENSORFLOW = '2.15'
# What the front door does (`--mode`); the first is what it does unless told.
MODES = ('train_and_evaluate', 'train', 'evaluate', 'export', 'predict', 'check')
# Names under which TensorFlow is distributed.
DISTRIBUTIONS = ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel', 'tensorflow-macos')


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
    """The version that is installed; None when none is."""
    for name in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
