"""Whether this Python and this TensorFlow can run the project; looked at before anything else."""

from __future__ import annotations

import sys

PYTHONS = ((3, 9), (3, 11))
TENSORFLOW = '2.15'


def check() -> None:
    """Raises ImportError with one plain sentence where the versions do not fit."""
    least, most = PYTHONS
    if not least <= sys.version_info[:2] <= most:
        raise ImportError(
            f'This project needs Python {least[0]}.{least[1]} to {most[0]}.{most[1]}, and this is '
            f'Python {sys.version_info[0]}.{sys.version_info[1]}: TensorFlow {TENSORFLOW}, the last '
            'one with tf.estimator, has no builds for it.'
        )
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            f'This project needs TensorFlow {TENSORFLOW}, which does not import here ({error}): '
            f'pip install "tensorflow=={TENSORFLOW}.*".'
        ) from error
    if not tf.__version__.startswith(TENSORFLOW + '.'):
        raise ImportError(
            f'This project needs TensorFlow {TENSORFLOW}, the last one with tf.estimator, and this '
            f'is TensorFlow {tf.__version__}: pip install "tensorflow=={TENSORFLOW}.*".'
        )
