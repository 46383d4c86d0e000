"""Inference graph of a checkpoint's model, with constants in place of variables.

It is not built by `Estimator.export_saved_model`: that restores every variable of the graph, the
global step among them, which published checkpoints need not have. Batch norm is folded into
weights, which only constants allow (see `freezing`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.checkpoints import savers
from estimator_lib.export import freezing, serving
from estimator_lib.export.writers import GraphHook, Source
from estimator_lib.task import Arrays, Features, Task, Tensors

tf1 = tf.compat.v1


class InferenceGraph(NamedTuple):
    """Graph of constants, from what a server sends to the outputs of the signature.

    Attributes:
        frozen: the graph.
        inputs: tensors of the graph that it was made from, by key; names are the same.
        outputs: likewise.
        expected: outputs of the graph with variables, of each image that was asked for.
    """

    frozen: freezing.Frozen
    inputs: Mapping[str, tf.Tensor]
    outputs: Tensors
    expected: Sequence[Arrays] = ()

    def signature(self) -> Any:
        """Return the `SignatureDef` of inputs and outputs."""
        with tf.Graph().as_default():  # It cannot be made outside of graphs.
            return tf1.saved_model.predict_signature_def(dict(self.inputs), dict(self.outputs))


def build(source: Source, serving_input: int, images: Sequence[np.ndarray] = ()) -> InferenceGraph:
    """Build the graph that serves a checkpoint's model.

    Args:
        source: the model.
        serving_input: an `export_pb2.ServingInput`.
        images: uint8 [height, width, 3] each, for `InferenceGraph.expected`; the input is then
            `IMAGE_TENSOR`.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model.
    """
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(source.task, serving_input)()
        inputs = receiver.receiver_tensors
        outputs = build_outputs(source.task, receiver.features, source.graph_hook_fn)
        tensors = list(outputs.values())
        expected: List[Arrays] = []

        def freeze() -> freezing.Frozen:
            with trained_session(source) as session:
                for image in images:
                    feed = {inputs[serving.INPUT_KEY]: image[np.newaxis]}
                    expected.append(session.run(outputs, feed))
                return freezing.freeze(session, tensors)

        # The session's variables are released with `freeze`, before weights are folded: so the
        # weights are held twice at most.
        frozen = freezing.fold_batch_norms(freeze(), tensors)
    return InferenceGraph(frozen, inputs, outputs, expected)


def build_outputs(
    task: Task,
    features: Features,
    graph_hook_fn: GraphHook = None,
    mode: str = tf_estimator.ModeKeys.PREDICT,
) -> Tensors:
    """Build the outputs of the signature, each named as its key in the graph."""
    predictions = task.predict(features, mode)
    if graph_hook_fn is not None:
        graph_hook_fn()
    # Published graphs have outputs by these names too, such as `detection_boxes:0`.
    outputs = task.export_outputs(task.postprocess(predictions, features))
    return {name: tf.identity(output, name) for name, output in outputs.items()}


@contextlib.contextmanager
def trained_session(source: Source) -> Iterator[tf1.Session]:
    """Open a session of the current graph, the model's, with the values of its checkpoint.

    Args:
        source: the model.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model.
    """
    # Optimizing the graph for the few runs that it has here would take longer than they do.
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    session_config.graph_options.rewrite_options.disable_meta_optimizer = True
    averages = source.config.eval_config.use_moving_averages
    with tf1.Session(config=session_config) as session:
        saver = savers.create_inference_saver(averages, source.task)
        saver.restore(session, source.checkpoint)
        yield session
