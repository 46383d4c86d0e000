"""Nodes of a graph without a session: constants, neighbors, and the layers with weights."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.export import freezing

tf1 = tf.compat.v1

CONVOLUTIONS = ('Conv2D', 'DepthwiseConv2dNative')
_PRODUCTS = (*CONVOLUTIONS, 'MatMul')
_BATCH_NORMS = ('FusedBatchNorm', 'FusedBatchNormV2', 'FusedBatchNormV3')
_ADDITIONS = ('BiasAdd', 'Add', 'AddV2')
PASSED = ('Identity', 'StopGradient', 'CheckNumerics')
SWISH = 'Swish'  # x * sigmoid(x), which has no type of node
# Activations in a config, by the type of node.
ACTIVATIONS = {'Relu6': 'RELU_6', 'Relu': 'RELU', SWISH: 'SWISH'}
# From a layer to the product of its swish.
_BEFORE_SWISH = ('Mul', 'Sigmoid', 'IdentityN', *PASSED)
# Between a depthwise convolution with a rate and what follows it.
_RESHAPING = ('BatchToSpaceND', 'Squeeze', 'Reshape')
_READ = re.compile(r'/read(/.*)?$')  # of the nodes that read variables of TensorFlow 1


@dataclasses.dataclass(frozen=True)
class Layer:
    """Linear operation of a graph, with what follows it.

    Attributes:
        name: name of its node.
        op: `Conv2D`, `DepthwiseConv2dNative` or `MatMul`.
        weights: filter or matrix.
        weights_name: name of the constant.
        bias: added constant; None: there is none.
        has_batch_norm: True: a batch norm follows, with its own constants.
        epsilon: epsilon of the batch norm.
        activation: op type after that, such as `Relu6`, or `SWISH`.
        is_scaled: True: the weights hold a factor that the graph applies after them.
    """

    name: str
    op: str
    weights: np.ndarray
    weights_name: str
    bias: Optional[np.ndarray] = None
    has_batch_norm: bool = False
    epsilon: Optional[float] = None
    activation: str = ''
    is_scaled: bool = False


class Graph:
    """Nodes of a graph by name; nodes of functions are named `<function>/<node>`.

    Args:
        graph_def: the graph.

    Attributes:
        graph_def: the graph.
        nodes: by name, in the order of the graph.
    """

    def __init__(self, graph_def: tf1.GraphDef):
        self.graph_def = graph_def
        self.nodes: Dict[str, tf1.NodeDef] = {node.name: node for node in graph_def.node}
        self._scopes = dict.fromkeys(self.nodes, '')
        for function in graph_def.library.function:
            scope = f'{function.signature.name}/'
            for node in function.node_def:
                self.nodes[scope + node.name] = node
                self._scopes[scope + node.name] = scope
        self._consumers: Dict[str, List[str]] = collections.defaultdict(list)
        # Nodes of functions by the function; a node that calls it depends on them.
        self._bodies: Dict[str, List[str]] = collections.defaultdict(list)
        for name, scope in self._scopes.items():
            if scope:
                self._bodies[scope[:-1]].append(name)
        for name in self.nodes:
            for source in self.inputs(name):
                self._consumers[source].append(name)

    def inputs(self, name: str) -> List[str]:
        """Return the names of the nodes that a node takes its data from."""
        scope = self._scopes[name]
        return [
            scope + tensor.partition(':')[0]
            for tensor in self.nodes[name].input
            if not tensor.startswith('^')
        ]

    def input_tensor(self, name: str) -> str:
        """Return the tensor that a layer takes."""
        return f'{self.source(self.inputs(name)[0])}:0'

    def consumers(self, name: str, index: Optional[int] = None) -> List[str]:
        """Return the names of the nodes that use a node, or one of its outputs."""
        names = self._consumers.get(name, [])
        if index is None:
            return names
        tensors = {f'{name}:{index}'} | ({name} if index == 0 else set())
        return [user for user in names if tensors & set(self.nodes[user].input)]

    def find_ops(self, *ops: str) -> List[str]:
        """Return the names of the nodes of some types."""
        return [name for name, node in self.nodes.items() if node.op in ops]

    def source(self, name: str) -> str:
        """Return the name of the node before the identities that end in a node."""
        while self.nodes[name].op in PASSED and self.inputs(name)[0] in self.nodes:
            name = self.inputs(name)[0]
        return name

    def constant(self, name: str) -> Optional[np.ndarray]:
        """Return the value of a node that is a constant, or an identity of one; else None."""
        if name not in self.nodes:
            return None
        node = self.nodes[self.source(name)]
        if node.op == 'Enter':
            return self.constant(self.inputs(self.source(name))[0])
        return tf.make_ndarray(node.attr['value'].tensor) if node.op == 'Const' else None

    def constants(self) -> Iterator[Tuple[str, np.ndarray]]:
        """Yield name and value of each constant of floating-point numbers."""
        kinds = (tf.float32.as_datatype_enum, tf.float16.as_datatype_enum)
        for name, node in self.nodes.items():
            if node.op == 'Const' and node.attr['dtype'].type in kinds:
                yield name, tf.make_ndarray(node.attr['value'].tensor)

    def ancestors(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the nodes that some nodes depend on, the nearest first."""
        waiting = collections.deque(names)
        seen = set(waiting)
        while waiting:
            name = waiting.popleft()
            yield name
            for source in [*self._called(name), *self.inputs(name)]:
                if source in self.nodes and source not in seen:
                    seen.add(source)
                    waiting.append(source)

    def _called(self, name: str) -> List[str]:
        """Return the nodes of the functions that a node calls."""
        functions = [each.func.name for each in self.nodes[name].attr.values()]
        return [node for function in functions for node in self._bodies.get(function, [])]

    def layers(self) -> List[Layer]:
        """Return the layers with constant weights, in the order of the graph."""
        layers = []
        for name in self.find_ops(*_PRODUCTS):
            weights_name = self.source(self.inputs(name)[1])
            weights = self.constant(weights_name)
            if weights is not None and weights.ndim >= 2:
                layers.append(self._layer(name, strip_reading(weights_name), weights))
        return layers

    def rate(self, name: str) -> Optional[int]:
        """Return the atrous rate of a convolution; None: it is not known."""
        dilations = list(self.nodes[name].attr['dilations'].list.i)
        if dilations and max(dilations) > 1:
            return int(max(dilations))
        before = self.source(self.inputs(name)[0])
        if self.nodes[before].op == 'SpaceToBatchND':
            block = self.constant(self.inputs(before)[1])
            return None if block is None else int(block.ravel()[0])
        return 1

    def activation(self, name: str) -> str:
        """Return the op type of a node, or `SWISH` where it ends one."""
        # A function with its own gradient ends with an IdentityN of its results and arguments.
        while self.nodes[name].op in (*PASSED, 'IdentityN'):
            name = self.inputs(name)[0]
        terms = [self.source(each) for each in self.inputs(name)]
        if self.nodes[name].op == 'Mul' and len(terms) == 2:
            for gate, value in (terms, terms[::-1]):
                if self.nodes[gate].op == 'Sigmoid' and self._unscaled(gate) == value:
                    return SWISH
        return self.nodes[name].op

    def _unscaled(self, name: str) -> str:
        """Return the source of a node's input, before a factor of 1."""
        source = self.source(self.inputs(name)[0])
        if self.nodes[source].op == 'Mul':
            factors = self.inputs(source)
            for factor, value in (factors, factors[::-1]):
                constant = self.constant(factor)
                if constant is not None and constant.size == 1 and constant.ravel()[0] == 1:
                    return self.source(value)
        return source

    def _following_activation(self, name: str) -> str:
        """Return the activation that begins with a node; else its op type."""
        waiting, seen = [name], {name}
        while waiting:
            each = waiting.pop()
            if self.nodes[each].op not in _BEFORE_SWISH:
                continue
            if self.nodes[each].op == 'Mul' and self.activation(each) == SWISH:
                return SWISH
            waiting += [user for user in self.consumers(each) if user not in seen]
            seen.update(self.consumers(each))
        return self.nodes[name].op

    def _layer(self, name: str, weights_name: str, weights: np.ndarray) -> Layer:
        layer = Layer(name, self.nodes[name].op, weights, weights_name)
        following = self._next(name)
        while following and self.nodes[following].op in _RESHAPING:
            following = self._next(following)
        if following and self.nodes[following].op in _BATCH_NORMS:
            epsilon = self.nodes[following].attr['epsilon'].f
            layer = dataclasses.replace(layer, has_batch_norm=True, epsilon=epsilon)
            following = self._next(following)
        elif following and self.nodes[following].op == 'Mul' and self._next(following):
            layer, following = self._scaled(layer, following)
        if following and self.nodes[following].op in _ADDITIONS and not layer.has_batch_norm:
            values = [self.constant(source) for source in self.inputs(following)]
            bias = next((value for value in values if value is not None), None)
            if bias is not None:
                layer = dataclasses.replace(layer, bias=bias)
                following = self._next(following)
                if following and self.nodes[following].op in _BATCH_NORMS:
                    epsilon = self.nodes[following].attr['epsilon'].f
                    layer = dataclasses.replace(layer, has_batch_norm=True, epsilon=epsilon)
                    following = self._next(following)
        if following:
            layer = dataclasses.replace(layer, activation=self._following_activation(following))
        return layer

    def _scaled(self, layer: Layer, product: str) -> Tuple[Layer, Optional[str]]:
        """Read a batch norm of single operations: x * factor + offset.

        The factor is gamma / sqrt(variance + epsilon), or one constant.

        Args:
            layer: the layer before it.
            product: name of the node that multiplies.

        Returns:
            The layer, and the node after the batch norm or after the factor.
        """
        for name in self.inputs(product):
            factor = self.constant(name)
            if factor is not None and factor.size == _channels(layer):
                shape = (1, 1, *layer.weights.shape[2:]) if layer.weights.ndim == 4 else (1, -1)
                if layer.op == 'Conv2D':
                    shape = (1, 1, 1, -1)
                weights = layer.weights * factor.reshape(shape)
                layer = dataclasses.replace(layer, weights=weights, is_scaled=True)
                return layer, self._next(product)
            source = self.source(name)
            roots = [source, *(self.source(each) for each in self.inputs(source))]
            root = next((each for each in roots if self.nodes[each].op == 'Rsqrt'), None)
            if root is None:
                continue
            total = self.source(self.inputs(root)[0])
            values = [self.constant(each) for each in reversed(self.inputs(total))]
            epsilon = next((float(v) for v in values if v is not None and v.size == 1), None)
            layer = dataclasses.replace(layer, has_batch_norm=True, epsilon=epsilon)
            addition = self._next(product)
            return layer, self._next(addition) if addition else None
        return layer, product

    def _next(self, name: str) -> Optional[str]:
        """Return the first consumer of a node that is no identity."""
        while self.consumers(name):
            name = self.consumers(name)[0]
            if self.nodes[name].op not in PASSED:
                return name
        return None


def _channels(layer: Layer) -> int:
    """Return the number of outputs of a layer."""
    count = layer.weights.shape[-1]
    return count * layer.weights.shape[2] if layer.op == 'DepthwiseConv2dNative' else count


def strip_reading(name: str) -> str:
    """Return the name of the variable that a constant was, without the node that read it."""
    return _READ.sub('', name)


def first_layer_input(graph: Graph, input_name: str) -> Optional[str]:
    """Return the tensor of images that the first convolution of a network takes.

    Args:
        graph: the graph.
        input_name: of the placeholder.
    """
    for name in graph.find_ops(*CONVOLUTIONS):
        if graph.constant(graph.source(graph.inputs(name)[1])) is None:
            continue
        if input_name not in set(graph.ancestors([name])):
            continue
        source = graph.source(graph.inputs(name)[0])
        while graph.nodes[source].op in ('Pad', 'PadV2', 'MirrorPad'):
            source = graph.source(graph.inputs(source)[0])
        return f'{source}:0'
    return None


def sort_nodes(graph_def: tf1.GraphDef) -> None:
    """Put each node of a graph behind its inputs, but for the back edges of loops.

    Nodes in such an order stay where they are.
    """
    nodes = {node.name: node for node in graph_def.node}
    inputs = {
        name: [
            source
            for source in map(freezing.node_name, node.input)
            if source in nodes and nodes[source].op != 'NextIteration'
        ]
        for name, node in nodes.items()
    }
    order: Dict[str, None] = {}
    seen = set()
    for root in nodes:
        waiting = [root]
        while waiting:
            name = waiting[-1]
            missing = [] if name in seen else [each for each in inputs[name] if each not in seen]
            seen.add(name)
            waiting += reversed(missing)
            if not missing:
                order.setdefault(waiting.pop())
    if list(order) != list(nodes):
        copy = tf1.GraphDef()
        copy.node.extend(nodes[name] for name in order)
        del graph_def.node[:]
        graph_def.node.extend(copy.node)


def strip_prefix(
    graph_def: tf1.GraphDef, prefix: str, outputs: Mapping[str, str]
) -> Tuple[tf1.GraphDef, Dict[str, str]]:
    """Return a graph and its outputs without a prefix of the names of nodes.

    A node keeps the prefix where another node has the name without it.

    Args:
        graph_def: the graph.
        prefix: with the slash at its end.
        outputs: names of tensors of the graph, by key.
    """
    taken = {node.name for node in graph_def.node}

    def stripped(tensor: str) -> str:
        control = '^' if tensor.startswith('^') else ''
        name, colon, index = tensor.removeprefix(control).partition(':')
        short = name.removeprefix(prefix)
        return tensor if short in taken else f'{control}{short}{colon}{index}'

    result = tf1.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        node.name = stripped(node.name)
        node.input[:] = [*map(stripped, node.input)]
        if '_class' in node.attr:  # names of nodes that must be placed together
            del node.attr['_class'].list.s[:]
    return result, {key: stripped(tensor) for key, tensor in outputs.items()}
