"""What happens to gradients between the loss and the optimizer: functions on lists of pairs.

A pair is (gradient, variable), as optimizers take them. A gradient is dense or, for variables that
are gathered from, `tf.IndexedSlices`.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import re
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization import partitioned, trained_variables
from estimator_lib.optimization.partitioned import variable_name, whole_name
from protos import train_pb2

log = logging.getLogger('estimator_lib')

Gradient = Union[tf.Tensor, tf.IndexedSlices]
Pair = Tuple[Gradient, tf.Variable]

# Not batch norm's beta, and not biases of other names.
_BIASES = re.compile('.*/biases')


@dataclasses.dataclass(frozen=True)
class GradientPolicy:
    """Which variables are trained, and what their gradients go through, in this order.

    Patterns are regular expressions that are found anywhere in a variable's name.

    Attributes:
        update_patterns: only variables that match one of these are trained; empty: all.
        freeze_patterns: variables that match one of these are not.
        trainable_scopes: only variables whose names begin with one of these are; empty: all.
        bias_multiplier: factor on the gradients of variables named `.../biases`.
        pattern_multipliers: (pattern, factor) on the gradients of variables that match.
        last_layer_scopes: name parts of the layers that depend on the classes.
        last_layer_multiplier: factor on the gradients of variables whose names contain one of them.
        clip_norm: the largest norm; 0: no clipping.
        clip_each: whether it bounds each gradient, in place of all together as one vector.
    """

    update_patterns: Tuple[str, ...] = ()
    freeze_patterns: Tuple[str, ...] = ()
    trainable_scopes: Tuple[str, ...] = ()
    bias_multiplier: float = 1.0
    pattern_multipliers: Tuple[Tuple[str, float], ...] = ()
    last_layer_scopes: Tuple[str, ...] = ()
    last_layer_multiplier: float = 1.0
    clip_norm: float = 0.0
    clip_each: bool = False

    @classmethod
    def from_config(
        cls,
        config: train_pb2.TrainConfig,
        last_layer_scopes: Sequence[str] = (),
        bias_multiplier: float = 1.0,
    ) -> GradientPolicy:
        """What a training config asks for.

        Args:
            config: the training config.
            last_layer_scopes: `Task.last_layer_scopes()`.
            bias_multiplier: `Task.bias_gradient_multiplier()`.

        Raises:
            errors.ConfigError: a factor or norm is out of its range.
        """
        for field in (
            'bias_grad_multiplier',
            'last_layer_gradient_multiplier',
            'gradient_clipping_by_norm',
        ):
            _require_at_least_zero(field, getattr(config, field))
        for item in config.gradient_multipliers:
            field = f'gradient_multipliers {item.variable_pattern!r}'
            _require_at_least_zero(field, item.multiplier)
        return cls(
            update_patterns=tuple(config.update_trainable_variables),
            freeze_patterns=tuple(config.freeze_variables),
            trainable_scopes=tuple(config.trainable_scopes),
            # 0, the published default, means that the model's own holds, not that biases stay.
            bias_multiplier=config.bias_grad_multiplier or bias_multiplier,
            pattern_multipliers=tuple(
                (item.variable_pattern, item.multiplier) for item in config.gradient_multipliers
            ),
            last_layer_scopes=tuple(last_layer_scopes),
            last_layer_multiplier=config.last_layer_gradient_multiplier,
            clip_norm=config.gradient_clipping_by_norm,
            clip_each=config.gradient_clipping == train_pb2.NORM_PER_VARIABLE,
        )


def compute(
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    optimizer: tf.compat.v1.train.Optimizer,
    **options: Any,
) -> List[Pair]:
    """Return gradients of a loss.

    Args:
        loss: float scalar.
        variables: by which; the backward pass is built for no others.
        optimizer: who scales the loss, in a distribution strategy.
        options: others of its `compute_gradients`.

    Returns:
        A pair for each variable that the loss depends on; a warning names the others.

    Raises:
        errors.ConfigError: the loss depends on none of them.
    """
    if not variables:
        return []
    # A resource variable's reader keeps the value that it read, so without the barriers between
    # gradients (two in five ops of a backward pass) a step still gives the same result each time.
    # Only the older kind of variable has a type that says it is a reference.
    resources = all(variable.dtype == variable.dtype.base_dtype for variable in variables)
    gate = optimizer.GATE_NONE if resources else optimizer.GATE_OP
    options = {'gate_gradients': gate, **options}
    of_loss = set(tf.compat.v1.get_default_graph().get_operations())
    pairs = optimizer.compute_gradients(loss, list(variables), **options)
    missing = [variable_name(variable) for gradient, variable in pairs if gradient is None]
    if len(missing) == len(pairs):
        raise errors.ConfigError(
            f'the loss depends on none of the {len(pairs)} trained variables (the first is '
            f'{missing[0]!r}); expected train_config.freeze_variables, update_trainable_variables '
            'and trainable_scopes to leave some that it depends on.'
        )
    if missing:
        log.warning(
            '%d of %d trained variables get no gradient from the loss, and stay as they are: %s',
            len(missing),
            len(pairs),
            errors.shortened(missing, 3),
        )
    _delay_regularization([gradient for gradient, _ in pairs])
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not resources:
        return pairs
    values = tf.nest.flatten([gradient for gradient, _ in pairs], expand_composites=True)
    backward = ancestors(values, of_loss)  # without dead ops
    return [
        (_after_readers(gradient, variable, backward), variable) for gradient, variable in pairs
    ]


def _delay_regularization(gradients: Iterable[Any]) -> None:
    """Let the gradients of L2 losses wait for those that they are added to.

    They need nothing but the weights, so that TensorFlow computes them all when a step begins, and
    holds as much memory as the weights take until the backward pass comes to them.
    """
    regularized = {
        op.inputs[0].ref()
        for op in tf.compat.v1.get_default_graph().get_operations()
        if op.type == 'L2Loss'
    }
    for gradient in gradients:
        if not isinstance(gradient, tf.Tensor) or gradient.op.type not in ('AddN', 'AddV2'):
            continue
        parts = [part.op for part in gradient.op.inputs]
        early = [
            op
            for op in parts
            if op.type == 'Mul' and any(source.ref() in regularized for source in op.inputs)
        ]
        late = [op for op in parts if op not in early]
        for op in early:
            op._add_control_inputs(late)


def ancestors(
    tensors: Iterable[tf.Tensor], without: AbstractSet[tf.Operation] = frozenset()
) -> Set[tf.Operation]:
    """Return the ops that tensors are computed by.

    Args:
        tensors: of a graph.
        without: ops that are left out, with what only they need.
    """
    found: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op not in found and op not in without:
            found.add(op)
            waiting.extend(one.op for one in op.inputs)
    return found


def _after_readers(
    gradient: Gradient, variable: tf.Variable, backward: Set[tf.Operation]
) -> Gradient:
    """Return a gradient that is there when the backward pass does not need its variable any more.

    An update of a variable that an op still holds copies it first: time, twice the memory, and a
    place in memory that no longer fits. What reads weights late are the gradients of what they were
    multiplied by, which may come after those of the weights.

    Args:
        gradient: of a variable.
        variable: a resource variable.
        backward: the ops of the backward pass.
    """
    if not isinstance(gradient, tf.Tensor):
        return gradient
    handle = variable.handle
    if partitioned.is_eager(variable):
        handle = gradient.graph.capture(handle)
    done = {gradient.op, *(one.op for one in gradient.op.inputs)}
    readers = [op for op in _readers(handle) if op in backward and op not in done]
    if not readers:
        return gradient
    with tf.control_dependencies(readers), tf.device(gradient.device):
        return tf.identity(gradient)


def _readers(handle: tf.Tensor) -> Iterator[tf.Operation]:
    """Yield the ops that share the memory of a variable's value."""
    waiting = [op.outputs[0] for op in handle.consumers() if op.type == 'ReadVariableOp']
    while waiting:
        for op in waiting.pop().consumers():
            if op.type == 'Identity':
                waiting.append(op.outputs[0])
            else:
                yield op


def multipliers(
    variables: Iterable[tf.Variable],
    *,
    bias_multiplier: float = 1.0,
    pattern_multipliers: Sequence[Tuple[str, float]] = (),
    last_layer_scopes: Sequence[str] = (),
    last_layer_multiplier: float = 1.0,
) -> Dict[str, float]:
    """Return the factor on each variable's gradient.

    A variable's factor is the product of all that apply: with 2 for biases and 10 for the last
    layers, `logits/biases` gets 20.

    Args:
        variables: the trained variables.
        bias_multiplier: for names that match `.*/biases`.
        pattern_multipliers: (regular expression, factor), for names in which it is found anywhere.
        last_layer_scopes: name parts of the last layers.
        last_layer_multiplier: for names that contain one of those.

    Returns:
        The factors other than 1, by variable name.

    Raises:
        errors.ConfigError: a pattern matches no variable, or a factor for the last layers is given
            and no name contains any of their scopes.
    """
    factors = {whole_name(variable): 1.0 for variable in variables}
    for pattern, factor in pattern_multipliers:
        matched = trained_variables.matching(pattern, factors)
        if not matched:
            raise trained_variables.matches_nothing('gradient_multipliers', pattern, factors)
        _scale(factors, matched, factor)
    if bias_multiplier != 1.0:
        biases = [name for name in factors if _BIASES.match(name)]
        if not biases:
            log.warning('bias_grad_multiplier: no trained variable is named .../biases.')
        _scale(factors, biases, bias_multiplier)
    if last_layer_multiplier != 1.0:
        last = [name for name in factors if any(scope in name for scope in last_layer_scopes)]
        if not last:
            raise errors.ConfigError(
                f'last_layer_gradient_multiplier is {last_layer_multiplier}, but no trained '
                f'variable has one of {list(last_layer_scopes)} in its name; expected 1, or a '
                'model whose last layers are trained.'
            )
        _scale(factors, last, last_layer_multiplier)
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def multiply(pairs: Iterable[Pair], factors: Mapping[str, float]) -> List[Pair]:
    """Return gradients times their factors.

    Args:
        pairs: gradients and variables.
        factors: by variable name; without one a gradient stays as it is.
    """

    def scaled(gradient: Gradient, name: str) -> Gradient:
        if name not in factors:
            return gradient
        return map_values(gradient, lambda values: values * factors[name])

    return [(scaled(gradient, whole_name(variable)), variable) for gradient, variable in pairs]


def sum_over_replicas(pairs: Sequence[Pair]) -> List[Pair]:
    """Gradients summed over the replicas of a distribution strategy, the same on each of them."""
    if not pairs:
        return []

    def reduce(strategy, pairs):
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    # Not `all_reduce`: it looks for the variables that its input depends on, and fails to find
    # those of the second replica.
    summed = tf.distribute.get_replica_context().merge_call(reduce, args=(list(pairs),))
    return [(gradient, variable) for gradient, (_, variable) in zip(summed, pairs)]


def clip_by_global_norm(
    pairs: Sequence[Pair], bound: float, norm: Optional[tf.Tensor] = None
) -> List[Pair]:
    """Return gradients of which all together, as one vector, have at most the given norm.

    Args:
        pairs: gradients and variables.
        bound: the largest norm, more than 0.
        norm: their norm, where it is known already.
    """
    if not pairs:
        return []
    gradients, variables = zip(*pairs)
    clipped, _ = tf.clip_by_global_norm(gradients, bound, use_norm=norm)
    return list(zip(clipped, variables))


def clip_each(pairs: Iterable[Pair], bound: float) -> List[Pair]:
    """Return gradients of which each has at most the given norm, more than 0."""
    return [
        (map_values(gradient, lambda values: tf.clip_by_norm(values, bound)), variable)
        for gradient, variable in pairs
    ]


def global_norm(pairs: Iterable[Pair]) -> tf.Tensor:
    """Return the norm of all gradients as one vector: a float32 scalar."""
    return tf.linalg.global_norm([gradient for gradient, _ in pairs])


def _require_at_least_zero(field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise errors.ConfigError(
            f'train_config.{field} is {value}; expected a finite number of at least 0.'
        )


def _scale(factors: Dict[str, float], names: Iterable[str], factor: float) -> None:
    for name in names:
        factors[name] *= factor


def map_values(gradient: Gradient, function: Callable[[tf.Tensor], tf.Tensor]) -> Gradient:
    """The gradient with a function of its values, dense or of gathered rows, in their place."""
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return function(gradient)
