"""Model repositories of Triton: `config.pbtxt` beside the versions of a model.

A repository is `<repository>/<model>/<version>/model.onnx`, and versions are integers. So the
folder of exports is the folder of a model, and only the config is missing. Its fields are those of
`ModelConfig` in Triton's `model_config.proto`.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any, List, Mapping, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, state_files
from estimator_lib.export import artifacts

log = logging.getLogger('estimator_lib')

NAME = 'triton'
CONFIG_FILE, OLD_FILE = 'config.pbtxt', 'config.pbtxt.old'

_FORMAT = 'onnx'  # Triton has no backend for TensorFlow any more
_PLATFORM = 'onnxruntime_onnx'
_MOST_IMAGES = 8  # of a batch, where the file takes batches
_TYPES: Mapping[str, str] = {
    'float32': 'TYPE_FP32',
    'float16': 'TYPE_FP16',
    'uint8': 'TYPE_UINT8',
    'int32': 'TYPE_INT32',
    'int64': 'TYPE_INT64',
    'bool': 'TYPE_BOOL',
}


def check(format_name: str) -> None:
    """Refuse a format that Triton does not run.

    Raises:
        errors.UserError: it is not ONNX.
    """
    if format_name != _FORMAT:
        raise errors.UserError(
            f'--repository={NAME} is of --format={_FORMAT}, got --format={format_name}: Triton has '
            'no backend for others.'
        )


def write_config(export: str) -> str:
    """Write the config of a model into the folder of its exports.

    What people have added to the end of the config stays. A config that begins with anything else
    is kept as `OLD_FILE`.

    Args:
        export: the path of an ONNX export, `<repository>/<model>/<version>`.

    Returns:
        The path of the config.
    """
    folder = os.path.dirname(os.path.abspath(export) if '://' not in export else export)
    about = state_files.read_state(os.path.join(export, artifacts.EXPORT_FILE))
    path = os.path.join(folder, CONFIG_FILE)
    text = describe(os.path.basename(folder), about['inputs'], about['outputs'])
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, 'rb') as file:  # its text may be of any encoding
            before = file.read()
        # People add instance groups and the like below; such a config stays.
        if before.startswith(text.encode()):
            return path
        old = os.path.join(folder, OLD_FILE)
        tf.io.gfile.copy(path, old, overwrite=True)
        log.warning('%s does not fit this export; it is %s now', path, old)
    checkpoint_files.write_atomically(path, text)
    return path


def describe(
    name: str,
    inputs: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the text of a config.

    Args:
        name: of the model: that of its folder.
        inputs: by name, with `dtype` and `shape`, see `export.json`. A side that is no number is
            not known: as the first one of all inputs and outputs it is that of a batch.
        outputs: likewise.
    """
    tensors = [*inputs.values(), *outputs.values()]
    batches = all(each['shape'] and not isinstance(each['shape'][0], int) for each in tensors)
    lines = [
        f'name: {_quoted(name)}',
        f'platform: "{_PLATFORM}"',
        f'max_batch_size: {_MOST_IMAGES if batches else 0}',
        *(line for each in inputs.items() for line in _tensor_lines('input', each, batches)),
        *(line for each in outputs.items() for line in _tensor_lines('output', each, batches)),
        *(['dynamic_batching { }'] if batches else []),
    ]
    return ''.join(f'{line}\n' for line in lines)


def _tensor_lines(kind: str, tensor: Tuple[str, Mapping[str, Any]], batches: bool) -> Sequence[str]:
    name, details = tensor
    shape: List[Any] = details['shape'][1:] if batches else details['shape']
    sides = ', '.join(str(side if isinstance(side, int) else -1) for side in shape)
    return (
        f'{kind} {{',
        f'  name: {_quoted(name)}',
        f'  data_type: {_TYPES[details["dtype"]]}',
        # A config has no tensor without dimensions: one of size 1 stands for none.
        *([f'  dims: [ {sides} ]'] if shape else ['  dims: [ 1 ]', '  reshape { shape: [ ] }']),
        '}',
    )


def _quoted(text: str) -> str:
    """Return a text of a protocol buffer's text format."""
    return json.dumps(text, ensure_ascii=False)
