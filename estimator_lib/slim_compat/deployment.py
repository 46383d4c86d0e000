"""The deployment API of programs in the style of TF-Slim.

A program chooses its devices (`DeploymentConfig`). Then it builds the network once for each device
(`create_clones`), and the loss and gradients of all (`optimize_clones`), or everything (`deploy`).
The sharing of variables and the processing of gradients are those of Estimators, in
`distribution.replicas` and `estimator_lib.optimization`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.distribution import replicas
from estimator_lib.optimization import gradients
from estimator_lib.optimization.optimize_loss import (
    GradientPolicy,
    apply_gradients,
    process_gradients,
)
from estimator_lib.optimization.partitioned import VARIABLE_OPS

tf1 = tf.compat.v1


class Clone(NamedTuple):
    """One copy of the network.

    Attributes:
        outputs: the result of the model function.
        scope: the name scope: '' or `clone_<i>/`.
        device: the device that computes it.
    """

    outputs: Any
    scope: str
    device: str


class DeployedModel(NamedTuple):
    """Result of `deploy`.

    Attributes:
        train_op: trains a step, and returns the total loss; None without an optimizer.
        summary_op: string scalar; None without summaries.
        total_loss: the loss of all clones, with the regularization loss.
        clones: the clones.
    """

    train_op: Optional[tf.Tensor]
    summary_op: Optional[tf.Tensor]
    total_loss: Optional[tf.Tensor]
    clones: List[Clone]


@dataclasses.dataclass(frozen=True)
class DeploymentConfig:
    """Devices and machines that train a model.

    Attributes:
        num_clones: number of copies of the network in this process.
        clone_on_cpu: True to compute all clones on the CPU, False to use one GPU for each.
        replica_id: index of this worker process.
        num_replicas: number of worker processes.
        num_ps_tasks: number of parameter servers; 0: the variables are in this process.
        worker_job_name: the name of the workers' job.
        ps_job_name: the name of the parameter servers' job.

    Raises:
        ValueError: several replicas without parameter servers; an empty name; a `replica_id` that
            is not less than `num_replicas`.
    """

    num_clones: int = 1
    clone_on_cpu: bool = False
    replica_id: int = 0
    num_replicas: int = 1
    num_ps_tasks: int = 0
    worker_job_name: str = 'worker'
    ps_job_name: str = 'ps'

    def __post_init__(self) -> None:
        if self.num_clones < 1:
            raise ValueError(f'num_clones is {self.num_clones}; expected at least 1.')
        # The conditions and the kind of error are those of `model_deploy.DeploymentConfig` of
        # TF-Slim.
        if self.num_replicas > 1 and self.num_ps_tasks < 1:
            raise ValueError(
                f'num_replicas is {self.num_replicas}, but num_ps_tasks is {self.num_ps_tasks}; '
                'replicas share their variables on at least one parameter server.'
            )
        if self.num_replicas > 1 or self.num_ps_tasks > 0:
            for field in ('worker_job_name', 'ps_job_name'):
                if not getattr(self, field):
                    raise ValueError(f'{field} is empty; expected the name of a job.')
        if self.replica_id >= self.num_replicas:
            raise ValueError(
                f'replica_id is {self.replica_id}; expected less than num_replicas, '
                f'{self.num_replicas}.'
            )

    @property
    def ps_device(self) -> str:
        """The job of the parameter servers; '' without any."""
        return f'/job:{self.ps_job_name}' if self.num_ps_tasks > 0 else ''

    @property
    def worker_device(self) -> str:
        """The job of the workers; '' where there is no cluster."""
        return f'/job:{self.worker_job_name}' if self.num_ps_tasks > 0 else ''

    def clone_device(self, clone_index: int) -> str:
        """Return the device that computes a clone."""
        self._check_clone(clone_index)
        # Absolute names, as TF-Slim's: CUDA_VISIBLE_DEVICES decides which cards these are.
        device = '/device:CPU:0' if self.clone_on_cpu else f'/device:GPU:{clone_index}'
        return self.worker_device + device

    def clone_scope(self, clone_index: int) -> str:
        """Return the name scope of a clone: '' where there is only one."""
        self._check_clone(clone_index)
        return replicas.replica_scope(clone_index, self.num_clones)

    def inputs_device(self) -> str:
        """Return the device that makes the batches."""
        return self.worker_device + replicas.HOST

    def optimizer_device(self) -> str:
        """Return the device that sums the gradients."""
        return self.worker_device + replicas.HOST

    def variables_device(self) -> replicas.Device:
        """Return the device of variables: the CPU, or the parameter servers alternatingly."""
        if not self.num_ps_tasks:
            return replicas.HOST
        placed: List[str] = []

        def choose(op: tf.Operation) -> str:
            if op.device or op.type not in VARIABLE_OPS:
                return op.device
            # One server after the other by the order of creation, as TF-Slim's `_PSDeviceChooser`.
            # A checkpoint does not depend on it.
            task = len(placed) % self.num_ps_tasks
            placed.append(op.name)
            return f'{self.ps_device}{replicas.HOST}/task:{task}'

        return choose

    def caching_device(self) -> Optional[Callable[[tf.Operation], str]]:
        """Return the device that caches variables in a step: that of the reader; None: none."""
        return (lambda op: op.device) if self.num_ps_tasks else None

    def _check_clone(self, clone_index: int) -> None:
        if clone_index >= self.num_clones:
            raise ValueError(
                f'clone_index is {clone_index}; expected less than num_clones, {self.num_clones}.'
            )


def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Optional[Sequence[Any]] = None,
    kwargs: Optional[Mapping[str, Any]] = None,
) -> List[Clone]:
    """Build a network once for each clone, on the same variables.

    Args:
        config: the devices.
        model_fn: builds the network and adds its losses to `LOSSES`; called with `args` and
            `kwargs`.
        args: positional arguments.
        kwargs: named arguments.
    """
    variables_device = config.variables_device()

    def clone(index: int, scope: str) -> Clone:
        outputs = model_fn(*(args or ()), **(kwargs or {}))
        return Clone(outputs, scope, config.clone_device(index))

    def clone_device(index: int) -> Callable[[tf.Operation], str]:
        return replicas.place(config.clone_device(index), variables_device)

    # The cache is on the variable's device, so that a value is sent to a clone only once.
    caching = (lambda op: op.inputs[0].device) if config.num_ps_tasks else None
    with tf1.variable_scope(tf1.get_variable_scope(), caching_device=caching):
        return replicas.build(config.num_clones, clone, clone_device)


def optimize_clones(
    clones: Sequence[Clone],
    optimizer: tf1.train.Optimizer,
    regularization_losses: Optional[Sequence[tf.Tensor]] = None,
    **options: Any,
) -> Tuple[Optional[tf.Tensor], List[gradients.Pair]]:
    """Build the loss of all clones, and the sum of its gradients over the clones.

    Args:
        clones: the result of `create_clones`.
        optimizer: computes the gradients.
        regularization_losses: losses to add once; None: `REGULARIZATION_LOSSES`.
        **options: arguments of the optimizer's `compute_gradients`, such as `var_list`.

    Returns:
        The total loss (the mean over the clones, and the regularization loss), and pairs of
        gradient and variable for the variables that it depends on. None and no pairs without
        losses.
    """
    loss = _total_loss(clones, regularization_losses)
    if loss is None:
        return None, []
    variables = options.pop('var_list', None) or tf1.trainable_variables()
    # Without this, the gradients of all clones are where the caller builds them: in `deploy` on the
    # CPU.
    options = {'colocate_gradients_with_ops': True, **options}
    return loss, gradients.compute(loss, variables, optimizer, **options)


def deploy(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Optional[Sequence[Any]] = None,
    kwargs: Optional[Mapping[str, Any]] = None,
    optimizer: Optional[tf1.train.Optimizer] = None,
    summarize_gradients: bool = False,
) -> DeployedModel:
    """Build the clones and, with an optimizer, the op that trains them.

    Args:
        config: the devices.
        model_fn: builds the network, as in `create_clones`.
        args: positional arguments of `model_fn`.
        kwargs: named arguments of `model_fn`.
        optimizer: computes and applies the gradients; None: only the loss is built.
        summarize_gradients: whether to add summaries of each gradient.
    """
    clones = create_clones(config, model_fn, args, kwargs)
    first = clones[0].scope
    train_op = None
    with tf1.device(config.optimizer_device()):
        if optimizer is None:
            total_loss = _total_loss(clones, None)
        else:
            global_step = tf1.train.get_or_create_global_step()
            total_loss, pairs = optimize_clones(clones, optimizer)
            update = apply_gradients(
                process_gradients(pairs, GradientPolicy(), summarize=summarize_gradients),
                global_step=global_step,
                optimizer=optimizer,
                # Moving statistics of the first clone only, as in `model_deploy.deploy`: those of
                # the others would update the same variables.
                update_ops=tf1.get_collection(tf1.GraphKeys.UPDATE_OPS, first),
            )
            if total_loss is not None:
                with tf.control_dependencies([update]):
                    # The value of a TF-Slim train op is the loss of its step.
                    train_op = tf.identity(total_loss, name='train_op')
    if total_loss is not None:
        tf1.summary.scalar('Loss/total_loss', total_loss)
    return DeployedModel(train_op, _summary_op(clones), total_loss, clones)


def _total_loss(
    clones: Sequence[Clone], regularization_losses: Optional[Sequence[tf.Tensor]]
) -> Optional[tf.Tensor]:
    if regularization_losses is None:
        regularization_losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    sums = []
    for clone in clones:
        losses = tf1.get_collection(tf1.GraphKeys.LOSSES, clone.scope or None)
        if losses:
            with tf.device(clone.device):
                # TF-Slim divides each clone's loss, so that the sum of gradients is their mean.
                sums.append(tf.add_n(losses) / len(clones))
    terms = [*sums, *regularization_losses]
    return tf.add_n(terms, name='total_loss') if terms else None


def _summary_op(clones: Sequence[Clone]) -> Optional[tf.Tensor]:
    """Merge the summaries of the first clone and those outside all clones."""
    others = tuple(clone.scope for clone in clones[1:])
    summaries = [
        summary
        for summary in tf1.get_collection(tf1.GraphKeys.SUMMARIES)
        if not (others and summary.op.name.startswith(others))
    ]
    return tf1.summary.merge(summaries, name='summary_op') if summaries else None
