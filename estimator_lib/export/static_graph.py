"""A trained network as a graph of constants and static shapes, of which files for devices are made.

`build` freezes the network of a `Deployable` with a checkpoint's values. Batch norm becomes
weights, and what can be computed of constants is a constant. Of a network that was trained to be
quantized the roundings of activations stay, whose ranges a converter takes over; those of weights
do not: a converter rounds weights itself, for each channel by its own range, and would take the
ranges of training, one a layer, to be symmetric, which they are not. Activations that are put side
by side have one range (see `common_ranges`).
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import common_ranges, exporting, freezing
from estimator_lib.export.deployable import Deployable, Ops
from estimator_lib.task import Tensors
from protos import pipeline_pb2

tf1 = tf.compat.v1

INPUT = 'image'  # the name of the placeholder, and of the input of files


class StaticGraph(NamedTuple):
    """The network of a checkpoint.

    Attributes:
        deployable: whose network it is.
        graph_def: from the placeholder `INPUT`, float32 [1, *input_shape] in [0, 255], to the raw
            outputs, with weights that are not rounded.
        evaluated: the same as evaluation computes it.
        names: of the raw outputs' tensors, by key.
        is_quantized: whether it was trained to be quantized: activations are rounded.
    """

    deployable: Deployable
    graph_def: tf1.GraphDef
    evaluated: tf1.GraphDef
    names: Mapping[str, str]
    is_quantized: bool

    def add(self, image: tf.Tensor, ops: Ops) -> Tensors:
        """Adds the whole of what a file computes to the current graph.

        Args:
            image: float32 [1, *input_shape] in [0, 255].
            ops: what the format knows.

        Returns:
            The outputs by name; in the graph they have those names.
        """
        return self._added(self.graph_def, image, ops)

    def add_evaluated(self, image: tf.Tensor, ops: Ops) -> Tensors:
        """As `add`, as evaluation computes it: weights are rounded where training rounded them."""
        return self._added(self.evaluated, image, ops)

    def run(self, images: Sequence[np.ndarray]) -> List[Dict[str, np.ndarray]]:
        """What TensorFlow computes of images as evaluation does: outputs of each.

        Args:
            images: float32 [1, *input_shape] each, see `samples.pixels`.
        """
        with tf.Graph().as_default(), tf1.Session() as session:
            image = tf1.placeholder(tf.float32, [1, *self.deployable.input_shape], INPUT)
            outputs = self._added(self.evaluated, image, Ops.CORE)
            return [session.run(outputs, {image: one}) for one in images]

    def _added(self, graph_def: tf1.GraphDef, image: tf.Tensor, ops: Ops) -> Tensors:
        tensors = tf1.import_graph_def(
            graph_def,
            {f'{INPUT}:0': image},
            list(self.names.values()),
            name='network',
        )
        outputs = self.deployable.finish(dict(zip(self.names, tensors)), ops)
        return {name: tf.identity(output, name) for name, output in outputs.items()}


def build(
    deployable: Deployable, config: pipeline_pb2.TrainEvalPipelineConfig, prefix: str
) -> StaticGraph:
    """The network of a checkpoint.

    Args:
        deployable: from `Task.deployable`.
        config: says whether moving averages of the variables are taken.
        prefix: of the checkpoint.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model, or the ranges of its
            quantization were never trained.
    """
    with tf.Graph().as_default():
        image = tf1.placeholder(tf.float32, [1, *deployable.input_shape], INPUT)
        raw = {
            name: tf.identity(output, f'raw/{name}')
            for name, output in deployable.network(image).items()
        }
        with exporting.trained_session(prefix, config.eval_config.use_moving_averages) as session:
            frozen = freezing.freeze(session, list(raw.values()))
        outputs = list(raw.values())
        evaluated = freezing.fold_batch_norms(frozen, outputs).to_graph_def()
        plain = _with_plain_weights(frozen.to_graph_def(), prefix)
        plain = freezing.Frozen(freezing.fold_constants(plain, outputs), {})
        plain = common_ranges.widen(freezing.fold_batch_norms(plain, outputs).to_graph_def())
    return StaticGraph(
        deployable,
        plain,
        evaluated,
        {name: output.name for name, output in raw.items()},
        any(node.op == common_ranges.ROUNDING for node in plain.node),
    )


def _with_plain_weights(graph_def: tf1.GraphDef, prefix: str) -> tf1.GraphDef:
    """The graph without the roundings of what is constant.

    Raises:
        errors.CheckpointError: all ranges of weights are the same, as before the first step.
    """
    constant = freezing.constant_nodes(graph_def)
    roundings = [
        node
        for node in graph_def.node
        if node.op == common_ranges.ROUNDING and freezing.node_name(node.input[0]) in constant
    ]
    ends = [tuple(node.input[1:3]) for node in roundings]
    values = freezing.constants(graph_def, [name for pair in ends for name in pair])
    ranges = {tuple(float(values[name]) for name in pair) for pair in ends}
    if len(roundings) > 1 and len(ranges) == 1:
        raise errors.CheckpointError(
            f'{prefix}: the ranges of its quantization were never trained: those of all '
            f'{len(roundings)} weights are the same; expected a checkpoint of a run with '
            'graph_rewriter.'
        )
    return freezing.bypass(graph_def, [node.name for node in roundings])
