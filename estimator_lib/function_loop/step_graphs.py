"""The graph of a training step as a function, and several steps as one call.

The code that builds a step for an Estimator builds it here too: losses, gradients, multipliers,
freezing, clipping, averages, the reader's position. `tf.compat.v1.wrap_function` traces it into the
graph of a function with its own collections, seed and global step. The variables are those of eager
TensorFlow. So no rule of training exists twice, and none needs a session.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.distribution import strategies
from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1

# Collection in which TensorFlow's hooks look for a tensor of the global step. Without it they would
# try to create one, which fails for an eager variable.
STEP_READS = 'global_step_read_op_cache'


def trace(
    build: Callable[[], Any], seed: int, strategy: Optional[tf.distribute.Strategy] = None
) -> Tuple[Any, Any]:
    """Build the graph of a step.

    Args:
        build: builds a graph as for a session; its variables become eager variables.
        seed: seed of the graph.
        strategy: strategy in whose scope the graph is built; None for none.

    Returns:
        The function of the graph, as of `tf.compat.v1.wrap_function`, and the result of `build`.
    """
    results: List[Any] = []

    def traced() -> tf.Tensor:
        # Inside `wrap_function`, whose graph has its own collections and seed.
        graph_state.mark_step_graph()
        tf1.set_random_seed(seed)
        # The creator is inside `wrap_function`, which adds variables to collections too but hides
        # the collections from the strategy. Outside, counters would be saved, and weights trained
        # twice in a step.
        with strategies.scope(strategy), tf1.variable_creator_scope(_create_variable):
            results.append(build())
        return tf.constant(0)

    function = tf1.wrap_function(traced, signature=[])
    return function, results[0]


def _create_variable(next_creator: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
    """Create a variable, and add it to its collections once.

    A strategy does the same in graphs, but optimizers create their slots outside the current graph.
    """
    names = options.pop('collections', None)
    names = [tf1.GraphKeys.GLOBAL_VARIABLES] if names is None else list(names)
    variable = next_creator(collections=[], **options)
    if variable.trainable:
        names.append(tf1.GraphKeys.TRAINABLE_VARIABLES)
    for name in dict.fromkeys(names):
        collection = tf1.get_collection_ref(name)
        if not any(other is variable for other in collection):
            collection.append(variable)
    return variable


def create_global_step() -> tf.Variable:
    """Create the global step of the current graph, with the tensor that hooks read."""
    step = tf1.train.create_global_step()
    tf1.add_to_collection(STEP_READS, partitioned.components(step)[0].read_value())
    return step


class Steps:
    """Function that runs several training steps in one call.

    Args:
        function: the function of the graph, from `trace`.
        train_op: the operation of a step.
        each: tensors of the graph to return for each step.
        last: tensors of the graph to return for the last step only.
    """

    def __init__(
        self,
        function: Any,
        train_op: tf.Operation,
        each: Sequence[tf.Tensor],
        last: Sequence[tf.Tensor],
    ):
        self._each, self._last = list(each), list(last)
        # Only ops that these need are run, not those that hooks have added for other moments.
        self._step = function.prune([], [*self._each, train_op])
        if self._last:
            self._last_step = function.prune([], [*self._each, *self._last, train_op])
        # A tensor: a Python number would trace, and compile, a function for each length of a call.
        count = tf.TensorSpec([], tf.int32)
        self._run = tf.function(self._steps, input_signature=[count], autograph=False)

    def __call__(self, count: int) -> Tuple[List[Sequence[Any]], List[Any]]:
        """Run steps.

        Args:
            count: number of steps, at least 1.

        Returns:
            For each tensor of `each` its values, step by step; and the values of `last`.

        Raises:
            tf.errors.OutOfRangeError: the input has ended; earlier steps of the call have run.
        """
        stacked, last = self._run(tf.constant(count, tf.int32))
        each = [_unpack(values, tensor) for values, tensor in zip(stacked, self._each)]
        return each, [value.numpy() for value in last]

    def _steps(self, count: tf.Tensor) -> Tuple[List[tf.Tensor], List[tf.Tensor]]:
        arrays = [_array(tensor, count) for tensor in self._each]

        def one_step(index: tf.Tensor, arrays: List[tf.TensorArray]) -> Any:
            return index + 1, self._write(arrays, index, self._step())

        # Without tensors of its own, the last step runs in the loop: one graph is compiled.
        alike = count - 1 if self._last else count
        index, arrays = tf.while_loop(
            lambda index, arrays: index < alike,
            one_step,
            (tf.constant(0), arrays),
            # Variables order the steps, not tensors that the loop carries.
            parallel_iterations=1,
        )
        if not self._last:
            return [array.stack() for array in arrays], []
        values = self._last_step()
        arrays = self._write(arrays, index, values)
        start = len(self._each)
        return [array.stack() for array in arrays], values[start : start + len(self._last)]

    def _write(
        self, arrays: Sequence[tf.TensorArray], index: tf.Tensor, values: Sequence[tf.Tensor]
    ) -> List[tf.TensorArray]:
        return [
            # The elements of one TensorArray have one shape: batches padded to their largest image
            # do not.
            array.write(index, value if _has_one_shape(tensor) else tf.io.serialize_tensor(value))
            for array, tensor, value in zip(arrays, self._each, values)
        ]


def _has_one_shape(tensor: tf.Tensor) -> bool:
    return tensor.shape.is_fully_defined()


def _array(tensor: tf.Tensor, count: tf.Tensor) -> tf.TensorArray:
    """Create an array for a tensor's values; serialized where their shapes may differ."""
    if _has_one_shape(tensor):
        return tf.TensorArray(tensor.dtype, count, element_shape=tensor.shape)
    return tf.TensorArray(tf.string, count, element_shape=[])


def _unpack(values: tf.Tensor, tensor: tf.Tensor) -> Sequence[np.ndarray]:
    if _has_one_shape(tensor):
        return values.numpy()
    return [tf.io.parse_tensor(value, tensor.dtype).numpy() for value in values]
