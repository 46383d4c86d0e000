"""The graph of a training step as a function, and several of its steps as one call.

What a step does (losses, gradients, multipliers, freezing, clipping, averages, the reader's
position) is built by the code that builds it for an Estimator: `tf.compat.v1.wrap_function` traces
it into the graph of a function, with collections, seed and global step of its own, while its
variables are those of eager TensorFlow. So no rule of training is written a second time, and none
needs a session.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.distribution import strategies
from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1

# Where TensorFlow's hooks look for a tensor of the global step before they make one, which they
# cannot of an eager variable.
STEP_READS = 'global_step_read_op_cache'


def trace(
    build: Callable[[], Any], seed: int, strategy: Optional[tf.distribute.Strategy] = None
) -> Tuple[Any, Any]:
    """Build the graph of a step.

    Args:
        build: code as it would build a graph for a session; variables become eager ones.
        seed: of the graph.
        strategy: in whose scope it is built; None: in none.

    Returns:
        The function of the graph (see `tf.compat.v1.wrap_function`), and what `build` returned.
    """
    made: List[Any] = []

    def traced() -> tf.Tensor:
        graph_state.mark_step_graph()
        tf1.set_random_seed(seed)
        # Not around `wrap_function`, which adds variables to collections too, but leaves the
        # strategy without their names: counters would be saved, and weights trained twice a step.
        with strategies.scope(strategy), tf1.variable_creator_scope(_collected):
            made.append(build())
        return tf.constant(0)

    function = tf1.wrap_function(traced, signature=[])
    return function, made[0]


def _collected(next_creator: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
    """Create a variable, and add it to its collections, once.

    A strategy does so in graphs, but optimizers create their slots outside of the current one.
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
    """Return the global step of the current graph, as hooks expect it."""
    step = tf1.train.create_global_step()
    tf1.add_to_collection(STEP_READS, partitioned.components(step)[0].read_value())
    return step


class Steps:
    """So many training steps in one call.

    Args:
        function: from `trace`.
        train_op: what makes a step.
        each: tensors of the graph, wanted of each step.
        last: tensors of the graph, wanted of a call's last step only.
    """

    def __init__(
        self,
        function: Any,
        train_op: tf.Operation,
        each: Sequence[tf.Tensor],
        last: Sequence[tf.Tensor],
    ):
        self._each, self._last = list(each), list(last)
        # Only what leads to these runs: no op that hooks have added for other moments.
        self._step = function.prune([], [*self._each, train_op])
        if self._last:
            self._last_step = function.prune([], [*self._each, *self._last, train_op])
        count = tf.TensorSpec([], tf.int32)
        self._run = tf.function(self._steps, input_signature=[count], autograph=False)

    def __call__(self, count: int) -> Tuple[List[Sequence[Any]], List[Any]]:
        """Run steps.

        Args:
            count: how many, at least 1.

        Returns:
            For each tensor of `each` its values, step by step; and the values of `last`.

        Raises:
            tf.errors.OutOfRangeError: the input has ended; steps before that have been made.
        """
        stacked, last = self._run(tf.constant(count, tf.int32))
        each = [_unpacked(values, tensor) for values, tensor in zip(stacked, self._each)]
        return each, [value.numpy() for value in last]

    def _steps(self, count: tf.Tensor) -> Tuple[List[tf.Tensor], List[tf.Tensor]]:
        arrays = [_array(tensor, count) for tensor in self._each]

        def one_step(index: tf.Tensor, arrays: List[tf.TensorArray]) -> Any:
            return index + 1, self._written(arrays, index, self._step())

        # A last step like the others is one of them: its graph is compiled once.
        alike = count - 1 if self._last else count
        index, arrays = tf.while_loop(
            lambda index, arrays: index < alike,
            one_step,
            (tf.constant(0), arrays),
            parallel_iterations=1,
        )
        if not self._last:
            return [array.stack() for array in arrays], []
        values = self._last_step()
        arrays = self._written(arrays, index, values)
        behind = len(self._each)
        return [array.stack() for array in arrays], values[behind : behind + len(self._last)]

    def _written(
        self, arrays: Sequence[tf.TensorArray], index: tf.Tensor, values: Sequence[tf.Tensor]
    ) -> List[tf.TensorArray]:
        return [
            array.write(index, value if _has_one_shape(tensor) else tf.io.serialize_tensor(value))
            for array, tensor, value in zip(arrays, self._each, values)
        ]


def _has_one_shape(tensor: tf.Tensor) -> bool:
    return tensor.shape.is_fully_defined()


def _array(tensor: tf.Tensor, count: tf.Tensor) -> tf.TensorArray:
    """Of a tensor's values; of texts where each step's may have another shape."""
    if _has_one_shape(tensor):
        return tf.TensorArray(tensor.dtype, count, element_shape=tensor.shape)
    return tf.TensorArray(tf.string, count, element_shape=[])


def _unpacked(values: tf.Tensor, tensor: tf.Tensor) -> Sequence[np.ndarray]:
    if _has_one_shape(tensor):
        return values.numpy()
    return [tf.io.parse_tensor(value, tensor.dtype).numpy() for value in values]
