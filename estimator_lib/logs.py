"""What a run says, and how: our lines to standard error, TensorFlow's only when they warn."""

from __future__ import annotations

import logging
import sys
import warnings


def configure(level: int = logging.INFO) -> None:
    """Sends the log of `estimator_lib` and `model_fns` to standard error, one plain line each.

    For programs, not libraries: the front door and the converter call it.

    Args:
        level: of our lines; at DEBUG TensorFlow's are shown too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    for name in ('estimator_lib', 'model_fns'):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.handlers = [handler]
    quiet = level > logging.DEBUG
    logging.getLogger('tensorflow').setLevel(logging.ERROR if quiet else level)
    warnings.filterwarnings('ignore', category=FutureWarning, module='tensorflow')
    warnings.filterwarnings('ignore', category=DeprecationWarning)
