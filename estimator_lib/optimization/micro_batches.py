"""A loop in the graph that repeats a part of it for each micro-batch of a batch.

The part is built once, of the first micro-batch, as any other graph. So everything that reads the
graph while a step is built (rewrites, layer rates, gradients) sees an ordinary network. `repeat`
then copies the part into the body of a loop, and TensorFlow prunes the original, which nothing
needs any more. The graph's size does not depend on the number of micro-batches, and a micro-batch
begins when the one before is done.

The body has what depends on the micro-batch or on random numbers. What depends on variables alone
is computed once, before the loop.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

import tensorflow as tf

tf1 = tf.compat.v1

_ASSIGNMENTS = ('AssignVariableOp', 'AssignAddVariableOp', 'AssignSubVariableOp')
_PLACEHOLDERS = ('Placeholder', 'PlaceholderWithDefault')
_PREFIX = 'micro_batch'

Output = Any  # a tensor or `tf.IndexedSlices`


class Share(NamedTuple):
    """Share of a replica in a batch.

    Attributes:
        batch: tensors, whose first dimension is a multiple of the number of micro-batches.
        first: the same tensors of the first micro-batch, which the graph reads.
    """

    batch: Sequence[tf.Tensor]
    first: Sequence[tf.Tensor]


def repeat(
    count: int, shares: Sequence[Share], index: tf.Tensor, outputs: Sequence[Output]
) -> List[Output]:
    """Compute the means of some tensors over the micro-batches of a batch.

    Args:
        count: number of micro-batches.
        shares: the batch, by replicas.
        index: the tensor that the graph reads as the number of the micro-batch, int64 scalar.
        outputs: tensors of the first micro-batch, and `tf.IndexedSlices` (gradients of rows).

    Returns:
        The means. Those of slices are slices again, of the rows of all micro-batches.
    """
    flat = tf.nest.flatten(list(outputs), expand_composites=True)
    batch = [tensor for share in shares for tensor in share.batch]
    first = [tensor for share in shares for tensor in share.first]
    part = _Part(flat, [*first, index])
    # Rows are joined, and everything else is added.
    joined = [isinstance(each, tf.IndexedSlices) for each in outputs for _ in _components(each)]

    # A copy in the body of a loop, not a network for each micro-batch: 16 networks in the graph
    # made the start of a run a minute longer.
    def body(number: tf.Tensor, sums: Sequence[Any]) -> Tuple[tf.Tensor, List[Any]]:
        own = [_take(tensor, number, count, like) for tensor, like in zip(batch, first)]
        values = part.copy([*own, tf.cast(number, index.dtype)])
        return number + 1, [
            total.write(number, value) if joins else total + value
            for total, value, joins in zip(sums, values, joined)
        ]

    with tf1.name_scope('micro_batches'), tf.control_dependencies(part.before):
        # No inferred shape: micro-batches may gather different numbers of rows.
        sums = [
            tf.TensorArray(
                tensor.dtype, count, infer_shape=False, element_shape=[None, *tensor.shape[1:]]
            )
            if joins
            else tf.zeros(tensor.shape, tensor.dtype)
            for tensor, joins in zip(flat, joined)
        ]
        _, sums = tf.while_loop(
            lambda number, sums: number < count,
            body,
            (tf.constant(0), sums),
            # More would hold the activations of several micro-batches, which is what accumulation
            # avoids.
            parallel_iterations=1,
            maximum_iterations=count,
        )
        values = [each.concat() if joins else each for each, joins in zip(sums, joined)]
        return [
            _mean(each, count)
            for each in tf.nest.pack_sequence_as(list(outputs), values, expand_composites=True)
        ]


def _components(output: Output) -> List[tf.Tensor]:
    return tf.nest.flatten(output, expand_composites=True)


def _mean(total: Output, count: int) -> Output:
    if isinstance(total, tf.IndexedSlices):
        # Rows of one index stay apart; the optimizer sums them.
        shape = total.dense_shape
        if shape is not None:  # joined as the rows are: that of the first micro-batch is all of it
            shape = shape[: total.values.shape.rank]
        return tf.IndexedSlices(total.values / count, total.indices, shape)
    return total / count


def _take(tensor: tf.Tensor, number: tf.Tensor, count: int, like: tf.Tensor) -> tf.Tensor:
    """Return a micro-batch of a tensor, with the static shape of the first one."""
    size = tf.shape(tensor)[0] // count
    taken = tensor[number * size : (number + 1) * size]
    # A slice with computed bounds has no static length. Layers were built for that of the first
    # one.
    taken.set_shape(like.shape)
    return taken


class _Part:
    """Part of a graph: the ops between inputs and outputs that a loop must repeat.

    Args:
        outputs: tensors to compute.
        inputs: tensors that are given.

    Attributes:
        before: ops outside of the part that must run before it.
    """

    def __init__(self, outputs: Sequence[tf.Tensor], inputs: Sequence[tf.Tensor]):
        self._outputs, self._inputs = outputs, inputs
        ops = _needed(outputs, {tensor.op for tensor in inputs})
        # Constants are copied too: a captured one is a placeholder in the body, whose value the
        # shape functions of ops do not see.
        kept = _varying(ops, inputs) | _constant(ops)
        graph = tf1.get_default_graph().as_graph_def()
        names = {op.name for op in kept}
        self._def = tf1.GraphDef(versions=graph.versions, library=graph.library)
        self._def.node.extend(node for node in graph.node if node.name in names)
        for node in self._def.node:
            node.attr.pop('_class', None)  # may name ops that are not here
            edges = [edge for edge in node.input if edge[0] != '^' or edge[1:] in names]
            node.input[:] = edges
        given = {tensor.ref() for tensor in inputs}
        self._captured = [
            ref.deref()
            for ref in dict.fromkeys(tensor.ref() for op in kept for tensor in op.inputs)
            if ref.deref().op not in kept and ref not in given
        ]
        self._copied = [tensor for tensor in outputs if tensor.op in kept]
        sources = {tensor.op for tensor in inputs}
        self.before = [
            op
            for op in dict.fromkeys(each for op in kept for each in op.control_inputs)
            if op not in kept and op not in sources
        ]

    def copy(self, inputs: Sequence[tf.Tensor]) -> List[tf.Tensor]:
        """Copy the part into the current graph, and return its outputs.

        Args:
            inputs: replace the inputs.
        """
        replaced = dict(zip((tensor.name for tensor in self._inputs), inputs))
        # An import takes tensors of its own graph only; the identity captures one from outside.
        replaced.update({tensor.name: tf.identity(tensor) for tensor in self._captured})
        used = {
            edge if ':' in edge else f'{edge}:0' for node in self._def.node for edge in node.input
        }
        values = tf1.import_graph_def(
            self._def,
            # An import refuses names that none of its nodes reads.
            input_map={name: value for name, value in replaced.items() if name in used},
            return_elements=[tensor.name for tensor in self._copied],
            name=_PREFIX,
        )
        copies = {tensor.ref(): value for tensor, value in zip(self._copied, values)}
        results = [copies.get(tensor.ref(), tensor) for tensor in self._outputs]
        for result, tensor in zip(results, self._outputs):
            # The accumulators of the loop have static shapes, which their sums must keep.
            result.set_shape(tensor.shape)
        return results


def _needed(outputs: Iterable[tf.Tensor], without: Set[tf.Operation]) -> Set[tf.Operation]:
    """Return the ops that compute tensors, without those that compute given ones."""
    visited: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in outputs]
    while waiting:
        op = waiting.pop()
        if op not in visited and op not in without:
            visited.add(op)
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return visited


def _varying(ops: Set[tf.Operation], inputs: Sequence[tf.Tensor]) -> Set[tf.Operation]:
    """Return the ops that depend on inputs, on random numbers, or on assignments among them."""
    followers = _followers(ops)
    roots = {op for tensor in inputs for op in tensor.consumers() if op in ops}
    # The attribute marks the stateful random ops: dropout draws again for each micro-batch.
    roots |= {op for op in ops if _is_stateful(op) and 'seed2' in op.node_def.attr}
    varying: Set[tf.Operation] = set()
    while roots:
        _spread(roots, followers, varying)
        assigned = {op.inputs[0].ref() for op in varying if op.type in _ASSIGNMENTS}
        # What is assigned in the loop must be read in it: a read outside would keep the old value.
        reads = {op for op in ops if op.type == 'ReadVariableOp' and op.inputs[0].ref() in assigned}
        roots = reads - varying
    return varying


def _constant(ops: Set[tf.Operation]) -> Set[tf.Operation]:
    """Return the ops that depend on nothing but constants."""
    varied: Set[tf.Operation] = set()
    roots = {op for op in ops if op.type in _PLACEHOLDERS or _is_stateful(op)}
    roots |= {op for op in ops if any(tensor.op not in ops for tensor in op.inputs)}
    _spread(roots, _followers(ops), varied)
    return ops - varied


def _followers(ops: Set[tf.Operation]) -> Dict[tf.Operation, List[tf.Operation]]:
    """Return the ops among some that use the outputs of each, or wait for it."""
    followers: Dict[tf.Operation, List[tf.Operation]] = {}
    for op in ops:
        for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            followers.setdefault(source, []).append(op)
    return followers


def _spread(
    roots: Iterable[tf.Operation],
    followers: Dict[tf.Operation, List[tf.Operation]],
    reached: Set[tf.Operation],
) -> None:
    """Add some ops, and all that follow them, to `reached`."""
    waiting = list(roots)
    while waiting:
        op = waiting.pop()
        if op not in reached:
            reached.add(op)
            waiting += followers.get(op, ())


def _is_stateful(op: tf.Operation) -> bool:
    return op.op_def.is_stateful
