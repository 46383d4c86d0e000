"""Networks of TFLite files as graphs of TensorFlow's nodes, which are read but not run.

The converter merges layers: a convolution holds its batch norm, bias and activation. Here they are
nodes of their own again, and weights have TensorFlow's layout. Nodes of layers are named by the
scope of the layer, which is in the names of its tensors.

A node that computes a tensor of the file has the attribute `TENSORS`: the indices of its outputs.
Operations that have no counterpart here keep the name of the schema.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np
import tensorflow as tf

from vision_extras.recover.artifacts.tflite_files import LEFT_OUT, File, Operation

tf1 = tf.compat.v1

TENSORS = 'tflite_tensors'
QUANTIZED = 'QuantizedConv2D'  # type of the node of a layer with integers

_OPS = {
    'ADD': 'AddV2',
    'ARG_MAX': 'ArgMax',
    'AVERAGE_POOL_2D': 'AvgPool',
    'BATCH_TO_SPACE_ND': 'BatchToSpaceND',
    'CAST': 'Cast',
    'CONCATENATION': 'ConcatV2',
    'DEQUANTIZE': 'Dequantize',
    'DIV': 'RealDiv',
    'EXP': 'Exp',
    'FAKE_QUANT': 'FakeQuantWithMinMaxVars',
    'LOGISTIC': 'Sigmoid',
    'MAX_POOL_2D': 'MaxPool',
    'MEAN': 'Mean',
    'MIRROR_PAD': 'MirrorPad',
    'MUL': 'Mul',
    'PAD': 'Pad',
    'PADV2': 'PadV2',
    'QUANTIZE': 'Quantize',
    'RELU': 'Relu',
    'RELU6': 'Relu6',
    'RESHAPE': 'Reshape',
    'RESIZE_BILINEAR': 'ResizeBilinear',
    'RESIZE_NEAREST_NEIGHBOR': 'ResizeNearestNeighbor',
    'SLICE': 'Slice',
    'SOFTMAX': 'Softmax',
    'SPACE_TO_BATCH_ND': 'SpaceToBatchND',
    'SQUEEZE': 'Squeeze',
    'STRIDED_SLICE': 'StridedSlice',
    'SUB': 'Sub',
    'TOPK_V2': 'TopKV2',
    'TRANSPOSE': 'Transpose',
}
_LAYERS = {
    'CONV_2D': 'Conv2D',
    'DEPTHWISE_CONV_2D': 'DepthwiseConv2dNative',
    'FULLY_CONNECTED': 'MatMul',
}
# Last parts of the names of the nodes of layers, as TF-Slim names them.
_LAYER_NAMES = {'Conv2D': 'Conv2D', 'DepthwiseConv2dNative': 'depthwise', 'MatMul': 'MatMul'}
# By `ActivationFunctionType`.
_ACTIVATIONS = {1: 'Relu', 2: 'ReluN1To1', 3: 'Relu6', 4: 'Tanh', 5: 'Sign'}
_SHIFT = 3.0  # of a hard sigmoid: relu6(x + 3) / 6
# What follows the scope of a layer in the names of its operations. The converter adds a number to
# equal names.
_OPERATION = re.compile(
    r'((?i:/batch_?norm)(/feature_\d+)?/(FusedBatchNorm(V\d)?|batchnorm(/\w+)?)'
    r'|/(Relu6?|BiasAdd|MatMul|convolution|BatchToSpaceND|hard_swish)'
    r'|(/separable_conv2d(_\d+)?)?/(Conv2D|depthwise)'
    r'|/separable_conv2d)(_\d+)?\d*$'
)
# A batch norm that follows no layer is named by its own scope.
_NORM = re.compile(r'^((?!.*/(?i:batch_?norm)/).*)/FusedBatchNorm(V\d)?\d*$')
_NORM_PARTS = {'MUL': 'gamma', 'ADD': 'beta'}
_VARIABLE = re.compile(r'^(.*/(weights|depthwise_weights|pointwise_weights))(/read)?$')


class Translated(NamedTuple):
    """Graph of a file.

    Attributes:
        graph_def: the graph.
        outputs: name of the tensor of each output of the signature.
    """

    graph_def: tf1.GraphDef
    outputs: Dict[str, str]


def translate(file: File) -> Translated:
    """Translate the network of a file.

    Args:
        file: the file.
    """
    translation = _Translation(file)
    for index in file.inputs:
        translation.add_input(index)
    for operation in file.operations:
        translation.add_operation(operation)
    return Translated(
        translation.graph_def,
        {name: translation.tensor(index) for name, index in file.outputs.items()},
    )


class _Translation:
    """Nodes of a file that were translated so far."""

    def __init__(self, file: File):
        self.graph_def = tf1.GraphDef()
        self._file = file
        self._tensors: Dict[int, str] = {}  # names by index
        self._names: Set[str] = set()
        # Values of constants, also of those that the file holds as float16.
        self._values = {
            index: tensor.value
            for index, tensor in enumerate(file.tensors)
            if tensor.value is not None
        }
        self._clipped = {
            index for operation in file.operations for index in self._hard_sigmoid(operation)
        }

    def tensor(self, index: int) -> str:
        """Return the name of a tensor, with the index of the node's output."""
        name = self._reference(index)
        return name if ':' in name else f'{name}:0'

    def add_input(self, index: int) -> None:
        """Add a placeholder."""
        tensor = self._file.tensors[index]
        node = self._add(_first_name(tensor.name), 'Placeholder', [], [index])
        node.attr['dtype'].type = _type_number(tensor.dtype)

    def add_operation(self, operation: Operation) -> None:
        """Add the nodes of an operation."""
        value = self._widened(operation)
        if value is not None:
            self._values[operation.outputs[0]] = value
        elif operation.kind in _LAYERS:
            self._add_layer(operation)
        elif operation.kind == 'HARD_SWISH':
            self._add_hard_swish(operation)
        else:
            self._add_plain(operation)

    def _hard_sigmoid(self, operation: Operation) -> Sequence[int]:
        """Return the tensor relu6(x + 3) of a product with 1 / 6, if the operation is one."""
        if operation.kind != 'MUL':
            return []
        for index, other in (operation.inputs, operation.inputs[::-1]):
            factor = self._values.get(other)
            if factor is not None and factor.size == 1 and abs(factor.item() - 1 / 6) < 1e-4:
                return [index]
        return []

    def _widened(self, operation: Operation) -> Optional[np.ndarray]:
        """Return the value of a constant of float16 that an operation makes float32."""
        value = self._values.get(operation.inputs[0]) if operation.inputs else None
        if operation.kind != 'DEQUANTIZE' or value is None or value.dtype != np.float16:
            return None
        return value.astype(np.float32)

    def _add_norm(self, operation: Operation) -> None:
        """Add the constant of a batch norm before a layer, which is a product and a sum."""
        for index in operation.inputs:
            match = _NORM.match(self._file.tensors[index].name)
            if match and index in self._values and index not in self._tensors:
                name = f'{match.group(1)}/{_NORM_PARTS[operation.kind]}'
                self._add_constant(name, self._values[index].ravel(), index)

    def _add_plain(self, operation: Operation) -> None:
        tensors = self._file.tensors
        if operation.kind in _NORM_PARTS:
            self._add_norm(operation)
        name = _first_name(tensors[operation.outputs[0]].name)
        activation = _activation(operation)
        op = _OPS.get(operation.kind, operation.kind)
        inputs = [self._reference(index) for index in operation.inputs if index != LEFT_OUT]
        outputs = operation.outputs
        node = self._add(name, op, inputs, () if activation else outputs)
        if op == 'Cast':
            node.attr['SrcT'].type = _type_number(tensors[operation.inputs[0]].dtype)
        if op == operation.kind:
            _set_attributes(node, operation.options)
        if activation:
            self._add(f'{name}/{activation}', activation, [node.name], outputs)

    def _add_layer(self, operation: Operation) -> None:
        op = _LAYERS[operation.kind]
        weights = self._values.get(operation.inputs[1])
        scope = next(self._scopes(operation), '')
        scope = scope or _first_name(self._file.tensors[operation.outputs[0]].name)
        name = f'{scope}/{_LAYER_NAMES[op]}'
        source = self._reference(operation.inputs[0])
        if weights is None or weights.dtype != np.float32:
            op = op if weights is None else QUANTIZED
            self._add(name, op, [source, self._reference(operation.inputs[1])], operation.outputs)
            return
        variable = _VARIABLE.match(_first_name(self._file.tensors[operation.inputs[1]].name))
        kernel = self._add_constant(
            variable.group(1) if variable else f'{name}/kernel',
            self._transpose_weights(operation, weights),
            operation.inputs[1],
        )
        steps = [(name, op, [kernel])]
        bias = self._values.get(operation.inputs[2]) if len(operation.inputs) > 2 else None
        activation = _activation(operation)
        # The converter adds the 3 of a hard sigmoid to the bias of the layer before it.
        shifted = activation == 'Relu6' and operation.outputs[0] in self._clipped
        if bias is not None and shifted:
            bias = bias - np.float32(_SHIFT)
        if bias is not None:
            added = self._add_constant(f'{name}_bias', bias)
            steps.append((f'{scope}/BiasAdd', 'BiasAdd', [added]))
        if shifted:
            shift = self._add_constant(f'{scope}/add/y', np.float32(_SHIFT))
            steps.append((f'{scope}/add', 'AddV2', [shift]))
        if activation:
            steps.append((f'{scope}/{activation}', activation, []))
        for index, (name, op, others) in enumerate(steps):
            outputs = operation.outputs if index == len(steps) - 1 else ()
            node = self._add(name, op, [source, *others], outputs)
            if 'dilationHFactor' in operation.options and op in ('Conv2D', 'DepthwiseConv2dNative'):
                rates = [operation.options[f'dilation{side}Factor'] for side in 'HW']
                node.attr['dilations'].list.i.extend([1, *rates, 1])
            source = node.name

    def _scopes(self, operation: Operation) -> Iterator[str]:
        """Yield scopes that a layer may have, by the names of its tensors, the likeliest first."""
        # Names of weights may be of other layers too, as the converter keeps equal constants once.
        for index in (operation.outputs[0], *operation.inputs[1:]):
            name = self._file.tensors[index].name if index != LEFT_OUT else ''
            for part in name.split(';'):
                match = _OPERATION.search(part)
                if match:
                    yield part[: match.start()]
                variable = _VARIABLE.match(part)
                if variable:
                    yield variable.group(1).rpartition('/')[0]

    def _transpose_weights(self, operation: Operation, weights: np.ndarray) -> np.ndarray:
        """Transpose weights to the layout of TensorFlow."""
        if operation.kind == 'FULLY_CONNECTED':
            return weights.T  # from [outputs, inputs]
        if operation.kind == 'CONV_2D':
            return weights.transpose(1, 2, 3, 0)  # from [outputs, height, width, inputs]
        channels = self._file.tensors[operation.inputs[0]].shape[-1]
        return weights.reshape(*weights.shape[1:3], channels, -1)

    def _add_hard_swish(self, operation: Operation) -> None:
        """Add x * relu6(x + 3) / 6."""
        name = _first_name(self._file.tensors[operation.outputs[0]].name)
        source = self._reference(operation.inputs[0])
        three, sixth = (
            self._add_constant(f'{name}/{key}', np.float32(value))
            for key, value in (('three', _SHIFT), ('sixth', 1 / 6))
        )
        shifted = self._add(f'{name}/add', 'AddV2', [source, three]).name
        clipped = self._add(f'{name}/Relu6', 'Relu6', [shifted]).name
        gate = self._add(f'{name}/gate', 'Mul', [clipped, sixth]).name
        self._add(f'{name}/mul', 'Mul', [source, gate], operation.outputs)

    def _reference(self, index: int) -> str:
        """Return a tensor as nodes name their inputs; a constant is added at its first use."""
        if index not in self._tensors:
            name = _first_name(self._file.tensors[index].name)
            if index in self._values:
                self._add_constant(name, self._values[index], index)
            else:
                self._add(name, 'VariableV2', [], [index])  # as nothing computes it
        return self._tensors[index]

    def _add_constant(self, name: str, value: Any, index: Optional[int] = None) -> str:
        """Add a constant, and return its name.

        Args:
            name: of the node; another constant of that name and tensor is taken.
            value: of the constant.
            index: of the tensor of the file.
        """
        node = self._add(name, 'Const', [], [] if index is None else [index])
        node.attr['dtype'].type = _type_number(np.asarray(value).dtype)
        node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
        return node.name

    def _add(
        self, name: str, op: str, inputs: Sequence[str], outputs: Sequence[int] = ()
    ) -> tf1.NodeDef:
        """Add a node with a name of its own, which computes tensors of the file."""
        unique, count = name, 0
        while unique in self._names:
            count += 1
            unique = f'{name}_{count}'
        self._names.add(unique)
        node = self.graph_def.node.add(name=unique, op=op, input=inputs)
        node.attr[TENSORS].list.i.extend(outputs)
        for position, index in enumerate(outputs):
            self._tensors[index] = f'{unique}:{position}' if position else unique
        return node


def _activation(operation: Operation) -> str:
    return _ACTIVATIONS.get(operation.options.get('fusedActivationFunction', 0), '')


def _first_name(name: str) -> str:
    """Return the first of the names of a tensor, as the name of a node."""
    return re.sub(r':\d+$', '', name.partition(';')[0]) or 'unnamed'


def _type_number(dtype: Any) -> int:
    return tf.as_dtype(dtype).as_datatype_enum if dtype is not None else 0


def _set_attributes(node: tf1.NodeDef, options: Mapping[str, Any]) -> None:
    """Set the attributes of an operation that keeps its name."""
    for name, value in options.items():
        if isinstance(value, bool):
            node.attr[name].b = value
        elif isinstance(value, int):
            node.attr[name].i = value
        elif isinstance(value, float):
            node.attr[name].f = value
