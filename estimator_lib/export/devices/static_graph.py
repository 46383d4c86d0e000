"""Trained network as a graph of constants and static shapes, for files for devices.

`build` freezes the network of a `Deployable` with a checkpoint's values. Batch norm becomes
weights, and what can be computed from constants is a constant.

In a network that was trained to be quantized the roundings of activations stay, whose ranges a
converter takes over. Those of weights do not: a converter rounds weights itself, for each channel
by its own range. It would take the ranges of training, one a layer, to be symmetric, which they are
not.

In int8 the parts of a concatenation share one scale. Where training gave each part a range of its
own, TFLite's converter takes that of the first for all: values beyond it are cut off. The levels of
a detector are such parts, and the scores of large objects were lost that way. The converter takes
no second rounding of a part either, so `widen_ranges` gives all parts one range.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import freezing, inference_graph
from estimator_lib.export.writers import Source
from estimator_lib.task import Tensors
from estimator_lib.task_interfaces.deployable import INTERMEDIATE, Deployable, Ops

tf1 = tf.compat.v1

INPUT = 'image'  # the name of the placeholder, and of the input of files

_ROUNDING = 'FakeQuantWithMinMaxVars'
# Ops that leave values as they are.
_SAME_VALUES = ('ExpandDims', 'Identity', 'Reshape', 'Squeeze', 'Transpose')


class StaticGraph(NamedTuple):
    """Network of a checkpoint.

    Attributes:
        deployable: whose network it is.
        graph_def: from the placeholder `INPUT`, `deployable.input_dtype` [batch, *input_shape] in
            [0, 255], to the raw outputs, with weights that are not rounded.
        evaluated: the same as evaluation computes it.
        names: of the raw outputs' tensors, by key.
        is_quantized: whether it was trained to be quantized: activations are rounded.
        batch: number of images of the input; None: any.
    """

    deployable: Deployable
    graph_def: tf1.GraphDef
    evaluated: tf1.GraphDef
    names: Mapping[str, str]
    is_quantized: bool
    batch: Optional[int] = 1

    def input(self) -> tf.Tensor:
        """Build the placeholder of the input, in the current graph.

        Returns:
            `deployable.input_dtype` [batch, *input_shape].
        """
        return _input(self.deployable, self.batch)

    def add(self, image: tf.Tensor, ops: Ops) -> Tensors:
        """Add the whole of what a file computes to the current graph.

        Args:
            image: `deployable.input_dtype` [batch, *input_shape] in [0, 255].
            ops: what the format knows.

        Returns:
            The outputs by name; in the graph they have those names.
        """
        return self._added(self.graph_def, image, ops)

    def add_evaluated(
        self, image: tf.Tensor, ops: Ops, with_intermediates: bool = False
    ) -> Tensors:
        """Add the same as evaluation computes it: weights are rounded as in training.

        Args:
            image: `deployable.input_dtype` [batch, *input_shape] in [0, 255].
            ops: likewise.
            with_intermediates: True: return `Deployable.intermediates` too, under names that begin
                with `INTERMEDIATE`; without those that no output depends on.
        """
        return self._added(self.evaluated, image, ops, with_intermediates)

    def run(
        self, images: Sequence[np.ndarray], with_intermediates: bool = False
    ) -> List[Dict[str, np.ndarray]]:
        """Return what evaluation computes in TensorFlow: the outputs of each image.

        Args:
            images: `deployable.input_dtype` [batch, *input_shape] each, see `samples.pixels`.
            with_intermediates: True: return `Deployable.intermediates` too, as `add_evaluated`
                does.
        """
        with tf.Graph().as_default(), tf1.Session() as session:
            image = self.input()
            outputs = self.add_evaluated(image, Ops.CORE, with_intermediates)
            return [session.run(outputs, {image: one}) for one in images]

    def _added(
        self,
        graph_def: tf1.GraphDef,
        image: tf.Tensor,
        ops: Ops,
        with_intermediates: bool = False,
    ) -> Tensors:
        tensors = tf1.import_graph_def(
            graph_def,
            {f'{INPUT}:0': image},
            list(self.names.values()),
            name='network',
        )
        raw = dict(zip(self.names, tensors))
        outputs = self.deployable.finish(raw, ops)
        if with_intermediates:
            used = freezing.needed_ops(list(outputs.values()))
            outputs.update(
                (f'{INTERMEDIATE}{name}', value)
                for name, value in self.deployable.intermediates(raw).items()
                if _source(value) in used
            )
        return {name: tf.identity(output, name) for name, output in outputs.items()}


def _source(tensor: tf.Tensor) -> str:
    """Return the name of the op that computes a tensor, through identities."""
    while tensor.op.type == 'Identity':
        tensor = tensor.op.inputs[0]
    return tensor.op.name


def _input(deployable: Deployable, batch: Optional[int]) -> tf.Tensor:
    return tf1.placeholder(deployable.input_dtype, [batch, *deployable.input_shape], INPUT)


def build(deployable: Deployable, source: Source, batch: Optional[int] = 1) -> StaticGraph:
    """Build the network of a checkpoint.

    Args:
        deployable: from `Task.deployable`.
        source: the model.
        batch: number of images of the input; None: any.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model, or the ranges of its
            quantization were never trained.
    """
    with tf.Graph().as_default():
        image = _input(deployable, batch)
        raw = {
            name: tf.identity(output, f'raw/{name}')
            for name, output in deployable.network(image).items()
        }
        if source.graph_hook_fn is not None:
            source.graph_hook_fn()
        with inference_graph.trained_session(source) as session:
            frozen = freezing.freeze(session, list(raw.values()))
        outputs = list(raw.values())
        evaluated = freezing.fold_batch_norms(frozen, outputs).to_graph_def()
        plain = _with_plain_weights(frozen.to_graph_def(), source.checkpoint)
        # Weights without their roundings are constants, into which batch norm can be folded.
        plain = freezing.Frozen(freezing.fold_constants(plain, outputs), {})
        plain = widen_ranges(freezing.fold_batch_norms(plain, outputs).to_graph_def())
    return StaticGraph(
        deployable,
        plain,
        evaluated,
        {name: output.name for name, output in raw.items()},
        any(node.op == _ROUNDING for node in plain.node),
        batch,
    )


def _with_plain_weights(graph_def: tf1.GraphDef, prefix: str) -> tf1.GraphDef:
    """Return the graph without the roundings of constants.

    Raises:
        errors.CheckpointError: all ranges of weights are the same, as before the first step.
    """
    constant = freezing.constant_nodes(graph_def)
    roundings = [
        node
        for node in graph_def.node
        if node.op == _ROUNDING and freezing.node_name(node.input[0]) in constant
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


class Range(NamedTuple):
    """Range of the values that a rounding keeps."""

    low: float
    high: float


def widen_ranges(graph_def: tf1.GraphDef) -> tf1.GraphDef:
    """Round the parts of each concatenation to one range, which holds those of all.

    A concatenation with a part that is not rounded stays as it is.

    Args:
        graph_def: of constants, and of roundings whose ranges are constants.

    Returns:
        A copy in which some roundings have other ranges; nodes keep their names.
    """
    nodes = {node.name: node for node in graph_def.node}
    ranges = _ranges(graph_def)
    wanted = dict(ranges)
    groups = [_roundings(node, nodes) for node in graph_def.node if node.op == 'ConcatV2']
    changed = True
    while changed:  # a part of two concatenations brings their ranges together
        changed = False
        for group in filter(None, groups):
            low = min(wanted[name].low for name in group)
            high = max(wanted[name].high for name in group)
            common = {name: Range(low, high) for name in group}
            changed = changed or any(wanted[name] != one for name, one in common.items())
            wanted.update(common)
    result = tf1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name in wanted and wanted[node.name] != ranges[node.name]:
            node = _with_range(node, wanted[node.name], result)
        result.node.append(node)
    return result


def _ranges(graph_def: tf1.GraphDef) -> Dict[str, Range]:
    """Return the ranges of roundings, by their names."""
    roundings = [node for node in graph_def.node if node.op == _ROUNDING]
    ends = freezing.constants(graph_def, {end for node in roundings for end in node.input[1:3]})
    return {node.name: Range(*(float(ends[end]) for end in node.input[1:3])) for node in roundings}


def _roundings(concatenation: tf1.NodeDef, nodes: Dict[str, tf1.NodeDef]) -> Optional[Set[str]]:
    """Return the roundings of a concatenation's parts; None where a part is not rounded."""
    names = set()
    for name in concatenation.input[: concatenation.attr['N'].i]:
        node = nodes[freezing.node_name(name)]
        while node.op in _SAME_VALUES:
            node = nodes[freezing.node_name(node.input[0])]
        if node.op != _ROUNDING:
            return None
        names.add(node.name)
    return names


def _with_range(node: tf1.NodeDef, wanted: Range, graph_def: tf1.GraphDef) -> tf1.NodeDef:
    """Return a rounding with another range, whose constants are added to a graph."""
    rounding = tf1.NodeDef()
    rounding.CopyFrom(node)
    for index, (end, value) in enumerate(wanted._asdict().items(), start=1):
        constant = freezing.constant_node(f'{node.name}/common_{end}', np.array(value, np.float32))
        graph_def.node.append(constant)
        rounding.input[index] = constant.name
    return rounding
