"""Interpreter of TFLite: that of LiteRT, or TensorFlow's own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import struct
from typing import Any, Iterator, NamedTuple, Tuple

import tensorflow as tf

from estimator_lib import errors, logs

_LITERT = 'ai-edge-litert'
EDGE_TPU = 'edgetpu-custom-op'  # that the compiler of the Edge TPU makes of a network


class LoadedFile(NamedTuple):
    """File in the interpreter of TFLite.

    Attributes:
        interpreter: with memory for all tensors.
        version: name and version of the interpreter's package.
    """

    interpreter: Any
    version: str


def load(path: str, **options: Any) -> LoadedFile:
    """Load a file in the interpreter of TFLite.

    Args:
        path: of the file.
        **options: of the interpreter.

    Raises:
        errors.UserError: it cannot be read, or not run.
    """
    interpreter, version = _find_interpreter()
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = file.read()
        with quiet():
            loaded = interpreter(model_content=content, **options)
            loaded.allocate_tensors()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise errors.UserError(f'{path} cannot be run by TFLite: {_reason(error)}') from error
    return LoadedFile(loaded, version)


def _reason(error: Exception) -> str:
    """Return why the interpreter refuses a file, as one sentence.

    It joins the messages of all tensors without a space, and names the op that it lacks.
    """
    reason = errors.first_line(error)
    custom = re.search(r'unresolved custom op: ([\w-]+)', reason)
    if custom is None:
        return re.sub(r'(?<=\w\.)(?=[A-Z]).*', '', reason)
    if custom.group(1) == EDGE_TPU:
        return 'it is compiled for the Edge TPU; expected the file from before the compiler.'
    return f'it has the custom op {custom.group(1)}, which this interpreter does not know.'


def has_input(path: str, name: str) -> bool:
    """Return whether a file has a signature whose only input has a name.

    A signature is what tells the files of exports from those of other programs. The file is read
    without the interpreter, which a corrupt one may end.
    """
    from tensorflow.lite.python import schema_py_generated as schema

    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    try:
        model = schema.Model.GetRootAs(content)
        signatures = [model.SignatureDefs(index) for index in range(model.SignatureDefsLength())]
        return any(
            one.InputsLength() == 1 and one.Inputs(0).Name() == name.encode() for one in signatures
        )
    except (struct.error, TypeError, ValueError, AttributeError):  # it is truncated or corrupt
        return True  # the interpreter says what is wrong


def _find_interpreter() -> Tuple[Any, str]:
    """Return the class of the interpreter, and the name and version of its package.

    It is that of LiteRT where the package is installed: TensorFlow's own will not be developed
    any more.
    """
    if importlib.util.find_spec('ai_edge_litert') is None:
        return tf.lite.Interpreter, f'TensorFlow {tf.__version__}'
    with quiet():
        from ai_edge_litert import interpreter
    version = importlib.metadata.version(_LITERT)
    return interpreter.Interpreter, f'{_LITERT} {version}'


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress log messages of TFLite; some bypass the log, so redirect standard error too."""
    standard_error = os.dup(2)
    try:
        with open(os.devnull, 'w') as nowhere, logs.silenced(('tensorflow', 'absl'), logging.ERROR):
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
