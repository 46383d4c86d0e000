"""HParams events: the changed fields of a config, for the comparison of runs in TensorBoard.

The plugin takes a folder of events with such events for a run, and takes the metrics from its
scalars and those of its sub-folders: `eval_0`.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, Tuple, Union

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib.config import schema
from estimator_lib.hooks import summaries

tf1 = tf.compat.v1

Value = Union[bool, float, str]

_START_TAG, _END_TAG = '_hparams_/session_start_info', '_hparams_/session_end_info'
_PLUGIN = 'hparams'
_Field = descriptor_lib.FieldDescriptor


def write_start(model_dir: str, config: message_lib.Message) -> None:
    """Write the changed fields of a run's config; without TensorBoard nothing is written.

    Args:
        model_dir: the folder of the run's events.
        config: the config of the run.
    """
    try:
        from tensorboard.plugins.hparams import plugin_data_pb2
    except ImportError:  # TensorFlow 2.21 does not install TensorBoard
        return
    data = plugin_data_pb2.HParamsPluginData(version=0)
    start = data.session_start_info
    start.start_time_secs = time.time()
    for path, value in changed_fields(config).items():
        # First, since a bool is an int to Python and would be stored as a number.
        if isinstance(value, bool):
            start.hparams[path].bool_value = value
        elif isinstance(value, str):
            start.hparams[path].string_value = value
        else:
            start.hparams[path].number_value = value
    _write(model_dir, _START_TAG, data)


def write_end(model_dir: str, succeeded: bool) -> None:
    """Write the end of a run, which the plugin shows as its status."""
    try:
        from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    except ImportError:
        return
    data = plugin_data_pb2.HParamsPluginData(version=0)
    status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
    data.session_end_info.status = status
    data.session_end_info.end_time_secs = time.time()
    _write(model_dir, _END_TAG, data)


def changed_fields(config: message_lib.Message) -> Dict[str, Value]:
    """Return the fields with other values than their defaults, by the paths that `--set` takes.

    A list of values is one string. A message without fields of its own, as an augmentation without
    options, is True.
    """
    return dict(_fields(config, ''))


def _fields(message: message_lib.Message, path: str) -> Iterator[Tuple[str, Value]]:
    for field, value in message.ListFields():
        name = f'{path}{field.name}'
        if schema.is_map(field):
            of_values = field.message_type.fields_by_name['value']
            for key in sorted(value):
                if schema.is_message(of_values):
                    yield from _fields(value[key], f'{name}.{key}.')
                else:
                    yield f'{name}.{key}', _shown(of_values, value[key])
        elif schema.is_message(field):
            parts = {name: value}
            if schema.is_repeated(field):
                parts = {f'{name}.{index}': each for index, each in enumerate(value)}
            for part, each in parts.items():
                yield from _fields(each, f'{part}.')
                if not each.ListFields():
                    yield part, True
        elif schema.is_repeated(field):
            yield name, ', '.join(str(_shown(field, each)) for each in value)
        elif value != field.default_value:
            yield name, _shown(field, value)


def _shown(field: _Field, value: Any) -> Value:
    if field.type == _Field.TYPE_FLOAT:
        return float(str(np.float32(value)))  # 0.1, not 0.10000000149
    if isinstance(value, (bool, int, float)) and field.enum_type is None:
        return value
    return schema.value_text(field, value)


def _write(model_dir: str, tag: str, data: message_lib.Message) -> None:
    metadata = tf1.SummaryMetadata()
    metadata.plugin_data.plugin_name = _PLUGIN
    metadata.plugin_data.content = data.SerializeToString()
    summary = tf1.Summary()
    # The plugin reads the metadata; the value is the empty one that it expects.
    summary.value.add(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto([], tf.float32))
    writer = summaries.get_writer(model_dir)
    writer.add_summary(summary, 0)
    writer.flush()
