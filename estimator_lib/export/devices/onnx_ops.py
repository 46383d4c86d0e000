"""Conversions of ops to ONNX that replace those of tf2onnx.

Each is `(context, node, name, args)`: the graph of tf2onnx, its node, the name of it, and nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib.task_interfaces.deployable import PluginNode

_Handler = Callable[[Any, Any, str, Any], None]

# Resizes, and their modes.
_RESIZES: Mapping[str, str] = {'ResizeBilinear': 'linear', 'ResizeNearestNeighbor': 'nearest'}
# Of `Resize`: where a pixel of the result lies, and which one is the nearest to it.
# The first is what TensorFlow's ops do without an option.
_ASYMMETRIC = 'asymmetric', 'floor'
# TensorFlow rounds with `roundf` here, so a half of a place, which is positive, goes up.
_ALIGNED = 'align_corners', 'round_prefer_ceil'
# TensorFlow's nearest pixel is the floor of (x + 0.5) * scale. ONNX subtracts 0.5 from that before
# it rounds, so a half goes up.
_HALF_PIXEL = 'half_pixel', 'round_prefer_ceil'
_CROPS = 'CropAndResize'
# `RoiAlign` samples at half pixels, without a least size of boxes, from this opset on.
_CROPS_OPSET = 16


def handlers() -> Mapping[str, Tuple[_Handler, List[Any]]]:
    """Return the conversions by op, as tf2onnx takes them."""
    resizes: Dict[str, Tuple[_Handler, List[Any]]] = {name: (_resize, []) for name in _RESIZES}
    return {
        **resizes,
        _CROPS: (_crop, []),
        'SelectV2': (_select, []),
        'FloorDiv': (_divide, []),
        'FloorMod': (_divide, []),
    }


def least_opset(graph_def: Any) -> int:
    """Return the opset that the conversions need for a graph."""
    return max((_CROPS_OPSET for node in graph_def.node if node.op == _CROPS), default=0)


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a `GraphProto` and of the bodies of its loops."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField('g'):
                yield from all_nodes(attribute.g)


def separate_bodies(graph: Any, outside: str = '') -> None:
    """Give the values inside of each loop names of their own.

    The converter uses the names of the arguments of TensorFlow's functions, which are the same for
    nested loops.

    Args:
        graph: a `GraphProto`; changed in place.
        outside: prefix of its own values; empty: they keep their names.
    """
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            if attribute.HasField('g'):
                separate_bodies(attribute.g, f'{outside}{node.name}_{index}/')
    if outside:
        values = [*graph.input, *graph.initializer]
        own = {value.name for value in values}
        own.update(name for node in graph.node for name in node.output if name)
        _rename(graph, {name: f'{outside}{name}' for name in own})


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Rename values in a graph and in the bodies of its loops."""
    for value in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for sides in (node.input, node.output):
            sides[:] = [names.get(name, name) for name in sides]
        for attribute in node.attribute:
            if attribute.HasField('g'):
                _rename(attribute.g, names)


def keep_empty_batches(graph: Any) -> None:
    """Reshape without an inferred size where the converter turns [B, N, 1] into [B, 1, N].

    It writes the shape [0, 1, -1]: as in the input, 1, what remains. Of no image any size remains.
    `Flatten` tells N from the shape of the input.

    Args:
        graph: a `GraphProto`; changed in place.
    """
    from onnx import TensorProto, helper, numpy_helper

    shapes = {
        one.name: numpy_helper.to_array(one).tolist()
        for one in graph.initializer
        if one.data_type == TensorProto.INT64 and len(one.dims) == 1
    }
    nodes = []
    for node in graph.node:
        shape = shapes.get(node.input[1], []) if node.op_type == 'Reshape' else []
        if shape[:1] == [0] and sorted(shape[1:]) == [-1, *[1] * (len(shape) - 2)]:
            flat, axes = f'{node.name}/flat', f'{node.name}/axes'
            ones = np.flatnonzero(np.equal(shape, 1)).astype(np.int64)
            graph.initializer.append(numpy_helper.from_array(ones, axes))
            nodes.append(helper.make_node('Flatten', node.input[:1], [flat], name=flat, axis=1))
            nodes.append(helper.make_node('Unsqueeze', [flat, axes], node.output, name=node.name))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def name_dimensions(graph: Any) -> None:
    """Name the dimensions of the input, an image, and those of outputs that are not known."""
    names = 'batch', 'height', 'width', 'channels'
    for values, known in ((graph.input, names), (graph.output, names[:1])):
        for value in values:
            for name, side in zip(known, value.type.tensor_type.shape.dim):
                if not side.dim_value:
                    side.dim_param = name


def append_plugin(model: Any, node: PluginNode) -> None:
    """End a `ModelProto` with the node of a plugin."""
    import onnx

    (batch, *_) = model.graph.input[0].type.tensor_type.shape.dim
    first = batch.dim_value or batch.dim_param
    model.graph.node.append(
        onnx.helper.make_node(
            node.op,
            list(node.inputs),
            list(node.outputs),
            name=node.op,
            domain=node.domain,
            **node.attributes,
        )
    )
    model.opset_import.append(onnx.helper.make_opsetid(node.domain, 1))
    del model.graph.output[:]
    for name, (dtype, shape) in node.outputs.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        value = onnx.helper.make_tensor_value_info(name, kind, [first, *shape])
        model.graph.output.append(value)


def without_plugin(content: bytes, op: str) -> Tuple[bytes, Dict[str, Dict[str, Any]]]:
    """Remove the node that ends a file; its inputs are outputs then.

    Args:
        content: of the file.
        op: of the node.

    Returns:
        The content, and type and shape of the outputs of the node, by name.
    """
    import onnx

    model = onnx.load_model_from_string(content)
    (node,) = (each for each in model.graph.node if each.op_type == op)
    outputs = {}
    for value in model.graph.output:
        kind = value.type.tensor_type
        outputs[value.name] = {
            'dtype': onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name,
            'shape': [side.dim_value or side.dim_param for side in kind.shape.dim],
        }
    del model.graph.output[:]
    for name in node.input:
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        )
    model.graph.node.remove(node)
    return model.SerializeToString(), outputs


def hide_outputs(model: Any, prefix: str) -> None:
    """Make values with a prefix no outputs of a `ModelProto`; the nodes stay."""
    kept = [value for value in model.graph.output if not value.name.startswith(prefix)]
    del model.graph.output[:]
    model.graph.output.extend(kept)


def show_values(content: bytes, prefix: str) -> Tuple[bytes, Sequence[str]]:
    """Make float32 values with a prefix outputs; return the content and their names."""
    import onnx

    model = onnx.load_model_from_string(content)
    names = [name for node in model.graph.node for name in node.output if name.startswith(prefix)]
    for name in names:
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        )
    return model.SerializeToString(), names


class _Nodes:
    """Builder of nodes in place of one of TensorFlow.

    Args:
        context: the graph of tf2onnx.
        name: of the node that is replaced.
    """

    def __init__(self, context: Any, name: str):
        self._context, self._name = context, name
        self._count = 0

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return its first output."""
        return self._context.make_node(op, list(inputs), attr=attributes).output[0]

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        self._count += 1
        name = f'{self._name}/constant_{self._count}'
        return self._context.make_const(name, np.asarray(value, dtype)).output[0]

    def cast(self, value: str, kind: str) -> str:
        """Cast to a type of ONNX by its name."""
        import onnx

        return self.add('Cast', value, to=getattr(onnx.TensorProto, kind))

    def part(self, value: str, index: int, axis: int = -1) -> str:
        """Slice one element along an axis, which stays."""
        ends = [(each,) for each in (index, index + 1, axis)]
        return self.add('Slice', value, *(self.constant(each, np.int64) for each in ends))

    def shaped(self, value: str, *shape: int) -> str:
        """Reshape a value."""
        return self.add('Reshape', value, self.constant(shape, np.int64))


def _replace(context: Any, node: Any, name: str, channels_first: str) -> None:
    """Put a transposed value in the place of a node."""
    shapes, types, outputs = node.output_shapes, node.output_dtypes, node.output
    context.remove_node(name)
    context.make_node(
        'Transpose',
        [channels_first],
        attr={'perm': [0, 2, 3, 1]},
        name=name,
        outputs=outputs,
        shapes=shapes,
        dtypes=types,
    )


def _select(context: Any, node: Any, name: str, args: Any) -> None:
    """Convert a choice between two values.

    The converter's own way is to multiply each value by 0 or 1: of infinity it makes NaN.
    """
    del args
    shapes, types, inputs, outputs = node.output_shapes, node.output_dtypes, node.input, node.output
    context.remove_node(name)
    context.make_node('Where', inputs, name=name, outputs=outputs, shapes=shapes, dtypes=types)


def _divide(context: Any, node: Any, name: str, args: Any) -> None:
    """Convert a division that rounds down, or its remainder.

    The converter's own way rounds integers towards 0.
    """
    del args
    import onnx

    nodes = _Nodes(context, name)
    value, divisor = node.input
    is_float = context.get_dtype(node.output[0]) in (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
    )
    if is_float:
        result = nodes.add('Floor', nodes.add('Div', value, divisor))
        if node.type == 'FloorMod':
            result = nodes.add('Sub', value, nodes.add('Mul', result, divisor))
    else:
        # Of integers it has the sign of the divisor, as TensorFlow's FloorMod. What is left can be
        # divided exactly, so that the rounding of `Div` has no effect.
        result = nodes.add('Mod', value, divisor)
        if node.type == 'FloorDiv':
            result = nodes.add('Div', nodes.add('Sub', value, result), divisor)
    shapes, types, outputs = node.output_shapes, node.output_dtypes, node.output
    context.remove_node(name)
    context.make_node('Identity', [result], name=name, outputs=outputs, shapes=shapes, dtypes=types)


def _resize(context: Any, node: Any, name: str, args: Any) -> None:
    """Convert a resize by its result's size.

    The converter's own way is by factors, float32: 7 pixels times 13 / 7 become 12.
    """
    del args
    nodes = _Nodes(context, name)
    places, nearest = _ASYMMETRIC
    if node.get_attr_value('align_corners', False):
        places, nearest = _ALIGNED
    elif node.get_attr_value('half_pixel_centers', False):
        places, nearest = _HALF_PIXEL
    mode = _RESIZES[node.type]
    nothing = nodes.constant(np.zeros([0]))
    resized = nodes.add(
        'Resize',
        nodes.add('Transpose', node.input[0], perm=[0, 3, 1, 2]),
        nothing,
        nothing,
        _resized_shape(nodes, context, node),
        mode=mode,
        coordinate_transformation_mode=places,
        **({'nearest_mode': nearest} if mode == 'nearest' else {}),
    )
    _replace(context, node, name, resized)


def _resized_shape(nodes: _Nodes, context: Any, node: Any) -> str:
    """Return the shape of a resize's result, channels first; a constant where it is known."""
    count, _, _, channels = context.get_shape(node.input[0]) or [-1] * 4
    if node.inputs[1].is_const() and min(count, channels) > 0:
        height, width = node.inputs[1].get_tensor_value()
        return nodes.constant([count, channels, height, width], np.int64)
    shape = nodes.add('Shape', node.input[0])
    size = nodes.cast(node.input[1], 'INT64')
    return nodes.add('Concat', nodes.part(shape, 0), nodes.part(shape, 3), size, axis=0)


def _crop(context: Any, node: Any, name: str, args: Any) -> None:
    """Convert crops of boxes, `CropAndResize`, to `RoiAlign`.

    The former samples from border to border of a box, the latter in the middle of bins. With bins
    around its samples both compute the same, where a sample is inside of the image; others are 0.
    """
    del args
    method = node.get_attr_value('method', b'bilinear')
    if method != b'bilinear':
        raise ValueError(f'CropAndResize: method is {method!r}; expected bilinear')
    outside = node.get_attr_value('extrapolation_value', 0.0)
    if outside:
        raise ValueError(f'CropAndResize: extrapolation_value is {outside}; expected 0')
    nodes = _Nodes(context, name)
    images, boxes, rows, _ = node.input
    size = [int(side) for side in node.inputs[3].get_tensor_value()]
    shape = nodes.cast(nodes.add('Shape', images), 'FLOAT')
    starts, ends, masks = [], [], []
    for axis, count in enumerate(size):
        last = nodes.add('Sub', nodes.part(shape, axis + 1), nodes.constant([1.0]))
        start, end, mask = _bins(nodes, boxes, axis, count, last)
        starts.append(start)
        ends.append(end)
        masks.append(nodes.shaped(mask, *((-1, 1, count, 1) if axis == 0 else (-1, 1, 1, count))))
    sampled = nodes.add(
        'RoiAlign',
        nodes.add('Transpose', images, perm=[0, 3, 1, 2]),
        nodes.add('Concat', starts[1], starts[0], ends[1], ends[0], axis=1),
        nodes.cast(rows, 'INT64'),
        output_height=size[0],
        output_width=size[1],
        # One sample in the middle of a bin, so that the mean of its samples is that sample.
        sampling_ratio=1,
        mode='avg',
    )
    inside = nodes.cast(nodes.add('And', *masks), 'FLOAT')
    _replace(context, node, name, nodes.add('Mul', sampled, inside))


def _bins(nodes: _Nodes, boxes: str, axis: int, count: int, last: str) -> Tuple[str, str, str]:
    """Return the range of the bins around samples along an axis, and which samples are inside.

    Args:
        nodes: builder.
        boxes: [n, 4], normalized.
        axis: 0 for y, 1 for x.
        count: of samples.
        last: position of the last pixel, [1].

    Returns:
        Starts and ends [n, 1] as `RoiAlign` has them: a pixel is from its number to the next. Bool
        [n, count].
    """
    sides = [nodes.part(boxes, side) for side in (axis, axis + 2)]
    near, far = (nodes.add('Mul', side, last) for side in sides)
    # The order of the operations is that of TensorFlow: with another rounding, a sample on the
    # border of the image would be inside for one of them only.
    extent = nodes.add('Mul', nodes.add('Sub', sides[1], sides[0]), last)
    if count > 1:
        step = nodes.add('Div', extent, nodes.constant(count - 1))
        half = nodes.add('Mul', step, nodes.constant(0.5))
        ends = [nodes.add('Sub', near, half), nodes.add('Add', far, half)]
        shares = nodes.constant(np.arange(count)[np.newaxis])
        places = nodes.add('Add', near, nodes.add('Mul', step, shares))
    else:
        ends = [near, far]
        middle = nodes.add('Mul', nodes.add('Add', *sides), nodes.constant(0.5))
        places = nodes.add('Mul', middle, last)
    inside = nodes.add(
        'And',
        nodes.add('GreaterOrEqual', places, nodes.constant(0.0)),
        nodes.add('LessOrEqual', places, last),
    )
    start, end = (nodes.add('Add', each, nodes.constant(0.5)) for each in ends)
    return start, end, inside
