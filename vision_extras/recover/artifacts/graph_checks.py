"""Bounds of a graph that comes from elsewhere, checked before anything follows its edges."""

from __future__ import annotations

import graphlib
import math
from typing import Sequence

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry  # has no public name

from estimator_lib import errors
from estimator_lib.export import freezing

tf1 = tf.compat.v1

_MOST_NODES = 1_000_000
# Bytes of a constant whose value is one number, repeated. A few bytes of a file could ask for all
# memory; the largest one in published graphs has less than a megabyte.
_MOST_REPEATED = 256 << 20
_TYPES = frozenset(types_pb2.DataType.values()) - {types_pb2.DT_INVALID}


def check(graph_def: tf1.GraphDef) -> None:
    """Check types, constants, inputs and cycles of a graph and of its functions.

    Time and memory are proportional to the size of the file.

    Raises:
        errors.UserError: one of them is not valid; the message names the node.
    """
    bodies = [function.node_def for function in graph_def.library.function]
    count = len(graph_def.node) + sum(map(len, bodies))
    if count > _MOST_NODES:
        raise errors.UserError(f'it has {count} nodes; expected at most {_MOST_NODES}')
    names = {node.name for node in graph_def.node}
    for node in graph_def.node:
        for tensor in node.input:
            source = freezing.node_name(tensor)
            if source not in names:
                raise errors.UserError(
                    f'node {node.name}: its input {source} is not there; expected a node of the '
                    'graph'
                )
    for nodes in (graph_def.node, *bodies):
        for node in nodes:
            _check_types(node)
            _check_inputs(node)
            if node.op == 'Const':
                _check_constant(node)
        _refuse_cycle(nodes)


def _check_types(node: tf1.NodeDef) -> None:
    for name, value in node.attr.items():
        kinds = [*([value.type] if value.HasField('type') else []), *value.list.type]
        unknown = [kind for kind in kinds if kind not in _TYPES]
        if unknown:
            raise errors.UserError(
                f'node {node.name}: {name} is the type {unknown[0]}, which TensorFlow '
                f'{tf.__version__} does not have'
            )


def _check_inputs(node: tf1.NodeDef) -> None:
    """Check that an operation that TensorFlow knows has the inputs that it needs."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        return
    lists = [each for each in definition.input_arg if each.number_attr or each.type_list_attr]
    least = len(definition.input_arg) - len(lists)
    count = sum(not tensor.startswith('^') for tensor in node.input)
    if count < least or (count > least and not lists):
        raise errors.UserError(
            f'node {node.name}: {node.op} has the inputs {list(node.input)}; expected {least}'
        )


def _check_constant(node: tf1.NodeDef) -> None:
    place = f'node {node.name}: the constant'
    if not node.attr['value'].HasField('tensor'):
        raise errors.UserError(f'{place} has no value')
    tensor = node.attr['value'].tensor
    if tensor.dtype not in _TYPES or tensor.dtype != node.attr['dtype'].type:
        raise errors.UserError(
            f'{place} has values of the type {tensor.dtype}; expected {node.attr["dtype"].type}'
        )
    sides = [dim.size for dim in tensor.tensor_shape.dim]
    if min(sides, default=0) < 0 or tensor.tensor_shape.unknown_rank:
        raise errors.UserError(f'{place} has the shape {sides}; expected sides from 0')
    kind = tf.as_dtype(tensor.dtype)
    if not (kind.is_floating or kind.is_integer or kind.is_bool or kind.is_complex):
        return
    size = math.prod(sides) * kind.size
    if tensor.tensor_content and len(tensor.tensor_content) != size:
        raise errors.UserError(
            f'{place} of shape {sides} has {len(tensor.tensor_content)} bytes; expected {size}'
        )
    if not tensor.tensor_content and size > _MOST_REPEATED:
        raise errors.UserError(
            f'{place} of shape {sides} repeats one value in {size} bytes; expected at most '
            f'{_MOST_REPEATED}'
        )


def _refuse_cycle(nodes: Sequence[tf1.NodeDef]) -> None:
    """Refuse a cycle that is none of a loop, which has a NextIteration."""
    inputs = {
        node.name: [] if node.op == 'NextIteration' else list(map(freezing.node_name, node.input))
        for node in nodes
    }
    try:
        graphlib.TopologicalSorter(inputs).prepare()
    except graphlib.CycleError as error:
        raise errors.UserError(f'node {error.args[1][0]}: its inputs lead back to itself') from None
