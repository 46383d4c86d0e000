"""Kernels of an artifact by the names that our variables have, and values of whole networks."""

from __future__ import annotations

import itertools
import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import variable_name
from vision_extras.recover.artifacts.graphs import ACTIVATIONS, Layer
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.facts import Proposal

tf1 = tf.compat.v1

# Names of the variables of a layer, by the type of its operation.
_KERNELS = {
    'Conv2D': 'weights',
    'DepthwiseConv2dNative': 'depthwise_weights',
    'MatMul': 'weights',
}
_OPERATIONS = re.compile(
    r'(/separable_conv2d(_\d+)?)?(/(Conv2D|depthwise|MatMul|convolution)(_\d+)?)?$'
)
_ENDINGS = ('/weights', '/depthwise_weights', '/pointwise_weights')
# A layer that is shared by levels of a pyramid has a batch norm for each.
_NORMS = re.compile(r'/BatchNorm(?:/feature_(\d+))?/(gamma|beta|moving_mean|moving_variance)$')
_MOMENTS = re.compile(r'/(moving_mean|moving_variance)$')


class Values(NamedTuple):
    """Values of the variables of a network.

    Attributes:
        known: by name.
        unused: variables that the artifact lacks and its outputs do not depend on.
        missing: a line for each other variable without a value.
    """

    known: Dict[str, np.ndarray]
    unused: List[tf.Variable]
    missing: List[str]


class Kernels:
    """Arrays of an artifact, by the names of variables.

    Args:
        artifact: the artifact.

    Attributes:
        arrays: by name; kernels with a folded batch norm have their layer's name.
        graph: of the artifact; None for a checkpoint.
        layers: of the graph.
        scopes: of the variables of layers, by the name of the layer.
        folded: layers with a folded batch norm, by the scope of their variables and then by the
            number of the level of a pyramid, which is 0 for a layer that is applied once.
    """

    def __init__(self, artifact: Artifact):
        self.arrays: Dict[str, np.ndarray] = dict(artifact.arrays)
        self.folded: Dict[str, Dict[int, Layer]] = {}
        self.graph = artifact.graph
        self.layers: List[Layer] = [] if artifact.graph is None else artifact.graph.layers()
        self.scopes: Dict[str, str] = {}
        scopes = {layer.name.rpartition('/')[0] for layer in self.layers}
        separable = set()  # scopes with a depthwise convolution
        for layer in self.layers:
            # A tool that folds a batch norm names the kernel by the operation.
            is_renamed = layer.weights_name == f'{layer.name}_weights'
            scope = '' if is_renamed else _own_scope(layer.weights_name)
            scope = self.scopes[layer.name] = scope or _first_scope(layer.name, scopes)
            if is_renamed:
                self.arrays.pop(layer.weights_name, None)
            kernel = _KERNELS[layer.op]
            if layer.op == 'DepthwiseConv2dNative':
                separable.add(scope)
            elif scope in separable:
                kernel = 'pointwise_weights'
            self.arrays.setdefault(f'{scope}/{kernel}', layer.weights)
            if layer.is_scaled:
                self.arrays[f'{scope}/{kernel}'] = layer.weights
            if layer.bias is not None and not layer.has_batch_norm:
                levels = self.folded.setdefault(scope, {})
                level = _level(layer.name)
                # A converter gives the depthwise part of a separable convolution a bias of zeros.
                if level not in levels or kernel == 'pointwise_weights':
                    levels[level] = layer
                if levels[min(levels)] is layer:
                    self.arrays[f'{scope}/{kernel}'] = layer.weights

        for name in [each for each in self.arrays if each.endswith(('/gamma', '/beta'))]:
            scope, _, kind = name.rpartition('/')
            self.arrays.setdefault(f'{_first_scope(scope, scopes)}/{kind}', self.arrays[name])

    def shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Return the shapes of kernels by name."""
        return {
            name: tuple(value.shape)
            for name, value in self.arrays.items()
            if value.ndim >= 2 and name.endswith(_ENDINGS)
        }

    def read_style(self, where: str, part: str, proposal: Proposal, before: str = '') -> None:
        """Set the activation and the epsilon of batch norm of layers.

        Args:
            where: path of their hyperparameters in the config.
            part: regular expression for the names of the layers.
            proposal: changed in place.
            before: the same of layers whose activation is before them, if those have none.
        """
        activation, epsilon = self.activation(part), self.epsilon(part)
        if activation is None and before:
            activation = self.activation_before(before)
        if activation is not None:
            name, evidence = ACTIVATIONS[activation], f'node type {activation}'
            proposal.set('activation', name, evidence, where)
        if epsilon is not None:
            evidence = 'attribute epsilon of batch norms'
            proposal.set('batch_norm.epsilon', epsilon, evidence, where)

    def activation(self, part: str) -> Optional[str]:
        """Return the op after the first layer with a part in its name that has an activation."""
        for layer in self.layers:
            if re.search(part, layer.name) and layer.activation in ACTIVATIONS:
                return layer.activation
        return None

    def activation_before(self, part: str) -> Optional[str]:
        """Return the activation before the first layer with a part in its name that has one."""
        for layer in self.layers:
            if self.graph is not None and re.search(part, layer.name):
                activation = self.graph.activation(self.graph.inputs(layer.name)[0])
                if activation in ACTIVATIONS:
                    return activation
        return None

    def epsilon(self, part: str) -> Optional[float]:
        """Return the epsilon of the first batch norm with a part in its layer's name."""
        for layer in self.layers:
            if re.search(part, layer.name) and layer.epsilon:
                return float(np.float32(layer.epsilon))
        return None

    def values(self, graph: tf.Graph, outputs: Sequence[tf.Tensor]) -> Values:
        """Find the values of a network's variables.

        Args:
            graph: of the network.
            outputs: of the network.
        """
        result = Values({}, [], [])
        epsilons = batch_norm_epsilons(graph)
        used = used_variables(outputs)
        with graph.as_default():
            variables = tf1.global_variables()
        for variable in variables:
            name = variable_name(variable)
            if not variable.dtype.base_dtype.is_floating:
                continue
            value = self._value(name, epsilons)
            shape = tuple(variable.shape.as_list())
            if value is not None and tuple(value.shape) == shape:
                result.known[name] = value.astype(variable.dtype.base_dtype.as_numpy_dtype)
            elif name not in used:
                result.unused.append(variable)
            elif value is None:
                result.missing.append(f'{name} {list(shape)} is missing')
            else:
                result.missing.append(f'{name} is {list(value.shape)}; expected {list(shape)}')
        return result

    def _value(self, name: str, epsilons: Mapping[str, float]) -> Optional[np.ndarray]:
        if name in self.arrays:
            return self.arrays[name]
        moment = _MOMENTS.search(name)
        if moment and f'{name[: moment.start()]}/gamma' in self.arrays:
            # A product and a sum: gamma and beta of a batch norm that changes nothing else.
            factor = self.arrays[f'{name[: moment.start()]}/gamma']
            variance = 1.0 - epsilons.get(name[: moment.start()], 1e-3)
            return np.full_like(factor, 0.0 if moment.group(1) == 'moving_mean' else variance)
        statistic = _NORMS.search(name)
        scope = name[: statistic.start()] if statistic else name.rpartition('/')[0]
        levels = self.folded.get(scope, {})
        level = min(levels, default=0)
        if statistic and statistic.group(1):
            level = int(statistic.group(1))
        if level not in levels:
            return None
        bias = levels[level].bias
        if statistic is None:
            return bias if name.endswith('/biases') else None
        # A folded batch norm adds a bias: gamma / sqrt(variance + epsilon) is 1, or what the kernel
        # of its level is to that of the first.
        variance = 1.0 - epsilons.get(scope, 1e-3)
        known = {
            'gamma': _ratios(levels[level], levels[min(levels)]),
            'beta': bias,
            'moving_mean': np.zeros_like(bias),
            'moving_variance': np.full_like(bias, variance),
        }
        return known[statistic.group(2)].reshape(bias.shape)


def batch_norm_epsilons(graph: tf.Graph) -> Dict[str, float]:
    """Return the epsilon of each batch norm of a network, by the scope of its layer."""
    epsilons = {}
    for op in graph.get_operations():
        if op.type.startswith('FusedBatchNorm'):
            mean = op.inputs[3].op
            mean = mean.inputs[0].op if mean.inputs else mean
            scope = _MOMENTS.sub('', _NORMS.sub('', mean.name))
            epsilons[scope] = op.get_attr('epsilon')
    return epsilons


class NetworkKernels(NamedTuple):
    """Kernels of a network.

    Attributes:
        shapes: by name.
        used: names of those that its outputs depend on; others are not in frozen graphs.
    """

    shapes: Dict[str, Tuple[int, ...]]
    used: Set[str]


def build_kernels(build: Callable[[], Sequence[tf.Tensor]]) -> Optional[NetworkKernels]:
    """Build a network in a graph of its own, and return its kernels.

    Args:
        build: builds the network; returns its outputs.

    Returns:
        The kernels; None: there is no network with these settings.
    """
    with tf.Graph().as_default():
        try:
            used = used_variables(build())
        except (errors.ConfigError, ValueError):  # TensorFlow's shapes do not fit
            return None
        shapes = {
            variable_name(variable): tuple(variable.shape.as_list())
            for variable in tf1.global_variables()
            if variable.shape.rank >= 2 and variable_name(variable).endswith(_ENDINGS)
        }
    return NetworkKernels(shapes, used & set(shapes))


def used_variables(outputs: Sequence[tf.Tensor]) -> Set[str]:
    """Return the names of the variables that tensors depend on."""
    waiting = [output.op for output in outputs]
    seen = set(waiting)
    while waiting:
        for tensor in waiting.pop().inputs:
            if tensor.op not in seen:
                seen.add(tensor.op)
                waiting.append(tensor.op)
    return {op.name for op in seen if op.type in ('VarHandleOp', 'VariableV2')}


def differences(found: Mapping[str, Sequence[int]], network: NetworkKernels) -> List[str]:
    """List the differences between kernels of an artifact and those of a network.

    Args:
        found: shapes of the artifact by name.
        network: the network.
    """
    expected = network.shapes
    lines = [
        f'{name} {list(expected[name])} is missing'
        for name in expected
        if name in network.used and name not in found
    ]
    lines += [
        f'{name} is {list(found[name])}; expected {list(shape)}'
        for name, shape in expected.items()
        if name in found and tuple(found[name]) != tuple(shape)
    ]
    lines += [
        f'{name} {list(shape)} is not in it'
        for name, shape in found.items()
        if name not in expected
    ]
    return lines


def _own_scope(name: str) -> str:
    """Return the scope of a constant that is named as a variable; else an empty string."""
    scope, _, last = name.rpartition('/')
    return scope if last in ('weights', 'depthwise_weights', 'pointwise_weights') else ''


def _ratios(layer: Layer, reference: Layer) -> np.ndarray:
    """Return the factors of the channels of a kernel to those of another, by least squares."""
    depthwise = layer.op == 'DepthwiseConv2dNative'  # [height, width, inputs, multiplier]
    axes = (0, 1) if depthwise else tuple(range(layer.weights.ndim - 1))
    squares = np.square(reference.weights, dtype=np.float64).sum(axes).ravel()
    products = np.multiply(layer.weights, reference.weights, dtype=np.float64).sum(axes).ravel()
    equal = (products == squares) | (squares == 0)
    return np.where(equal, 1.0, products / np.where(equal, 1.0, squares)).astype(np.float32)


def _level(name: str) -> int:
    """Return the number that the outermost scope of an operation has when it is entered again."""
    match = re.match(r'(?:\w*FeatureExtractor/)?[^/]*?_(\d+)/', name)
    return int(match.group(1)) if match else 0


def _first_scope(name: str, scopes: Set[str]) -> str:
    """Return the scope of a layer's variables from the name of its operation.

    A variable scope that is entered again has a number after its name in operations:
    `FeatureExtractor/MobilenetV1_1/fpn/smoothing_1/Conv2D`. Within itself it has its name twice:
    `MobilenetV1/MobilenetV1/Conv2d_0/Conv2D`.
    """
    scope = _OPERATIONS.sub('', name)
    parts = [part for part, _ in itertools.groupby(scope.split('/'))]
    index = int(parts[0].endswith('FeatureExtractor'))
    if len(parts) > index + 1:
        plain = re.sub(r'_\d+$', '', parts[index])
        prefix = '/'.join([*parts[:index], plain])
        if plain != parts[index] and any(each.startswith(f'{prefix}/') for each in scopes):
            parts[index] = plain
    return '/'.join(parts)
