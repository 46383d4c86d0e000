"""Python of another TensorFlow than that of the tests.

It is the one that `OTHER_PYTHON` names, or that of another environment that `make` has created
here.
"""

from __future__ import annotations

import os
import pathlib
import re
from typing import Optional

import tensorflow as tf

MISSING = (
    f'only TensorFlow {tf.version.VERSION} is here; set OTHER_PYTHON to the Python of another, or '
    'create a second environment: make demo VENV=.venv-other PYTHON=...'
)
_ROOT = pathlib.Path(__file__).resolve().parent.parent


def find_other_python() -> Optional[str]:
    """Return the Python of another TensorFlow, or None."""
    named = os.environ.get('OTHER_PYTHON')
    if named:
        return named
    for mark in sorted(_ROOT.glob('.venv*/.installed')):
        for path in mark.parent.glob('lib/python3.*/site-packages/tensorflow*.dist-info'):
            name, version = re.match(r'(.*?)-(\d+\.\d+)', path.name).groups()
            is_other = not tf.version.VERSION.startswith(f'{version}.')
            if name in ('tensorflow', 'tensorflow_cpu') and is_other:
                return str(mark.parent / 'bin' / 'python')
    return None
