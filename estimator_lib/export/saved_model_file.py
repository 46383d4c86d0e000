"""Writing `saved_model.pb` of a graph of constants, one node at a time.

`tf.compat.v1.saved_model.Builder` holds the weights five times while it writes: as the constants of
a session's graph, of that graph as a message, of the message that it is copied to, and as bytes,
whose buffer is doubled as it grows. Here there is one node beside them.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from estimator_lib import errors
from estimator_lib.export import freezing

tf1 = tf.compat.v1

# What a protocol buffer may take: lengths are signed numbers of 32 bits.
MAX_BYTES = (1 << 31) - 1

_LENGTH_DELIMITED = 2  # the wire type of messages within messages


def write(path: str, frozen: freezing.Frozen, signatures: Mapping[str, Any]) -> None:
    """Writes the file.

    Args:
        path: of the file.
        frozen: the graph.
        signatures: `SignatureDef`s by name.

    Raises:
        errors.UserError: the model is too large for one file.
    """
    with tf.Graph().as_default():
        # What TensorFlow says of a graph: its own version, and the ops that the graph needs.
        meta_graph = tf1.train.export_meta_graph(graph_def=frozen.graph_def)
    meta_graph.ClearField('graph_def')
    meta_graph.meta_info_def.tags.append(tf1.saved_model.tag_constants.SERVING)
    for name, signature in signatures.items():
        meta_graph.signature_def[name].CopyFrom(signature)
    saved_model = saved_model_pb2.SavedModel(
        saved_model_schema_version=tf1.saved_model.constants.SAVED_MODEL_SCHEMA_VERSION
    )
    graph_length = sum(map(len, _graph_parts(frozen)))
    # Fields are written by their numbers: `meta_info_def`, the graph, the others.
    about = tf1.MetaGraphDef(meta_info_def=meta_graph.meta_info_def)
    meta_graph.ClearField('meta_info_def')
    before = about.SerializeToString(deterministic=True)
    before += _key(meta_graph, 'graph_def', graph_length)
    after = meta_graph.SerializeToString(deterministic=True)
    length = len(before) + graph_length + len(after)
    if length > MAX_BYTES:
        raise errors.UserError(
            f'{path}: the model takes {length} bytes; a SavedModel with its weights in its graph '
            f'takes at most {MAX_BYTES}. Expected a smaller network.'
        )
    with tf.io.gfile.GFile(path, 'wb') as file:
        file.write(saved_model.SerializeToString())
        file.write(_key(saved_model, 'meta_graphs', length))
        file.write(before)
        for part in _graph_parts(frozen):
            file.write(part)
        file.write(after)


def _graph_parts(frozen: freezing.Frozen) -> Iterator[bytes]:
    """A `GraphDef` in pieces, which make it one after the other."""
    graph_def = frozen.graph_def
    for node in frozen.nodes():
        yield tf1.GraphDef(node=[node]).SerializeToString(deterministic=True)
    rest = tf1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    yield rest.SerializeToString(deterministic=True)


def _key(message: Any, field: str, length: int) -> bytes:
    """What stands before a message of some length that is a field of another."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(length)


def _varint(number: int) -> bytes:
    """A number as protocol buffers have it: 7 bits a byte, the least first, more while bit 8 is."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
