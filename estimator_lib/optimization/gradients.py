"""The processing of gradients between the loss and the optimizer.

The functions take and return lists of (gradient, variable) pairs, as optimizers take them. A
gradient is dense or, for variables from which rows are gathered, `tf.IndexedSlices`.
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

# Batch norm's beta and biases of other names do not match.
# The pattern of `bias_grad_multiplier` in trainer.py of the Object Detection API. It has a slash: a
# variable that is named `biases` alone does not match.
_BIASES = re.compile('.*/biases')


@dataclasses.dataclass(frozen=True)
class GradientPolicy:
    """Selection of the trained variables, and processing of their gradients, in this order.

    Patterns are regular expressions that may match anywhere in a variable's name.

    Attributes:
        update_patterns: only variables that match one of these are trained; empty: all.
        freeze_patterns: variables that match one of these are not trained.
        trainable_scopes: only variables whose names begin with one of these are trained; empty:
            all.
        bias_multiplier: factor on the gradients of variables named `.../biases`.
        pattern_multipliers: (pattern, factor) on the gradients of variables that match.
        last_layer_scopes: name parts of the layers that depend on the classes.
        last_layer_multiplier: factor on the gradients of variables whose names contain one of them.
        clip_norm: the largest norm; 0: no clipping.
        clip_each: whether the norm bounds each gradient, instead of all of them as one vector.
        layer_decay: factor on the learning rate of the first layer, see `layer_rates`; 1: one rate.
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
    layer_decay: float = 1.0

    @classmethod
    def from_config(
        cls,
        config: train_pb2.TrainConfig,
        last_layer_scopes: Sequence[str] = (),
        bias_multiplier: float = 1.0,
    ) -> GradientPolicy:
        """Create the policy that a training config asks for.

        Args:
            config: the training config.
            last_layer_scopes: `CheckpointMapping.last_layer_scopes`.
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
            # 0, the published default, stands for the model's own factor.
            bias_multiplier=config.bias_grad_multiplier or bias_multiplier,
            pattern_multipliers=tuple(
                (item.variable_pattern, item.multiplier) for item in config.gradient_multipliers
            ),
            last_layer_scopes=tuple(last_layer_scopes),
            last_layer_multiplier=config.last_layer_gradient_multiplier,
            clip_norm=config.gradient_clipping_by_norm,
            clip_each=config.gradient_clipping == train_pb2.NORM_PER_VARIABLE,
            layer_decay=config.optimizer.layer_decay,
        )


def compute(
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    optimizer: tf.compat.v1.train.Optimizer,
    **options: Any,
) -> List[Pair]:
    """Compute the gradients of a loss.

    Args:
        loss: float scalar.
        variables: variables to differentiate by; the backward pass is built for no others.
        optimizer: computes the gradients; under a distribution strategy it scales the loss.
        **options: further arguments of the optimizer's `compute_gradients`.

    Returns:
        A pair for each variable that the loss depends on; a warning names the others.

    Raises:
        errors.ConfigError: the loss depends on none of the variables.
    """
    if not variables:
        return []
    # The barriers of GATE_OP are two in five ops of a backward pass. Resource variables do not need
    # them: a reader keeps the value that it read, so steps are reproducible. Only the older
    # reference variables, which need them, have a reference type.
    resources = all(variable.dtype == variable.dtype.base_dtype for variable in variables)
    gate = optimizer.GATE_NONE if resources else optimizer.GATE_OP
    # The caller's value wins: TF-Slim's `create_train_op` has this argument too.
    options = {'gate_gradients': gate, **options}
    # Taken before the gradients exist: what is not in it is the backward pass.
    forward = set(tf.compat.v1.get_default_graph().get_operations())
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
            '%d of %d trained variables get no gradient from the loss, and do not change: %s',
            len(missing),
            len(pairs),
            errors.shortened(missing, 3),
        )
    _delay_regularization([gradient for gradient, _ in pairs])
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not resources:
        return pairs
    values = tf.nest.flatten([gradient for gradient, _ in pairs], expand_composites=True)
    backward = ancestors(values, forward)  # contains no dead ops
    return [
        (_wait_for_readers(gradient, variable, backward), variable) for gradient, variable in pairs
    ]


def _delay_regularization(gradients: Iterable[Any]) -> None:
    """Make the gradients of L2 losses wait for the gradients that they are added to.

    They depend on the weights only. So TensorFlow would compute them all at the beginning of a
    step, and keep them, as large as the weights, until the backward pass reaches them.
    """
    regularized = {
        op.inputs[0].ref()
        for op in tf.compat.v1.get_default_graph().get_operations()
        # The gradient of this op is `Mul(weights, gradient of the loss)`.
        if op.type == 'L2Loss'
    }
    for gradient in gradients:
        # Where a variable gets several gradients, TensorFlow adds them by one of these ops.
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
            # Private, but the ops exist already: `tf.control_dependencies` works on new ones only.
            op._add_control_inputs(late)


def ancestors(
    tensors: Iterable[tf.Tensor], without: AbstractSet[tf.Operation] = frozenset()
) -> Set[tf.Operation]:
    """Return the ops that compute tensors, directly and indirectly.

    Args:
        tensors: tensors of a graph.
        without: ops to leave out, with the ops that only they need.
    """
    visited: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op not in visited and op not in without:
            visited.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return visited


def _wait_for_readers(
    gradient: Gradient, variable: tf.Variable, backward: Set[tf.Operation]
) -> Gradient:
    """Make a gradient wait until the backward pass does not need its variable any more.

    The update of a variable copies it first if another op still holds its value. That costs time
    and memory, and moves the variable. Late readers of weights are the gradients of the weights'
    inputs, which may come after the gradients of the weights.

    Args:
        gradient: the gradient of a variable.
        variable: a resource variable.
        backward: the ops of the backward pass.
    """
    if not isinstance(gradient, tf.Tensor):
        return gradient
    handle = variable.handle
    if partitioned.is_eager(variable):
        # A traced function reads eager variables through its own placeholder for the handle.
        handle = gradient.graph.capture(handle)
    # The gradient waits for these anyway. To wait for itself would be a cycle.
    done = {gradient.op, *(tensor.op for tensor in gradient.op.inputs)}
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
            # These forward the buffer. Kernels of 1x1 convolutions are reshaped for their matrix
            # product.
            if op.type in ('Identity', 'Reshape'):
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
    """Compute the factor on each variable's gradient.

    A variable's factor is the product of all that apply: with 2 for biases and 10 for the last
    layers, `logits/biases` gets 20.

    Args:
        variables: the trained variables.
        bias_multiplier: factor for names that match `.*/biases`.
        pattern_multipliers: (regular expression, factor) for names that match anywhere.
        last_layer_scopes: name parts of the last layers.
        last_layer_multiplier: factor for names that contain one of `last_layer_scopes`.

    Returns:
        The factors other than 1, by variable name.

    Raises:
        errors.ConfigError: a pattern matches no variable, or `last_layer_multiplier` applies to
            none.
    """
    factors = {whole_name(variable): 1.0 for variable in variables}
    # The factors multiply as in `get_model_gradient_multipliers` of DeepLab's train_utils, where a
    # bias of a last layer gets 2 times `last_layer_gradient_multiplier`.
    for pattern, factor in pattern_multipliers:
        matched = trained_variables.match_names(pattern, factors)
        if not matched:
            raise trained_variables.no_match_error('gradient_multipliers', pattern, factors)
        _scale(factors, matched, factor)
    if bias_multiplier != 1.0:
        biases = [name for name in factors if _BIASES.match(name)]
        # No error: the factor may be the task's default, as DeepLab's 2 is, and not the user's.
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


def policy_multipliers(
    variables: Iterable[tf.Variable], policy: GradientPolicy
) -> Dict[str, float]:
    """Compute `multipliers` with the factors of a policy."""
    return multipliers(
        variables,
        bias_multiplier=policy.bias_multiplier,
        pattern_multipliers=policy.pattern_multipliers,
        last_layer_scopes=policy.last_layer_scopes,
        last_layer_multiplier=policy.last_layer_multiplier,
    )


def multiply(pairs: Iterable[Pair], factors: Mapping[str, float]) -> List[Pair]:
    """Multiply gradients by their factors.

    Args:
        pairs: gradients and variables.
        factors: factors by variable name; a gradient without a factor does not change.
    """

    def scaled(gradient: Gradient, name: str) -> Gradient:
        if name not in factors:
            return gradient
        return map_values(gradient, lambda values: values * factors[name])

    return [(scaled(gradient, whole_name(variable)), variable) for gradient, variable in pairs]


def sum_over_replicas(pairs: Sequence[Pair]) -> List[Pair]:
    """Sum gradients over the replicas of a strategy; the result is the same on each."""
    if not pairs:
        return []

    def reduce(strategy, pairs):
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    # `all_reduce` would look for the variables that its input depends on, and not find those of the
    # second replica.
    summed = tf.distribute.get_replica_context().merge_call(reduce, args=(list(pairs),))
    return [(gradient, variable) for gradient, (_, variable) in zip(summed, pairs)]


def clip_by_global_norm(
    pairs: Sequence[Pair], bound: float, norm: Optional[tf.Tensor] = None
) -> List[Pair]:
    """Clip gradients so that all together, as one vector, have at most the given norm.

    Args:
        pairs: gradients and variables.
        bound: the largest norm, more than 0.
        norm: the norm of the gradients, a float32 scalar, if it is known already.
    """
    if not pairs:
        return []
    gradients, variables = zip(*pairs)
    # This makes all gradients NaN where the norm is not finite. `FiniteUpdates`, where it is used,
    # has watched the gradients before.
    clipped, _ = tf.clip_by_global_norm(gradients, bound, use_norm=norm)
    return list(zip(clipped, variables))


def clip_each(pairs: Iterable[Pair], bound: float) -> List[Pair]:
    """Clip each gradient to the given norm, which is more than 0."""
    return [
        # Rows of one index that occur twice count apart, as in TF-Slim's `clip_gradient_norms`.
        (map_values(gradient, lambda values: tf.clip_by_norm(values, bound)), variable)
        for gradient, variable in pairs
    ]


def global_norm(pairs: Iterable[Pair]) -> tf.Tensor:
    """Compute the norm of all gradients as one vector: float32 scalar."""
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
    """Apply a function to the values of a gradient, dense or `tf.IndexedSlices`."""
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return function(gradient)
