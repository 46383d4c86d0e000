"""Readers of artifacts: a table of arrays by name, and the graph where there is one."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import message as message_lib
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, object_graphs, plain_paths
from estimator_lib.export import export_folders, freezing
from estimator_lib.export.metadata import tflite_metadata
from vision_extras.recover.artifacts import graph_checks, graphs, tflite_files, tflite_graphs

tf1 = tf.compat.v1

FROZEN_GRAPH = 'frozen graph'
SAVED_MODEL = 'SavedModel'
CHECKPOINT = 'checkpoint'
TFLITE_FILE = 'TFLite file'

_VARIABLES = ('Variable', 'VariableV2', 'VarHandleOp')
_CHECKPOINT_ENDINGS = re.compile(r'\.(index|meta|data-\d+-of-\d+)$')
# Ends of names of variables that only training needs.
_TRAINING = re.compile(
    r'/(Adam(_1)?|RMSProp(_1)?|Momentum|ExponentialMovingAverage|Adagrad|Adadelta(_1)?)$'
    r'|(^|/)(global_step|beta[12]_power|learning_rate)$'
)
_AVERAGE = '/ExponentialMovingAverage'
_OTHER_FILES = {
    '.onnx': 'an ONNX file',
    '.h5': 'a Keras file',
    '.keras': 'a Keras file',
    '.pt': 'a PyTorch file',
    '.pth': 'a PyTorch file',
    '.safetensors': 'a file of weights (convert-checkpoint --from takes it)',
}


@dataclasses.dataclass(frozen=True)
class Artifact:
    """Model file of any program.

    Attributes:
        path: the file, the folder or the prefix of the checkpoint.
        kind: `FROZEN_GRAPH`, `SAVED_MODEL`, `CHECKPOINT` or `TFLITE_FILE`, whose graph is one of
            `tflite_graphs`.
        arrays: constants or variables by name.
        graph: the graph; None for a checkpoint.
        outputs: names of the tensors of the graph's outputs, by key; empty where unknown.
        objects: of an object-based checkpoint, whose arrays have its keys; else None.
        averages: number of arrays that are moving averages of variables.
        labels: names of classes that a file has; empty: none.
    """

    path: str
    kind: str
    arrays: Mapping[str, np.ndarray]
    graph: Optional[graphs.Graph] = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    objects: Optional[object_graphs.ObjectGraph] = None
    averages: int = 0
    labels: Sequence[str] = ()


def read(path: str, scopes: Sequence[str] = ()) -> Artifact:
    """Read an artifact.

    Args:
        path: a frozen graph (`.pb`, or `.pbtxt` with values), a SavedModel's folder, a TFLite file,
            or a checkpoint's prefix or folder.
        scopes: known scopes of networks; text before them is taken off the names of nodes.

    Raises:
        errors.UserError: it is no such artifact, or cannot be read; one sentence.
    """
    path = path.rstrip('/') or path
    if os.path.basename(path) == export_folders.SAVED_MODEL_FILE:
        path = os.path.dirname(path) or '.'
    if tf.io.gfile.isdir(path):
        if tf.io.gfile.exists(os.path.join(path, export_folders.SAVED_MODEL_FILE)):
            return _read_saved_model(path, scopes)
        if checkpoint_files.latest_checkpoint(path) is None:
            raise errors.UserError(
                f'--from: {path} holds neither {export_folders.SAVED_MODEL_FILE} nor a checkpoint; '
                'expected the folder of a SavedModel or of a checkpoint, or a frozen graph.'
            )
        return _read_checkpoint(path)
    prefix = _CHECKPOINT_ENDINGS.sub('', path)
    if tf.io.gfile.exists(f'{prefix}.index'):
        return _read_checkpoint(prefix)
    if not tf.io.gfile.exists(path):
        return _read_checkpoint(path)  # whose error names what is near
    return _read_frozen(path, scopes)


def _read_frozen(path: str, scopes: Sequence[str]) -> Artifact:
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    _refuse_other_files(path, content)
    if content[4:8] == tflite_files.IDENTIFIER:
        return _read_tflite(path, content, scopes)
    graph_def = tf1.GraphDef()
    try:
        if path.endswith('.pbtxt'):
            text_format.Parse(content.decode(), graph_def)
        else:
            graph_def.ParseFromString(content)
    except (message_lib.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise errors.UserError(
            f'--from: {path} is no graph of TensorFlow ({errors.first_line(error)}); expected a '
            'frozen graph, a SavedModel or a checkpoint.'
        ) from error
    if not graph_def.node:
        raise errors.UserError(
            f'--from: {path} holds no nodes; expected a frozen graph, a SavedModel or a checkpoint.'
        )
    variables = [node.name for node in graph_def.node if node.op in _VARIABLES]
    if variables:
        raise errors.UserError(
            f'--from: {path} is not frozen: {errors.shortened(variables, 3)} have no values in it; '
            'expected a frozen graph, or the checkpoint beside it.'
        )
    return _graph_artifact(path, FROZEN_GRAPH, graph_def, scopes)


def _refuse_other_files(path: str, content: bytes) -> None:
    ending = os.path.splitext(path)[1].lower()
    kind = _OTHER_FILES.get(ending)
    if ending == '.tflite' and content[4:8] != tflite_files.IDENTIFIER:
        kind = 'no TFLite file, in spite of its name'
    if content.startswith(b'version https://git-lfs'):
        kind = 'a pointer of Git LFS, not the file itself'
    if not content:
        kind = 'empty'
    if kind:
        raise errors.UserError(
            f'--from: {path} is {kind}; expected a frozen graph, a SavedModel, a TFLite file or a '
            'checkpoint.'
        )


def _read_tflite(path: str, content: bytes, scopes: Sequence[str]) -> Artifact:
    try:
        translated = tflite_graphs.translate(tflite_files.read(path))
    except errors.UserError as error:
        raise errors.UserError(f'--from: {error}') from error
    artifact = _graph_artifact(path, TFLITE_FILE, translated.graph_def, scopes, translated.outputs)
    lines = map(str.strip, tflite_metadata.read_labels(content))
    return dataclasses.replace(artifact, labels=list(filter(None, lines)))


def _read_saved_model(path: str, scopes: Sequence[str]) -> Artifact:
    try:
        graph_def, outputs = _load_saved_model(path)
    except errors.UserError:
        raise
    except Exception as error:  # of many kinds, one for each way in which a graph can be wrong
        raise errors.UserError(
            f'--from: {path} cannot be loaded as a SavedModel: {errors.first_line(error)}'
        ) from error
    return _graph_artifact(path, SAVED_MODEL, graph_def, scopes, outputs)


def _load_saved_model(path: str) -> tuple[tf1.GraphDef, Dict[str, str]]:
    plain = plain_paths.plain_path(path)
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        loaded = tf1.saved_model.load(session, ['serve'], plain)
        signatures = {
            key: value
            for key, value in loaded.signature_def.items()
            if value.outputs and not key.startswith('__')
        }
        if not signatures:
            raise errors.UserError(f'--from: the SavedModel {path} has no signature with outputs.')
        signature = signatures.get('serving_default') or next(iter(signatures.values()))
        outputs = {key: info.name for key, info in signature.outputs.items()}
        if all(op.type != 'StatefulPartitionedCall' for op in graph.get_operations()):
            tensors = [graph.get_tensor_by_name(name) for name in outputs.values()]
            return freezing.freeze(session, tensors).to_graph_def(), outputs
    return _load_function(plain)


def _load_function(path: str) -> tuple[tf1.GraphDef, Dict[str, str]]:
    """Load a SavedModel of TensorFlow 2, whose signature is a function."""
    from tensorflow.python.framework import convert_to_constants  # has no public name

    with tf.init_scope():
        loaded = tf.saved_model.load(path)
        signature = loaded.signatures['serving_default']
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            signature, lower_control_flow=False
        )
        keys = sorted(signature.structured_outputs)
        outputs = {key: tensor.name for key, tensor in zip(keys, frozen.outputs)}
        return frozen.graph.as_graph_def(), outputs


def _graph_artifact(
    path: str,
    kind: str,
    graph_def: tf1.GraphDef,
    scopes: Sequence[str],
    outputs: Optional[Mapping[str, str]] = None,
) -> Artifact:
    if kind != TFLITE_FILE:  # whose operations are checked as they are translated
        try:
            graph_checks.check(graph_def)
        except errors.UserError as error:
            raise errors.UserError(f'--from: {path} is damaged: {error}.') from None
    for node in graph_def.node:
        node.device = ''
    graphs.sort_nodes(graph_def)
    _repair_inputs(graph_def)
    prefix = _find_prefix([node.name for node in graph_def.node], scopes)
    named = outputs or {}
    if prefix:
        graph_def, named = graphs.strip_prefix(graph_def, prefix, named)
    graph = graphs.Graph(graph_def)
    arrays: Dict[str, np.ndarray] = {}
    for name, value in graph.constants():
        arrays.setdefault(graphs.strip_reading(name), value)
    return Artifact(path, kind, arrays, graph, named)


def _repair_inputs(graph_def: tf1.GraphDef) -> None:
    """Restore the type of placeholders that a tool for graphs made float.

    `optimize_for_inference` and `strip_unused` do so, also where a cast from uint8 follows. They
    leave out the shape too, which TensorFlow then takes for that of one number.
    """
    placeholders = {node.name: node for node in graph_def.node if node.op == 'Placeholder'}
    for node in placeholders.values():
        shape = node.attr['shape'].shape
        if node.attr['dtype'].type == tf.float32.as_datatype_enum and not shape.dim:
            shape.unknown_rank = True
    for node in graph_def.node:
        source = node.input[0].partition(':')[0] if node.input else ''
        if node.op == 'Cast' and source in placeholders:
            placeholders[source].attr['dtype'].type = node.attr['SrcT'].type


def _find_prefix(names: Sequence[str], scopes: Sequence[str]) -> str:
    """Return what most names with a known scope have before it."""
    counts: Dict[str, int] = collections.Counter()
    for name in names:
        padded = f'/{name}'
        places = [padded.find(f'/{scope}/') for scope in scopes]
        found = [place for place in places if place >= 0]
        if found:
            counts[name[: min(found)]] += 1
    return max(counts, key=lambda prefix: counts[prefix], default='')


def _read_checkpoint(path: str) -> Artifact:
    prefix = checkpoint_files.resolve_checkpoint(path, '--from')
    shapes = checkpoint_files.checkpoint_shapes(prefix)
    reader = checkpoint_files.open_checkpoint(prefix)
    types = reader.get_variable_to_dtype_map()
    names: List[str] = [
        name
        for name in shapes
        if types[name] in (tf.float32, tf.float16) and not _TRAINING.search(name)
    ]
    averaged = [name for name in names if f'{name}{_AVERAGE}' in shapes]
    with checkpoint_files.explained_read(prefix):
        arrays = {name: np.asarray(reader.get_tensor(name)) for name in names}
        # An export of a run with moving averages has them.
        for name in averaged:
            arrays[name] = np.asarray(reader.get_tensor(f'{name}{_AVERAGE}'))
    objects = object_graphs.read(prefix)
    return Artifact(prefix, CHECKPOINT, arrays, objects=objects, averages=len(averaged))
