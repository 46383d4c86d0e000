"""Conversion of trained graphs for serving: constants for variables, folded batch norm.

A SavedModel turns the constants into variables again, of which TensorFlow's optimizer makes no
copies. `docs/performance.md` has times and memory of both forms.
"""

from __future__ import annotations

import collections
from typing import (
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

# No transposed convolutions: the axis of their outputs is another one of the filter.
_CONVOLUTIONS = ('Conv2D', 'DepthwiseConv2dNative')
# Ops for which oneDNN keeps a copy of the second input where it may.
_WEIGHTED = (*_CONVOLUTIONS, 'Conv3D', 'MatMul')
# Ops of lowered loops and conditions: their outputs differ by the iteration.
_CONTROL_FLOW = ('Enter', 'Exit', 'Switch', 'Merge', 'NextIteration', 'LoopCond')


class Frozen(NamedTuple):
    """Graph of constants, with the large values beside it: so they are held once.

    Attributes:
        graph_def: the graph; constants that have a value beside it have none in it.
        values: by the names of their nodes.
    """

    graph_def: tf1.GraphDef
    values: Dict[str, np.ndarray]

    def nodes(self) -> Iterator[tf1.NodeDef]:
        """Yield all nodes, each with its value."""
        for node in self.graph_def.node:
            if node.name in self.values:
                node = constant_node(node.name, self.values[node.name])
            yield node

    def to_graph_def(self) -> tf1.GraphDef:
        """Return the whole graph."""
        result = tf1.GraphDef(versions=self.graph_def.versions, library=self.graph_def.library)
        result.node.extend(self.nodes())
        return result


def freeze(session: tf1.Session, outputs: Sequence[tf.Tensor]) -> Frozen:
    """Return the part of a graph that computes some tensors, with variables as constants.

    Args:
        session: its variables are initialized.
        outputs: what is to be computed.

    Returns:
        A graph of its own; nodes keep their names, but have no devices.
    """
    names = [output.op.name for output in outputs]
    graph_def = session.graph.as_graph_def()
    graph_def = _pruned(graph_def, graph_def.node, names)
    handles = {node.name for node in graph_def.node if node.op == 'VarHandleOp'}
    if _are_only_read(graph_def, handles):
        # TensorFlow's own conversion, below, copies each value several times. By it, an export held
        # the weights five times while it was written, and twice with values beside the graph.
        reads = {name: _find_read(session.graph, name) for name in handles}
        values = session.run(reads)
    else:
        # Variables that loops or functions are given, or that are gathered from.
        graph_def = tf1.graph_util.convert_variables_to_constants(session, graph_def, names)
        values = {
            node.name: tf.make_ndarray(node.attr['value'].tensor)
            for node in graph_def.node
            if node.name in handles and node.op == 'Const'
        }
    for node in graph_def.node:
        # A device of the machine that trained may not exist where the graph is loaded.
        node.device = ''
        if node.name in values:
            node.CopyFrom(_valueless_node(node.name, values[node.name].dtype))
        elif node.op == 'ReadVariableOp':
            dtype = node.attr['dtype'].type
            node.CopyFrom(tf1.NodeDef(name=node.name, op='Identity', input=node.input))
            node.attr['T'].type = dtype
    return Frozen(graph_def, values)


def _are_only_read(graph_def: tf1.GraphDef, handles: Set[str]) -> bool:
    return all(
        node.op == 'ReadVariableOp'
        for node in graph_def.node
        if any(not name.startswith('^') and node_name(name) in handles for name in node.input)
    )


def _find_read(graph: tf.Graph, handle: str) -> tf.Tensor:
    """Return a tensor that reads a variable."""
    consumers = graph.get_operation_by_name(handle).outputs[0].consumers()
    return next(op.outputs[0] for op in consumers if op.type == 'ReadVariableOp')


def fold_batch_norms(frozen: Frozen, outputs: Sequence[tf.Tensor]) -> Frozen:
    """Multiply batch norm in inference into the weights of the convolution before it.

    With s = gamma / sqrt(variance + epsilon), a filter w and batch norm become the filter w * s and
    the bias beta - mean * s. Filter and statistics must be constants, filter and convolution must
    have no other use, and channels must come last; other batch norms stay as they are.

    Args:
        frozen: from `freeze`.
        outputs: what the graph computes.

    Returns:
        The graph with `BiasAdd` in the places of the batch norms.
    """
    names = [output.op.name for output in outputs]
    graph = _Graph(frozen.graph_def, names, frozen.values)
    replaced: Dict[str, List[tf1.NodeDef]] = {}
    values = dict(frozen.values)
    for node in frozen.graph_def.node:
        convolution = graph.foldable_convolution(node)
        if convolution is not None:
            replaced.update(_folded(graph, node, convolution, values))
    nodes = [new for node in frozen.graph_def.node for new in replaced.get(node.name, [node])]
    graph_def = _pruned(frozen.graph_def, nodes, names)
    kept = {node.name for node in graph_def.node}
    return Frozen(graph_def, {name: value for name, value in values.items() if name in kept})


def constant_nodes(graph_def: tf1.GraphDef) -> FrozenSet[str]:
    """Return the names of the nodes whose outputs are the same in each run."""
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(graph_def, name='')
    constant: Set[str] = set()
    # An import adds ops after those that they read, so one pass is enough.
    for op in graph.get_operations():
        of_constants = op.inputs and all(tensor.op.name in constant for tensor in op.inputs)
        if op.type == 'Const' or (of_constants and _is_function_of_inputs(op)):
            constant.add(op.name)
    return frozenset(constant)


def constants(graph_def: tf1.GraphDef, names: Iterable[str]) -> Dict[str, np.ndarray]:
    """Return the values of inputs that are constants, or identities of these, by name.

    Returns:
        Arrays of any shape.
    """
    graph = _Graph(graph_def, [])
    values = {name: graph.constant(name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def fold_constants(graph_def: tf1.GraphDef, outputs: Sequence[tf.Tensor]) -> tf1.GraphDef:
    """Replace nodes that depend only on constants by their values.

    Args:
        graph_def: from `freeze`.
        outputs: what the graph computes.

    Returns:
        The graph with constants in the places of nodes; nodes keep their names.
    """
    names = [output.op.name for output in outputs]
    known = constant_nodes(graph_def)
    used = [name for node in graph_def.node if node.name not in known for name in node.input]
    used += names
    computed = {node.name for node in graph_def.node if node.op != 'Const'} & known
    folded = sorted({node_name(name) for name in used} & computed)
    # A node with more outputs than the first is no constant.
    folded = [name for name in folded if not _has_further_output(name, used)]
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(graph_def, name='')
        values = dict(zip(folded, session.run([f'{name}:0' for name in folded])))
    nodes = [
        constant_node(node.name, values[node.name]) if node.name in values else node
        for node in graph_def.node
    ]
    return _pruned(graph_def, nodes, names)


def bypass(graph_def: tf1.GraphDef, names: Iterable[str]) -> tf1.GraphDef:
    """Replace nodes by identities of their first input."""
    names = set(names)
    result = tf1.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if node.name in names:
            source = node.input[0]
            controls = [name for name in node.input if name.startswith('^')]
            node.CopyFrom(tf1.NodeDef(name=node.name, op='Identity', input=[source, *controls]))
            node.attr['T'].type = tf.float32.as_datatype_enum
    return result


def constant_node(name: str, value: np.ndarray) -> tf1.NodeDef:
    """Return a constant node, of the shape and type of the value."""
    node = tf1.NodeDef(name=name, op='Const')
    node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr['dtype'].type = node.attr['value'].tensor.dtype
    return node


def _valueless_node(name: str, dtype: np.dtype) -> tf1.NodeDef:
    """Return a constant node without its value; see `Frozen`."""
    node = tf1.NodeDef(name=name, op='Const')
    node.attr['dtype'].type = tf.as_dtype(dtype).as_datatype_enum
    return node


def _is_function_of_inputs(op: tf.Operation) -> bool:
    """Return True for ops without state, random draws and control flow."""
    has_function = any(attr.type == 'func' for attr in op.op_def.attr)
    return not (op.op_def.is_stateful or has_function or op.type in _CONTROL_FLOW)


def _has_further_output(name: str, inputs: Sequence[str]) -> bool:
    return any(
        node_name(each) == name and ':' in each and not each.endswith(':0') for each in inputs
    )


class _Graph:
    """Nodes of a graph by name, and how often each is used."""

    def __init__(
        self,
        graph_def: tf1.GraphDef,
        outputs: Sequence[str],
        values: Optional[Mapping[str, np.ndarray]] = None,
    ):
        self._values = values or {}
        self._nodes = {node.name: node for node in graph_def.node}
        self._uses = collections.Counter(outputs)
        self._further_outputs = set()
        for node in graph_def.node:
            self._uses.update(map(node_name, node.input))
            self._further_outputs.update(
                node_name(name) for name in node.input if ':' in name and name[-2:] != ':0'
            )

    def constant(self, name: str) -> Optional[np.ndarray]:
        """Return the value of an input that is a constant or an identity of one; else None."""
        node = self._source(name)
        if node.name in self._values:
            return self._values[node.name]
        return tf.make_ndarray(node.attr['value'].tensor) if node.op == 'Const' else None

    def foldable_convolution(self, node: tf1.NodeDef) -> Optional[tf1.NodeDef]:
        """Return the convolution that a batch norm can be folded into; None for none."""
        if node.op != 'FusedBatchNormV3' or node.attr['is_training'].b:
            return None
        convolution = self._nodes[node_name(node.input[0])]
        # Another reader of the convolution needs its result without batch norm.
        if convolution.op not in _CONVOLUTIONS or self._uses[convolution.name] != 1:
            return None
        if any(each.attr['data_format'].s != b'NHWC' for each in (node, convolution)):
            return None
        # Batch norm has outputs for its statistics, which `BiasAdd` does not have.
        if node.name in self._further_outputs or not self._is_own_constant(convolution.input[1]):
            return None
        if any(self.constant(name) is None for name in node.input[1:5]):
            return None
        return convolution

    def _is_own_constant(self, name: str) -> bool:
        """Return True for an input that is a constant, and that nothing else uses."""
        node = self._nodes[node_name(name)]
        while node.op == 'Identity' and self._uses[node.name] == 1:
            node = self._nodes[node_name(node.input[0])]
        return node.op == 'Const' and self._uses[node.name] == 1

    def _source(self, name: str) -> tf1.NodeDef:
        node = self._nodes[node_name(name)]
        while node.op == 'Identity':
            node = self._nodes[node_name(node.input[0])]
        return node


def _folded(
    graph: _Graph,
    norm: tf1.NodeDef,
    convolution: tf1.NodeDef,
    values: Dict[str, np.ndarray],
) -> Mapping[str, List[tf1.NodeDef]]:
    """Return the nodes that replace a convolution and a batch norm, by their names.

    Args:
        graph: of both.
        norm: the batch norm.
        convolution: before it.
        values: the new constants' are added.
    """
    # In float64, so that the weights are rounded once, at the end.
    gamma, beta, mean, variance = (
        graph.constant(name).astype(np.float64) for name in norm.input[1:5]
    )
    weights = graph.constant(convolution.input[1])
    scale = gamma / np.sqrt(variance + norm.attr['epsilon'].f)
    bias = beta - mean * scale
    if convolution.op == 'DepthwiseConv2dNative':
        # Its filter is [height, width, channels, multiplier]; outputs go by channel, multiplier.
        scale = scale.reshape(weights.shape[2:])
    names = f'{convolution.name}/folded_weights', f'{norm.name}/folded_bias'
    for name, value in zip(names, (weights * scale, bias)):
        values[name] = value.astype(weights.dtype)
    filter_node, bias_node = (_valueless_node(name, weights.dtype) for name in names)
    new_convolution = tf1.NodeDef()
    new_convolution.CopyFrom(convolution)
    new_convolution.input[1] = filter_node.name
    controls = [name for name in norm.input if name.startswith('^')]
    addition = tf1.NodeDef(
        name=norm.name, op='BiasAdd', input=[norm.input[0], bias_node.name, *controls]
    )
    addition.attr['T'].CopyFrom(norm.attr['T'])
    addition.attr['data_format'].s = b'NHWC'
    return {
        convolution.name: [filter_node, new_convolution],
        norm.name: [bias_node, addition],
    }


def _pruned(
    graph_def: tf1.GraphDef, nodes: Sequence[tf1.NodeDef], names: Sequence[str]
) -> tf1.GraphDef:
    """Return the graph with other nodes, without those that nothing needs."""
    result = tf1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    needed = _needed(nodes, names)
    result.node.extend(node for node in nodes if node.name in needed)
    return result


def has_fixed_weights(graph_def: tf1.GraphDef) -> bool:
    """Check that the weights of all layers are the same in each run.

    Where oneDNN may keep copies of weights, it would keep the activations of the first run of a
    layer that multiplies two of them, and answer later runs with those.

    Args:
        graph_def: from `freeze` or `fold_batch_norms`.
    """
    weights = [node_name(node.input[1]) for node in graph_def.node if node.op in _WEIGHTED]
    needed = _needed(graph_def.node, weights)
    nodes = [node for node in graph_def.node if node.name in needed]
    in_functions = {node.op for one in graph_def.library.function for node in one.node_def}
    return (
        {node.op for node in nodes if not node.input} <= {'Const'}
        and 'Merge' not in {node.op for node in nodes}
        and in_functions.isdisjoint(_WEIGHTED)
    )


def needed_ops(outputs: Sequence[tf.Tensor]) -> Set[str]:
    """Return the names of the ops that some tensors of one graph depend on."""
    nodes = outputs[0].graph.as_graph_def().node
    return _needed(nodes, [output.op.name for output in outputs])


def _needed(nodes: Sequence[tf1.NodeDef], names: Sequence[str]) -> Set[str]:
    """Return the names of the nodes that some nodes depend on, directly or not."""
    inputs = {node.name: [node_name(name) for name in node.input] for node in nodes}
    needed: Set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(inputs[name])
    return needed


def node_name(name: str) -> str:
    """Return the name of the node that an input of a node comes from."""
    return name.lstrip('^').partition(':')[0]
