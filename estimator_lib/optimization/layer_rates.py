"""Layer-wise decay of the learning rate: early layers learn more slowly than late ones.

With the decay d and n layers, layer i (from 0, the nearest to the images) learns at the rate times
`d ** ((n - 1 - i) / (n - 1))`. So d is the factor of the first layer, that of the last layer is 1,
and neighboring layers differ by one factor (Howard and Ruder 2018, "Universal Language Model
Fine-tuning for Text Classification", section 3.2, has that factor as its parameter). One number
then means the same for networks of any depth.

The graph decides about the layer of a variable: the number of convolutions and matrix products on
the longest path from it to the loss. So the heads of a detector are equally late, whatever feature
maps they read.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Set

import tensorflow as tf

from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# Their second input is the kernel.
# Layers without a product (normalization, activation, pooling) do not make a variable earlier.
_PRODUCTS = frozenset(
    {'BatchMatMul', 'BatchMatMulV2', 'Conv2D', 'Conv3D', 'DepthwiseConv2dNative', 'MatMul'}
)
# A loss depends on what is behind them, but not by a gradient.
_BARRIERS = frozenset({'PreventGradient', 'StopGradient'})
# The tensor of the learning rate in the optimizers of `tf.compat.v1.train`.
# The first is that of Adam and Adadelta, the second of all others.
_RATES = ('_lr_t', '_learning_rate_tensor')


def compute_factors(
    loss: tf.Tensor, variables: Sequence[tf.Variable], decay: float
) -> Dict[str, float]:
    """Compute the factor on the learning rate of each variable.

    Args:
        loss: the loss, a scalar.
        variables: the trained variables.
        decay: the factor of the first layer, more than 0 and at most 1.

    Returns:
        Factors by variable name, in [decay, 1].
    """
    distances = _measure_distances(loss)
    layers: Dict[str, int] = {}
    for variable in variables:
        name = partitioned.whole_name(variable)
        ops = _handles(variable)
        distance = max((distances[op] for op in ops if op in distances), default=0)
        layers[name] = max(distance, layers.get(name, 0))
    # Layers without a trained variable do not count.
    order = {distance: index for index, distance in enumerate(sorted(set(layers.values())))}
    # A network of one layer trains at the whole rate: its index is 0 too.
    last = max(len(order) - 1, 1)
    log.info(
        'learning rates: %d layers, from %.3g of the rate at the first one to all at the last one',
        len(order),
        decay if len(order) > 1 else 1.0,
    )
    return {name: decay ** (order[distance] / last) for name, distance in layers.items()}


# The factor is on the rate because Adam divides a gradient by its size: a factor on the gradient
# would have no effect there.
class LayerRates(tf1.train.Optimizer):
    """Base class of optimizers whose variables have learning rates of their own.

    Call `set_factors` before `apply_gradients`.
    """

    def set_factors(self, variables: Sequence[tf.Variable], factors: Mapping[str, float]) -> None:
        """Set the factors on the learning rate.

        Args:
            variables: the trained variables.
            factors: the result of `compute_factors`.
        """
        # A strategy updates the components of its variables.
        # Keys are references: variables are not hashable in TensorFlow 2.
        self._factors = {
            component.ref(): factors[partitioned.whole_name(variable)]
            for variable in variables
            for component in (variable, *partitioned.components(variable))
        }

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with self._scaled_rate(var):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with self._scaled_rate(var):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        with self._scaled_rate(var):
            return super()._apply_sparse_duplicate_indices(grad, var)

    # `handle` is the name that TensorFlow gives this argument; what it passes is the variable.
    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        with self._scaled_rate(handle):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)

    @contextlib.contextmanager
    def _scaled_rate(self, variable: tf.Variable) -> Iterator[None]:
        """Multiply the learning rate by the factor of a variable in the block."""
        factor = self._factors[variable.ref()]
        name = next(name for name in _RATES if getattr(self, name, None) is not None)
        rate = getattr(self, name)
        setattr(self, name, rate if factor == 1.0 else rate * factor)
        try:
            yield
        finally:
            setattr(self, name, rate)


def with_layer_rates(optimizer: type) -> type:
    """Return a subclass of an optimizer's class with the methods of `LayerRates`."""
    # LayerRates comes first, so that its methods run around those of the optimizer.
    return type(optimizer.__name__, (LayerRates, optimizer), {})


def _handles(variable: tf.Variable) -> List[tf.Operation]:
    """Return the ops of the current graph that hold a variable."""
    graph = tf1.get_default_graph()
    ops = []
    for component in partitioned.components(variable):
        handle = getattr(component, 'handle', None)
        if handle is None:
            ops.append(component.op)  # a reference variable
        else:
            captures = partitioned.is_eager(component)
            ops.append((graph.capture(handle) if captures else handle).op)
    return ops


def _measure_distances(loss: tf.Tensor) -> Dict[tf.Operation, int]:
    """Count the products on the longest path from each op to a loss.

    A product counts for what is multiplied by its kernel, not for the kernel. So kernel, bias and
    normalization of a layer have the same distance.
    """
    distances = {loss.op: 0}
    for op in _consumers_first(loss.op):
        distance = distances[op]
        for index, tensor in enumerate(op.inputs):
            step = 1 if op.type in _PRODUCTS and index == 0 else 0
            source = tensor.op
            distances[source] = max(distances.get(source, 0), distance + step)
    return distances


def _consumers_first(last: tf.Operation) -> List[tf.Operation]:
    """Return the ops from which gradients flow, each after all that consume it.

    The order of creation is another one where rewrites have changed the inputs of ops.
    """
    finished: List[tf.Operation] = []
    visited: Set[tf.Operation] = set()
    # A stack of its own: networks are deeper than Python's limit of 1,000 nested calls.
    stack = [(last, False)]
    while stack:
        op, is_done = stack.pop()
        if is_done:
            finished.append(op)
        elif op not in visited:
            visited.add(op)
            stack.append((op, True))
            if op.type not in _BARRIERS:
                stack.extend((tensor.op, False) for tensor in op.inputs)
    return finished[::-1]
