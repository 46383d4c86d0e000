"""State of a forward pass in a TF1 graph, eagerly, or in a `tf.function`.

A TF1 graph (and that of `estimator_lib.function_loop`, built by the same code) holds the state:
variables, seed, global step, and the collections `UPDATE_OPS` and `REGULARIZATION_LOSSES`.
Elsewhere collections would never be emptied, or be empty in each trace. A `VariableStore` with a
`ForwardPass` replaces them:

    store = VariableStore(seed=3)
    with store.forward_pass(step) as one_pass:
        predictions = task.predict(features, mode)
        losses = task.losses(predictions, features, labels)
    regularization = tf.add_n(list(one_pass.regularization_losses.values()))
    one_pass.apply_updates()

Both modes draw random numbers by the same rule: from the seed, the name of the draw, the replica,
the micro-batch and the step.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib import graph_state

tf1 = tf.compat.v1

Step = Union[int, tf.Tensor, tf.Variable]

# Each replica of a distribution strategy has its own statistic, and the first one is saved. A mean
# would be a collective op in each save, and only the chief saves.
STATISTIC = {
    'synchronization': tf.VariableSynchronization.ON_READ,
    'aggregation': tf.VariableAggregation.ONLY_FIRST_REPLICA,
}

_MICRO_BATCH_STEP = 2**52  # above the hash of a name
_passes = threading.local()


class VariableStore:
    """Variables of a model outside of a TF1 graph, by their names.

    Args:
        seed: of initial values and of the random numbers of passes.
    """

    def __init__(self, seed: int = 0):
        self.seed = seed
        self._variables: Dict[str, tf.Variable] = {}

    @property
    def variables(self) -> Mapping[str, tf.Variable]:
        """All variables that passes have created, by name, in the order of their creation."""
        return dict(self._variables)

    @contextlib.contextmanager
    def forward_pass(self, step: Step) -> Iterator[ForwardPass]:
        """Make layers use this store's variables, in this thread.

        Args:
            step: the global step, an integer scalar; a tensor or a variable in a `tf.function`,
                where a Python number would be a constant.
        """
        outer = current()
        _passes.current = ForwardPass(self, step)
        try:
            yield _passes.current
        finally:
            _passes.current = outer

    def variable(
        self,
        name: str,
        shape: Sequence[int],
        initial_value: Callable[[], tf.Tensor],
        trainable: bool,
    ) -> tf.Variable:
        """Return the variable of that name; the first call creates it.

        Raises:
            ValueError: it exists with another shape.
        """
        if name not in self._variables:
            # Variables are created outside of the traced function and of all name scopes.
            with tf.init_scope(), tf1.name_scope(None):
                self._variables[name] = tf.Variable(
                    initial_value,
                    trainable=trainable,
                    name=name,
                    dtype=tf.float32,
                    shape=list(shape),
                    **({} if trainable else STATISTIC),
                )
        variable = self._variables[name]
        if variable.shape != tf.TensorShape(shape):
            raise ValueError(f'{name} has the shape {variable.shape}; expected {list(shape)}.')
        return variable


class ForwardPass:
    """One forward pass on the variables of a store.

    Attributes:
        store: the variables.
        step: the global step.
        updates: (moving statistic, its new value), as layers compute them.
        regularization_losses: scalars by the name of the weights, each once.
    """

    def __init__(self, store: VariableStore, step: Step):
        self.store = store
        self.step = step
        self.updates: List[Tuple[tf.Variable, tf.Tensor]] = []
        self.regularization_losses: Dict[str, tf.Tensor] = {}
        self.draws: List[str] = []

    def apply_updates(self) -> None:
        """Assign the moving statistics.

        A statistic with several updates changes by their sum.
        """
        by_variable: Dict[int, Tuple[tf.Variable, List[tf.Tensor]]] = {}
        for variable, value in self.updates:
            by_variable.setdefault(id(variable), (variable, []))[1].append(value)
        for variable, values in by_variable.values():
            new = values[0]
            if values[1:]:
                new = tf.add_n(values) - (len(values) - 1.0) * variable
            variable.assign(new)


def current() -> Optional[ForwardPass]:
    """Return the pass that this thread is in; None in a TF1 graph."""
    return getattr(_passes, 'current', None)


def require_graph() -> None:
    """Refuse eager layers outside of a pass, whose state would be lost or never be freed.

    Raises:
        ValueError: this is neither a TF1 graph nor the graph of the function of a training step,
            which has collections and global step as that one has.
    """
    if tf.executing_eagerly() or (tf.inside_function() and not graph_state.is_step_graph()):
        raise ValueError(
            'Layers were called eagerly or in a tf.function, outside of a forward pass; expected '
            '`with VariableStore().forward_pass(step):`, or a tf.Graph.'
        )


def global_step() -> tf.Tensor:
    """Return the step of this pass, an int64 scalar: the graph's global step in a TF1 graph.

    It is 0 in a graph without a global step, which is not trained.
    """
    one_pass = current()
    if one_pass is not None:
        return tf.cast(one_pass.step, tf.int64)
    require_graph()
    step = tf1.train.get_global_step()
    return tf.constant(0, tf.int64) if step is None else tf.cast(step, tf.int64)


def fixed_seed(name: str) -> Tuple[int, int]:
    """Return the seed of a draw that does not depend on the step: (seed, hash of the name)."""
    one_pass = current()
    seed = tf1.get_default_graph().seed or 0 if one_pass is None else one_pass.store.seed
    # Not `hash`, which differs between processes. 31 bits, as seeds may be int32.
    return int(seed), zlib.crc32(name.encode()) & 0x7FFFFFFF


def step_seed(name: str) -> tf.Tensor:
    """Return the seed of a draw that differs at each step, int64 [2].

    Replicas and micro-batches see different examples of a step, and draw different numbers.

    Args:
        name: of the draw, in the current variable scope. Further draws of one name in a pass
            differ from the first, in the order in which they are built.
    """
    scope = tf1.get_variable_scope().name
    name = _numbered(f'{scope}/{name}' if scope else name)
    replica = graph_state.index_in_step()
    seed, name_hash = fixed_seed(f'replica_{replica}/{name}' if replica else name)
    # The shift keeps seeds below 2^20 out of the bits of names.
    first = tf.constant(seed ^ (name_hash << 20), tf.int64)
    number = graph_state.micro_batch()
    if number is not None and current() is None:
        first += number * _MICRO_BATCH_STEP
    return tf.stack([first, global_step()])


def add_regularization_loss(name: str, loss: Callable[[], tf.Tensor]) -> None:
    """Add the regularization loss of the weights of that name, once a pass or graph."""
    one_pass = current()
    if one_pass is not None:
        if name not in one_pass.regularization_losses:
            one_pass.regularization_losses[name] = loss()
        return
    graph_state.add_regularization_loss(name, loss)


def add_update(variable: tf.Variable, value: tf.Tensor) -> None:
    """Add the assignment of a moving statistic: to the pass, or to the graph's `UPDATE_OPS`."""
    one_pass = current()
    if one_pass is not None:
        one_pass.updates.append((variable, value))
        return
    update = variable.assign(value, read_value=False)
    tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)


def _numbered(name: str) -> str:
    """Return the name as ops are numbered: `a/`, then `a_1/`, `a_2/`."""
    one_pass = current()
    draws = graph_state.draw_names() if one_pass is None else one_pass.draws
    count = draws.count(name)
    draws.append(name)
    return f'{name}_{count}/' if count else f'{name}/'
