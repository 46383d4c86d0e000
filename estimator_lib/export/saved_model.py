"""SavedModels: for TensorFlow Serving, and for programs with TensorFlow."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from estimator_lib import environment, errors
from estimator_lib.checkpoints import object_graphs
from estimator_lib.export import (
    artifacts,
    export_folders,
    freezing,
    inference_graph,
    object_graph,
    serving,
)
from estimator_lib.export.inference_graph import InferenceGraph
from estimator_lib.export.metadata import model_facts
from estimator_lib.export.writers import Source, Writer
from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat
from estimator_lib.task_interfaces.tensors import Tensors

tf1 = tf.compat.v1

WARMUP_FILE = os.path.join(artifacts.ASSETS, 'tf_serving_warmup_requests')
MOST_WARMUP_REQUESTS = 1000  # A server refuses a model with more.
_WARMUP_SIZE = (1, 480, 640)

VARIABLES, CONSTANTS = 'variables', 'constants'  # forms of weights

# Lengths of protocol buffers are signed numbers of 32 bits.
_MOST_BYTES = 2_000_000_000
_READ = '/Read'  # at the end of the names of nodes that read variables


@dataclasses.dataclass(frozen=True)
class SavedModelWriter(Writer[InferenceGraph]):
    """Format of SavedModels.

    The signatures `serving_default` and `tensorflow/serving/predict` take `inputs` (see
    `serving.serving_input_receiver_fn`) and return what `Task.export_outputs` names. Batch norm
    is folded into the weights.

    Attributes:
        input_type: a key of `serving.SERVING_INPUTS`; None: `config.export_config.serving_input`.
        signature_name: another name of the signature.
        warmup_requests: how many requests a server makes before it takes those of clients. The
            first ones are slow: kernels are chosen and memory is laid out.
        serving_weights: `VARIABLES`, or `CONSTANTS` of the graph: a request of one image takes less
            time, and the process much more memory. Such a graph is not callable as an object.
    """

    input_type: Optional[str] = None
    signature_name: Optional[str] = None
    warmup_requests: int = 0
    serving_weights: str = VARIABLES

    name = 'saved_model'
    file_name = export_folders.SAVED_MODEL_FILE
    artifacts_folder = artifacts.ASSETS

    def build(self, source: Source) -> InferenceGraph:
        """Build the inference graph."""
        if self.warmup_requests:
            check_warmup(self.warmup_requests)
        serving_input = source.config.export_config.serving_input
        if self.input_type:
            serving_input = serving.SERVING_INPUTS[self.input_type]
        return inference_graph.build(source, serving_input)

    def write(self, model: InferenceGraph, source: Source, folder: str) -> None:
        """Write the graph, its origin and, where they are asked for, warm-up requests."""
        names = [serving.DEFAULT_SIGNATURE, serving.PREDICT_SIGNATURE]
        names += [self.signature_name] if self.signature_name else []
        origin = artifacts.origin(source.config, source.checkpoint)
        if self.serving_weights == CONSTANTS:
            _check_size(sum(value.nbytes for value in model.frozen.values.values()), folder)
            constant = freezing.Frozen(model.frozen.to_graph_def(), {})
            model = model._replace(frozen=constant)
        write_graph(model, names, folder, origin['fingerprint'])
        tf.io.gfile.makedirs(os.path.join(folder, artifacts.ASSETS))
        # Earlier versions of this package read the origin from a file of its own.
        with tf.io.gfile.GFile(
            os.path.join(folder, artifacts.ASSETS, artifacts.ORIGIN_FILE), 'w'
        ) as file:
            file.write(json.dumps(origin) + '\n')
        if self.warmup_requests:
            kind = model.inputs[serving.INPUT_KEY].op.name
            path = os.path.join(folder, WARMUP_FILE)
            write_warmup(path, kind, self.warmup_requests, source.task.image_format)

    def verify(self, model: InferenceGraph, source: Source, folder: str) -> Dict[str, Any]:
        """Describe the signature, the file, and the variables of a server's environment.

        The file is not run. It has the nodes of the inference graph as they are, and a run exports
        after each evaluation: it should not wait for a second model to be loaded.
        """
        return {
            **model_facts.describe_origin(source),
            'inputs': _described(model.inputs),
            'outputs': _described(model.outputs),
            'environment': self._server_variables(model),
            **_described_variables(os.path.join(folder, export_folders.VARIABLES_FILE)),
            **artifacts.describe_file(os.path.join(folder, self.file_name)),
        }

    def _server_variables(self, model: InferenceGraph) -> Dict[str, str]:
        """Return the variables with which a server is fastest and its answers are right."""
        if self.serving_weights == VARIABLES and freezing.has_fixed_weights(model.frozen.graph_def):
            return {**environment.SERVER_VARIABLES, environment.FROZEN_WEIGHTS: '1'}
        return environment.SERVER_VARIABLES


def _described_variables(path: str) -> Dict[str, Any]:
    return {'variables': artifacts.describe_file(path)} if tf.io.gfile.exists(path) else {}


def _described(tensors: Mapping[str, tf.Tensor]) -> Dict[str, Any]:
    """Return dtypes and shapes for `export.json`; sides of any length are null."""
    return {
        key: {
            'dtype': tensor.dtype.name,
            'shape': tensor.shape.as_list() if tensor.shape.rank is not None else None,
        }
        for key, tensor in tensors.items()
    }


def write_graph(model: InferenceGraph, names: Sequence[str], folder: str, identity: str) -> None:
    """Write an inference graph as a SavedModel, with its weights as variables.

    TensorFlow's optimizer copies constants several times while it works, and variables never. The
    graph has the names of the inference graph, as clients of TensorFlow 1 feed and fetch them; the
    object graph beside it is what `tf.saved_model.load` returns.

    Args:
        model: the graph. Where it has no weights, it is written without an object graph.
        names: of the signatures.
        folder: of the SavedModel.
        identity: of the model, part of the names by which a session of TensorFlow 1 knows its
            variables: so two models in one session do not share them.
    """
    values = model.frozen.values
    built = _build(model, identity)
    with tf.Graph().as_default():
        # What TensorFlow says of a graph: its own version, and the ops that the graph needs.
        meta_graph = tf1.train.export_meta_graph(
            graph_def=built.graph_def, saver_def=built.saver_def
        )
    meta_graph.meta_info_def.tags.append(tf1.saved_model.tag_constants.SERVING)
    for name in names:
        meta_graph.signature_def[name].CopyFrom(model.signature())
    variables = os.path.join(folder, export_folders.VARIABLES)
    tf.io.gfile.makedirs(os.path.dirname(variables))
    if values:
        objects = object_graph.build(built.functions, values, names, serving.INPUT_KEY)
        meta_graph.object_graph_def.CopyFrom(objects)
        _write_variables(values, objects, variables)
    # Not `tf.compat.v1.saved_model.Builder`: it writes variables by a Saver of the graph, under
    # names that the object graph does not know.
    saved_model = saved_model_pb2.SavedModel(meta_graphs=[meta_graph])
    saved_model.saved_model_schema_version = tf1.saved_model.constants.SAVED_MODEL_SCHEMA_VERSION
    with tf.io.gfile.GFile(os.path.join(folder, export_folders.SAVED_MODEL_FILE), 'wb') as file:
        file.write(saved_model.SerializeToString(deterministic=True))


class _Built(NamedTuple):
    """Graph of a SavedModel.

    Attributes:
        graph_def: with the functions in its library.
        saver_def: names of the ops that restore variables; None: there are no variables.
        functions: of the object graph; none without variables.
    """

    graph_def: tf1.GraphDef
    saver_def: Optional[Any]
    functions: Mapping[str, object_graph.Function]


def _build(model: InferenceGraph, identity: str) -> _Built:
    """Build the graph of a SavedModel; see `write_graph`."""
    network = _reading(model.frozen)
    with tf.Graph().as_default() as graph:
        handles = {
            name: tf.raw_ops.VarHandleOp(
                dtype=value.dtype, shape=value.shape, shared_name=f'{identity}/{name}', name=name
            )
            for name, value in model.frozen.values.items()
        }
        for name, handle in handles.items():
            _read(handle, f'{name}{_READ}')
        saver_def = _add_saver(handles) if handles else None
        graph_def = graph.as_graph_def()
        inputs = {
            key: tf.TensorSpec(one.shape, one.dtype, key) for key, one in model.inputs.items()
        }
        add = functools.partial(_add_network, network, model, handles)
        functions = object_graph.trace(add, inputs, serving.INPUT_KEY) if handles else {}
    # Nodes are put together as they are: an import would give some of them other names.
    graph_def.node.extend(network.node)
    graph_def.library.CopyFrom(network.library)
    graph_def.library.function.extend(one.function_def for one in functions.values())
    return _Built(graph_def, saver_def, functions)


def _check_size(size: int, folder: str) -> None:
    """Refuse constants that do not fit in a protocol buffer, with some room for the graph."""
    if size > _MOST_BYTES:
        raise errors.UserError(
            f'{folder}: the weights take {size} bytes; the constants of a graph take at most '
            f'{_MOST_BYTES}. Expected --serving_weights={VARIABLES}.'
        )


def _reading(frozen: freezing.Frozen) -> tf1.GraphDef:
    """Return a graph without its large constants, whose nodes take what reads variables."""
    old = frozen.graph_def
    result = tf1.GraphDef(versions=old.versions, library=old.library)
    result.node.extend(node for node in old.node if node.name not in frozen.values)
    for node in result.node:
        for index, name in enumerate(node.input):
            if freezing.node_name(name) in frozen.values:
                node.input[index] = name.removesuffix(':0') + _READ
    return result


def _add_network(
    network: tf1.GraphDef,
    model: InferenceGraph,
    handles: Mapping[str, tf.Tensor],
    tensors: Mapping[str, tf.Tensor],
) -> Tensors:
    """Add a network to the current graph, and return its outputs.

    Args:
        network: of `_reading`.
        model: of the network.
        handles: of the variables.
        tensors: inputs by key; the others are placeholders with defaults.
    """
    replaced = {model.inputs[key].name: tensor for key, tensor in tensors.items()}
    fed = set(map(freezing.node_name, replaced))
    graph_def = tf1.GraphDef(versions=network.versions, library=network.library)
    graph_def.node.extend(node for node in network.node if node.name not in fed)
    for name, handle in handles.items():
        replaced[f'{name}{_READ}:0'] = _read(handle, f'{name}{_READ}')
    names = [tensor.name for tensor in model.outputs.values()]
    return dict(zip(model.outputs, tf1.import_graph_def(graph_def, replaced, names, name='')))


def _read(handle: tf.Tensor, name: Optional[str] = None) -> tf.Tensor:
    dtype = handle.op.get_attr('dtype')
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype, name=name)


def _add_saver(handles: Mapping[str, tf.Tensor]) -> Any:
    """Add the ops that a loader of TensorFlow 1 runs; return their `SaverDef`."""
    # The keys of the object graph, so that one checkpoint serves loaders of TensorFlow 1 and 2.
    keys = list(map(object_graph.checkpoint_key, handles))
    slices, resources = [''] * len(keys), list(handles.values())
    with tf.name_scope('saver'):
        prefix = tf1.placeholder(tf.string, [], 'prefix')
        dtypes = [handle.op.get_attr('dtype') for handle in resources]
        restored = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=keys, shape_and_slices=slices, dtypes=dtypes
        )
        assigned = [
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            for handle, value in zip(resources, restored)
        ]
        tensors = list(map(_read, resources))
        saved = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=keys, shape_and_slices=slices, tensors=tensors
        )
        with tf.control_dependencies([saved]):
            name = tf.identity(prefix, 'save')
        return tf1.train.SaverDef(
            filename_tensor_name=prefix.name,
            save_tensor_name=name.name,
            restore_op_name=tf.group(*assigned, name='restore').name,
            version=tf1.train.SaverDef.V2,
        )


def _write_variables(values: Mapping[str, np.ndarray], objects: Any, prefix: str) -> None:
    """Write the checkpoint of a SavedModel."""
    keys = [*map(object_graph.checkpoint_key, values), object_graphs.GRAPH_KEY]
    tracked = object_graph.track_checkpoint(objects).SerializeToString(deterministic=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = [tf1.placeholder(value.dtype, value.shape) for value in values.values()]
        save = tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=keys,
            shape_and_slices=[''] * len(keys),
            tensors=[*tensors, tf.constant(tracked)],
        )
        # Fed, as constants of the graph would be copies of all weights.
        session.run(save, dict(zip(tensors, values.values())))


def check_warmup(count: int) -> None:
    """Check that warm-up requests can be written.

    Raises:
        errors.UserError: the package with their messages is not installed, or the requests are more
            than `MOST_WARMUP_REQUESTS`.
    """
    if count > MOST_WARMUP_REQUESTS:
        raise errors.UserError(
            f'--warmup_requests: {count}; expected at most {MOST_WARMUP_REQUESTS}, the limit of '
            'TensorFlow Serving.'
        )
    if importlib.util.find_spec('tensorflow_serving') is None:
        version = '.'.join(map(str, environment.release(tf.__version__)))
        raise errors.UserError(
            '--warmup_requests: the package tensorflow-serving-api is not installed; '
            f"pip install 'tensorflow-serving-api=={version}.*'"
        )


def write_warmup(path: str, kind: str, count: int, image_format: ImageFormat = COLOR) -> None:
    """Write requests that TensorFlow Serving makes to a model, with an image of noise each.

    Args:
        path: of the TFRecord file.
        kind: the name of the placeholder of the requests: `serving.as_requests` knows them.
        count: how many; see `check_warmup`.
        image_format: of the images.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    shape = (*_WARMUP_SIZE, image_format.channels)
    images = np.random.RandomState(0).randint(0, 256, shape)
    images = images.astype(image_format.dtype.as_numpy_dtype)
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = serving.DEFAULT_SIGNATURE
    inputs = tf.make_tensor_proto(serving.as_requests(images, kind))
    request.inputs[serving.INPUT_KEY].CopyFrom(inputs)
    log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(count):
            writer.write(log.SerializeToString())
