"""SavedModels: for TensorFlow Serving, and for programs with TensorFlow."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from typing import Any, Dict, Iterator, Mapping, Optional

import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow.core.protobuf import saved_model_pb2

from estimator_lib import environment, errors
from estimator_lib.export import artifacts, export_folders, freezing, inference_graph, serving
from estimator_lib.export.inference_graph import InferenceGraph
from estimator_lib.export.writers import Source, Writer
from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat

tf1 = tf.compat.v1

WARMUP_FILE = os.path.join(artifacts.ASSETS, 'tf_serving_warmup_requests')
MOST_WARMUP_REQUESTS = 1000  # A server refuses a model with more.
_WARMUP_SIZE = (1, 480, 640)

# Programs refuse larger protocol buffers: lengths are signed numbers of 32 bits.
_MOST_BYTES = (1 << 31) - 1


@dataclasses.dataclass(frozen=True)
class SavedModelWriter(Writer[InferenceGraph]):
    """Format of SavedModels.

    The signatures `serving_default` and `tensorflow/serving/predict` take `inputs` (see
    `serving.serving_input_receiver_fn`) and return what `Task.export_outputs` names. Variables are
    constants of the graph.

    Attributes:
        input_type: a key of `serving.SERVING_INPUTS`; None: `config.export_config.serving_input`.
        signature_name: another name of the signature.
        warmup_requests: how many requests a server makes before it takes those of clients. The
            first ones are slow: kernels are chosen and memory is laid out.
    """

    input_type: Optional[str] = None
    signature_name: Optional[str] = None
    warmup_requests: int = 0

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
        write_graph(model.frozen, dict.fromkeys(names, model.signature()), folder)
        tf.io.gfile.makedirs(os.path.join(folder, artifacts.ASSETS))
        # Earlier versions of this package read the origin from a file of its own.
        origin = artifacts.origin(source.config, source.checkpoint)
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
        del source
        return {
            'inputs': _described(model.inputs),
            'outputs': _described(model.outputs),
            'environment': environment.SERVER_VARIABLES,
            **artifacts.describe_file(os.path.join(folder, self.file_name)),
        }


def _described(tensors: Mapping[str, tf.Tensor]) -> Dict[str, Any]:
    """Return dtypes and shapes for `export.json`; sides of any length are null."""
    return {
        key: {
            'dtype': tensor.dtype.name,
            'shape': tensor.shape.as_list() if tensor.shape.rank is not None else None,
        }
        for key, tensor in tensors.items()
    }


def write_graph(frozen: freezing.Frozen, signatures: Mapping[str, Any], folder: str) -> None:
    """Write a graph of constants as a SavedModel, one node at a time.

    A program that fills a `SavedModel` message and serializes it holds the weights three times: in
    the message, in the serializer's buffer, which grows by doubling, and in the bytes. For 500 MiB
    of weights its peak of memory is 1.0 GB above that of this function, and that of
    `tf.compat.v1.saved_model.Builder` 2.2 GB. Here the peak is that of freezing the graph.

    What is left to write by hand are the lengths of two messages. Every part goes through the
    protocol buffer library.

    Args:
        frozen: the graph.
        signatures: `SignatureDef`s by name.
        folder: of the SavedModel.

    Raises:
        errors.UserError: the model does not fit in one file.
    """
    with tf.Graph().as_default():
        # What TensorFlow says of a graph: its own version, and the ops that the graph needs.
        meta_graph = tf1.train.export_meta_graph(graph_def=frozen.graph_def)
    meta_graph.ClearField('graph_def')
    meta_graph.meta_info_def.tags.append(tf1.saved_model.tag_constants.SERVING)
    for name, signature in signatures.items():
        meta_graph.signature_def[name].CopyFrom(signature)
    graph_length = sum(map(len, _graph_parts(frozen)))
    start = meta_graph.SerializeToString(deterministic=True)
    start += _start_of_field(tf1.MetaGraphDef(graph_def=tf1.GraphDef()), graph_length)
    length = len(start) + graph_length
    path = os.path.join(folder, export_folders.SAVED_MODEL_FILE)
    if length > _MOST_BYTES:
        raise errors.UserError(
            f'{path}: the model takes {length} bytes; a SavedModel with its weights in its graph '
            f'takes at most {_MOST_BYTES}. Expected a smaller network.'
        )
    saved_model = saved_model_pb2.SavedModel(meta_graphs=[tf1.MetaGraphDef()])
    saved_model.saved_model_schema_version = tf1.saved_model.constants.SAVED_MODEL_SCHEMA_VERSION
    # There are no variables, but a SavedModel has their folder.
    tf.io.gfile.makedirs(os.path.join(folder, tf1.saved_model.constants.VARIABLES_DIRECTORY))
    with tf.io.gfile.GFile(path, 'wb') as file:
        file.write(_start_of_field(saved_model, length))
        file.write(start)
        for part in _graph_parts(frozen):
            file.write(part)


def _graph_parts(frozen: freezing.Frozen) -> Iterator[bytes]:
    """Yield the bytes of a `GraphDef` in parts: those of a repeated field may be concatenated."""
    graph_def = frozen.graph_def
    for node in frozen.nodes():
        yield tf1.GraphDef(node=[node]).SerializeToString(deterministic=True)
    rest = tf1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    yield rest.SerializeToString(deterministic=True)


def _start_of_field(message: Any, length: int) -> bytes:
    """Return the bytes of a message up to the content of its last field.

    Args:
        message: its last field is an empty message: it ends with the field's key and a length of 0.
        length: of the content, in bytes.
    """
    # Lengths are written as the numbers of `UInt64Value`, after the key of its only field.
    encoded = wrappers_pb2.UInt64Value(value=length).SerializeToString()[1:]
    return message.SerializeToString()[:-1] + encoded


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
