"""Restore of variables from the values of a checkpoint.

Variables of a graph are set by their existing initializers: the values of the checkpoint are fed
in place of the initial values. So a restore adds no operation to the graph, works in a finalized
graph, and works for every kind of variable: local, on a parameter server, mirrored. Eager variables
are assigned.
"""

from __future__ import annotations

import collections
import types
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints.checkpoint_files import explained_read, open_checkpoint
from estimator_lib.optimization import gradients, partitioned
from estimator_lib.optimization.partitioned import MOVING_AVERAGE, variable_name

tf1 = tf.compat.v1

# A remote session receives all fed values in one message, of at most 2 GiB.
MAX_FED_BYTES = 1 << 30

# A value with the variables, or the initializers, that it is for.
Setting = Tuple[np.ndarray, List[tf.Variable]]
Feeding = Tuple[np.ndarray, List[tf.Operation]]

InitFn = Callable[[tf1.train.Scaffold, tf1.Session], None]


def load_values(
    session: tf1.Session,
    prefix: str,
    restore_map: Mapping[str, tf.Variable],
    with_moving_averages: bool = False,
    max_bytes: int = MAX_FED_BYTES,
    columns: Mapping[str, Sequence[int]] = types.MappingProxyType({}),
) -> None:
    """Set variables from a checkpoint.

    Args:
        session: the session of the variables (or its replacement in `function_loop`); its graph
            may be finalized.
        prefix: the checkpoint.
        restore_map: variables by their names in it, with equal shapes; a kernel of fewer inputs
            gets zeros for the others.
        with_moving_averages: whether moving averages of these variables start from the same
            values. Otherwise they keep averages of random values.
        max_bytes: the largest number of bytes to feed at once.
        columns: by the name in the checkpoint, `ClassAxis.sources` of variables whose columns are
            rearranged; a column without a source keeps its value.
    """
    graph = session.graph if with_moving_averages else None

    def rearranged(value: np.ndarray, name: str, part: tf.Variable) -> np.ndarray:
        if name not in columns:
            return partitioned.take_slice(value, part)
        sources = np.array(columns[name])
        own = partitioned.components(part)[0]
        current = own.numpy() if partitioned.is_eager(part) else session.run(own)
        taken = partitioned.take_slice(value[..., sources], part)
        # A source of -1 has taken the last column above; this mask puts the current value in its
        # place.
        has_source = np.broadcast_to(sources >= 0, (*value.shape[:-1], len(sources)))
        return np.where(partitioned.take_slice(has_source, part), taken, current)

    settings = _settings(prefix, restore_map, graph, rearranged)
    eager = any(map(partitioned.is_eager, restore_map.values()))
    _set_targets(session, settings, eager, max_bytes)


def set_values(
    session: tf1.Session, values: Mapping[str, np.ndarray], variables: Mapping[str, tf.Variable]
) -> None:
    """Set variables to given values, as `load_values` sets them.

    Args:
        session: the session of the variables, as in `load_values`.
        values: by the names of the variables.
        variables: these and others, by name.
    """
    chosen = [(value, variables[name]) for name, value in values.items()]
    settings = ((value, list(partitioned.components(variable))) for value, variable in chosen)
    eager = any(partitioned.is_eager(variable) for _, variable in chosen)
    _set_targets(session, settings, eager, MAX_FED_BYTES)


def require_types(
    prefix: str, restore_map: Mapping[str, tf.Variable], converts: bool = False
) -> None:
    """Check that a checkpoint holds values of the types that variables have.

    Args:
        prefix: the checkpoint.
        restore_map: variables by their name in it.
        converts: whether numbers of another type are accepted.

    Raises:
        errors.CheckpointError: it does not; the message names the first such variable.
    """
    types = open_checkpoint(prefix).get_variable_to_dtype_map()
    for name, variable in restore_map.items():
        wanted = variable.dtype.base_dtype
        held = types.get(name, wanted)
        if held != wanted and not (converts and tf.string not in (held, wanted)):
            raise errors.CheckpointError(
                f'{prefix} holds {name} as {held.name}; expected {wanted.name}, the type of the '
                'variable.'
            )


def init_feed_dict(prefix: str, restore_map: Mapping[str, tf.Variable]) -> Dict[tf.Tensor, Any]:
    """Return values to feed to the current graph's init op, to set variables from a checkpoint.

    This needs no run of its own, and no random initial values are computed in vain. Moving averages
    of these variables start from the same values.

    Args:
        prefix: the checkpoint.
        restore_map: variables by their names in it, with equal shapes.

    Returns:
        Values by initial value tensor. Empty if feeding is not possible: another variable shares an
        initial value tensor, or the values are too large for one run.
    """
    graph = tf1.get_default_graph()
    if any(map(partitioned.is_eager, restore_map.values())):
        return {}
    uses = collections.Counter(
        _start(variable.initializer).ref()
        for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    )
    feed: Dict[tf.Tensor, Any] = {}
    for value, targets in _initializers(_settings(prefix, restore_map, graph, _slice)):
        own = collections.Counter(_start(target).ref() for target in targets)
        # A fed tensor has one value in the run, for all variables that start from it.
        if any(uses[start] > count for start, count in own.items()):
            return {}
        feed.update(dict.fromkeys(own, value))
    if sum(value.nbytes for value in feed.values()) > MAX_FED_BYTES:
        return {}
    return {start.deref(): value for start, value in feed.items()}


def with_warm_started_averages(
    init_fn: Optional[InitFn] = None,
) -> Optional[InitFn]:
    """Return an `init_fn` that starts averages of warm-started variables from their values.

    `tf.estimator.WarmStartSettings` replaces the initializers of variables after the `model_fn`.
    Moving averages were created with the original initializers, and would start from random values.

    Args:
        init_fn: a function to call first; None for none.

    Returns:
        `init_fn(scaffold, session)`; the argument itself if the graph has no averages.
    """
    graph = tf1.get_default_graph()
    averages = _moving_averages(graph)
    averaged = [
        (variable, _component_initializers(variable))
        for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
        if variable_name(variable) in averages and not partitioned.is_eager(variable)
    ]
    if not averaged:
        return init_fn

    @tf.autograph.experimental.do_not_convert
    def start_averages(scaffold: tf1.train.Scaffold, session: tf1.Session) -> None:
        if init_fn is not None:
            init_fn(scaffold, session)
        for variable, before in averaged:
            # The warm start sets `_initializer_op` of the variables that it restores, and of no
            # others.
            if _component_initializers(variable) != before:
                value = session.run(partitioned.components(variable)[0])
                targets = partitioned.components(averages[variable_name(variable)])
                session.run(
                    [target.initializer for target in targets],
                    {_start(target.initializer): value for target in targets},
                )

    return start_averages


def unfolded_feed_dict() -> Dict[tf.Tensor, np.ndarray]:
    """Return values to feed to the init op, so that no initial value stays in memory twice.

    Without this, TensorFlow folds everything that depends only on constants when it optimizes the
    init op's graph, and the session keeps that graph until the run ends. This concerns filled
    tensors, the initial values of optimizer slots, and random values with a constant seed. Together
    they need as much memory as the weights and all slots. And variables share this memory, so that
    their first update copies them.

    Returns:
        The fill values and seeds of initial values, by the tensors of these constants; empty if
        variables are eager.
    """
    feed: Dict[tf.Tensor, np.ndarray] = {}
    for variable in tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES):
        if partitioned.is_eager(variable):
            return {}
        feed.update(_sources(_start(variable.initializer)))
    return feed


def _sources(start: tf.Tensor) -> Dict[tf.Tensor, np.ndarray]:
    """Return the constant fill values and seeds that a tensor is computed from."""
    constants: Dict[tf.Tensor, np.ndarray] = {}
    for op in gradients.ancestors([start]):
        wanted = 'value' if op.type == 'Fill' else 'seed' if op.type.startswith('Stateless') else ''
        for argument, tensor in zip(op.op_def.input_arg, op.inputs):
            # Ops of stateless random numbers take their seed as an input. Stateful ones have it as
            # an attribute, and TensorFlow never folds them.
            is_wanted = argument.name == wanted and tensor.op.type == 'Const'
            if is_wanted and tensor.graph.is_feedable(tensor):
                # `tf.get_static_value` would make the tensor unfeedable.
                constants[tensor] = tf.make_ndarray(tensor.op.get_attr('value'))
    return constants


def _settings(
    prefix: str,
    restore_map: Mapping[str, tf.Variable],
    graph: Optional[tf.Graph],
    part_of: Callable[[np.ndarray, str, tf.Variable], np.ndarray],
) -> Iterator[Setting]:
    """Yield the values to set; with a graph, also for its moving averages."""
    averages = {} if graph is None else _moving_averages(graph)
    reader = open_checkpoint(prefix)
    require_types(prefix, restore_map, converts=True)
    for name, variable in restore_map.items():
        with explained_read(prefix):
            value = _widened(reader.get_tensor(name), variable)
        is_whole = isinstance(variable, partitioned.WholeVariable)
        for part in variable.parts if is_whole else (variable,):
            variables = [part]
            if variable_name(part) in averages:
                variables.append(averages[variable_name(part)])
            targets = [target for each in variables for target in partitioned.components(each)]
            yield part_of(value, name, part), targets


def _slice(value: np.ndarray, name: str, part: tf.Variable) -> np.ndarray:
    del name
    return partitioned.take_slice(value, part)


def _widened(value: np.ndarray, variable: tf.Variable) -> np.ndarray:
    """Return a kernel [.., .., inputs, outputs] with zeros for the inputs that it lacks."""
    shape = tuple(variable.shape.as_list())
    # `restore_report.is_widened` has checked the other sides.
    if value.shape == shape or value.ndim != 4:
        return value
    return np.pad(value, [[0, 0], [0, 0], [0, shape[2] - value.shape[2]], [0, 0]])


def _set_targets(
    session: tf1.Session, settings: Iterable[Setting], eager: bool, max_bytes: int
) -> None:
    """Set variables, up to `max_bytes` at once; eager ones without a session."""
    if eager:
        for value, targets in settings:
            for target in targets:
                target.assign(value)
        return
    for portion in _portions(_initializers(settings), max_bytes):
        initializers = [initializer for _, targets in portion for initializer in targets]
        feed = {_start(target): value for value, targets in portion for target in targets}
        session.run(initializers, feed)


def _initializers(settings: Iterable[Setting]) -> Iterator[Feeding]:
    for value, targets in settings:
        yield value, [target.initializer for target in targets]


def _portions(settings: Iterable[Feeding], max_bytes: int) -> Iterator[List[Feeding]]:
    """Yield groups of settings for one run each: of limited size, one value for each tensor."""
    portion: List[Feeding] = []
    fed, size = set(), 0
    for value, targets in settings:
        starts = {_start(target).ref() for target in targets}
        # A portion has at least one value, even one that is larger than the limit alone.
        if portion and (size + value.nbytes > max_bytes or fed & starts):
            yield portion
            portion, fed, size = [], set(), 0
        portion.append((value, targets))
        fed |= starts
        size += value.nbytes
    if portion:
        yield portion


def _component_initializers(variable: tf.Variable) -> List[tf.Operation]:
    return [component.initializer for component in partitioned.components(variable)]


def _start(initializer: tf.Operation) -> tf.Tensor:
    """Return the tensor that an initializer assigns."""
    # Input 0 of an assignment is the handle, or the reference variable.
    return initializer.inputs[1]


def _moving_averages(graph: tf.Graph) -> Dict[str, tf.Variable]:
    """Return the moving averages of a graph, by the names of their variables."""
    ending = f'/{MOVING_AVERAGE}'
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    by_name = {variable_name(variable): variable for variable in variables}
    return {
        name[: -len(ending)]: variable
        for name, variable in by_name.items()
        if name.endswith(ending)
    }
