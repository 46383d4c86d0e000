"""The training-loop API of programs in the style of TF-Slim.

`create_train_op` builds the op of a step from a loss. `train` runs it until the end, with sessions
that wait for shared variables, summaries, checkpoints and traces. Gradients are processed as for
Estimators, by `estimator_lib.optimization`.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib.distribution import startup
from estimator_lib.hooks import profiling
from estimator_lib.optimization import gradients
from estimator_lib.optimization.optimize_loss import (
    GradientPolicy,
    apply_gradients,
    process_gradients,
)
from estimator_lib.optimization.partitioned import whole_name
from estimator_lib.slim_compat.supervised_run import (
    DEFAULT,
    Replicas,
    Run,
    TrainStepFn,
    supervisor_argument,
)

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# A gradient, or None, and its variable.
MaybePair = Tuple[Optional[gradients.Gradient], tf.Variable]
Factor = Union[float, tf.Tensor]


def clip_gradient_norms(pairs: Sequence[MaybePair], max_norm: float) -> List[MaybePair]:
    """Clip each gradient to the given norm.

    Args:
        pairs: gradients (dense, `tf.IndexedSlices`, or None, which stays) and variables.
        max_norm: the largest norm, more than 0.
    """
    return _change_each(pairs, lambda pair: gradients.clip_each(pair, max_norm))


def multiply_gradients(
    pairs: Sequence[MaybePair], gradient_multipliers: Mapping[Any, Factor]
) -> List[MaybePair]:
    """Multiply gradients by their factors.

    Args:
        pairs: a list of gradients and variables.
        gradient_multipliers: factors, numbers or scalar tensors, by variable or by the name of its
            op; a gradient without a factor does not change.

    Raises:
        ValueError: `pairs` is not a list or is empty, `gradient_multipliers` is not a dict or is
            empty, or there is a factor for a variable without gradient.
    """
    if not isinstance(pairs, list) or not pairs:
        raise ValueError(f'the gradients are {pairs!r}; expected a list that is not empty.')
    if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
        raise ValueError(
            f'gradient_multipliers is {gradient_multipliers!r}; expected a dict that is not empty.'
        )
    factors = {
        key if isinstance(key, str) else whole_name(key): factor
        for key, factor in gradient_multipliers.items()
    }
    # TF-Slim raises ValueError here too, in place of a factor without effect.
    for gradient, variable in pairs:
        if gradient is None and whole_name(variable) in factors:
            raise ValueError(
                f'gradient_multipliers has a factor for {whole_name(variable)!r}, of which '
                'there is no gradient.'
            )
    return _change_each(pairs, lambda pair: gradients.multiply(pair, factors))


def create_train_op(
    total_loss: tf.Tensor,
    optimizer: tf1.train.Optimizer,
    global_step: Any = DEFAULT,
    update_ops: Optional[Sequence[tf.Operation]] = None,
    variables_to_train: Optional[Sequence[tf.Variable]] = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf1.train.Optimizer.GATE_OP,
    aggregation_method: Optional[int] = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Optional[Mapping[Any, Factor]] = None,
    check_numerics: bool = True,
) -> tf.Tensor:
    """Build the op of one training step, whose value is the loss.

    Args:
        total_loss: float scalar.
        optimizer: changes the variables.
        global_step: grows by one; by default the graph's, which is created if needed; None: no step
            is counted.
        update_ops: ops to run before the variables change; None: `UPDATE_OPS`.
        variables_to_train: the variables to train; None: the trainable ones.
        clip_gradient_norm: the largest norm of each gradient; 0: no clipping.
        summarize_gradients: whether to add summaries of each gradient before clipping.
        gate_gradients: argument of the optimizer's `compute_gradients`.
        aggregation_method: argument of the optimizer's `compute_gradients`.
        colocate_gradients_with_ops: argument of the optimizer's `compute_gradients`.
        gradient_multipliers: factors as in `multiply_gradients`, applied before clipping.
        check_numerics: whether a NaN or infinite loss raises an error before any variable changes.

    Returns:
        The loss; evaluating it runs the step.

    Raises:
        ValueError: there is a factor for a variable that gets no gradient from the loss.
    """
    if global_step is DEFAULT:
        global_step = tf1.train.get_or_create_global_step()
    collected = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    update_ops = collected if update_ops is None else list(update_ops)
    # A warning and no error, as in TF-Slim: batch norm would not update its statistics.
    if not set(collected) <= set(update_ops):
        log.warning('update_ops lacks some of what is in the collection UPDATE_OPS')
    if check_numerics:
        total_loss = tf.debugging.check_numerics(total_loss, 'the loss is NaN or infinite')
        # As one of the ops before the update, the check stops a step before a variable has changed.
        update_ops = [*update_ops, total_loss.op]
    variables = list(variables_to_train or tf1.trainable_variables())
    pairs = gradients.compute(
        total_loss,
        variables,
        optimizer,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if gradient_multipliers:
        known = {variable.ref() for _, variable in pairs}
        # `compute` leaves out variables without a gradient, and `multiply_gradients` must refuse
        # theirs.
        without = [(None, variable) for variable in variables if variable.ref() not in known]
        pairs = multiply_gradients([*pairs, *without], gradient_multipliers)[: len(pairs)]
    # TF-Slim clips each gradient by itself, unlike `tf.contrib.layers.optimize_loss`.
    policy = GradientPolicy(clip_norm=clip_gradient_norm, clip_each=True)
    update = apply_gradients(
        process_gradients(pairs, policy, summarize=summarize_gradients),
        global_step=global_step,
        optimizer=optimizer,
        update_ops=update_ops,
    )
    with tf.control_dependencies([update]):
        train_op = tf.identity(total_loss, name='train_op')
    # TF-Slim adds it, and programs look for it there.
    tf1.add_to_collection(tf1.GraphKeys.TRAIN_OP, train_op)
    return train_op


def train_step(
    session: tf1.Session,
    train_op: tf.Tensor,
    global_step: tf.Variable,
    train_step_kwargs: Mapping[str, Any],
) -> Tuple[float, bool]:
    """Run a step; the default `train_step_fn` of `train`.

    Args:
        session: the session.
        train_op: the result of `create_train_op`.
        global_step: int64 scalar.
        train_step_kwargs: the optional bool scalars `should_stop` and `should_log`, evaluated after
            the step, and `should_trace`, before it; and `logdir` and `summary_writer` for traces.

    Returns:
        The loss, and whether training should stop.

    Raises:
        ValueError: there is `should_trace`, but no `logdir`.
    """
    started = time.monotonic()
    tracing = train_step_kwargs.get('should_trace')
    if tracing is not None and not train_step_kwargs.get('logdir'):
        raise ValueError(
            'train_step_kwargs has should_trace, but no logdir; expected the folder of the traces.'
        )
    options = metadata = None
    # A run of its own before the step: whether a step is traced must be known when it starts.
    if tracing is not None and session.run(tracing):
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        metadata = tf1.RunMetadata()
    loss = session.run(train_op, options=options, run_metadata=metadata)
    # A separate run: in the run of the step they could be read before or after its update.
    asked = {
        name: train_step_kwargs[name]
        for name in ('should_log', 'should_stop')
        if train_step_kwargs.get(name) is not None
    }
    answers = session.run({'step': global_step, **asked})
    if metadata is not None:
        _write_trace(train_step_kwargs, metadata, int(answers['step']))
    if answers.get('should_log'):
        seconds = time.monotonic() - started
        log.info('step %d: loss %.4g (%.3f s)', answers['step'], loss, seconds)
    return loss, bool(answers.get('should_stop', False))


def train(
    train_op: Optional[tf.Tensor],
    logdir: Optional[str],
    train_step_fn: TrainStepFn = train_step,
    train_step_kwargs: Any = DEFAULT,
    log_every_n_steps: int = 1,
    graph: Optional[tf.Graph] = None,
    master: str = '',
    is_chief: bool = True,
    global_step: Optional[tf.Variable] = None,
    number_of_steps: Optional[int] = None,
    init_op: Any = DEFAULT,
    init_feed_dict: Optional[Mapping[Any, Any]] = None,
    local_init_op: Any = DEFAULT,
    init_fn: Optional[Callable[[tf1.Session], None]] = None,
    ready_op: Any = DEFAULT,
    summary_op: Any = DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = DEFAULT,
    startup_delay_steps: int = 0,
    saver: Optional[tf1.train.Saver] = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Optional[tf1.ConfigProto] = None,
    session_wrapper: Optional[Callable[[tf1.Session], Any]] = None,
    trace_every_n_steps: Optional[int] = None,
    ignore_live_threads: bool = False,
) -> Optional[float]:
    """Train until the global step reaches `number_of_steps`, or the input ends.

    When a session is aborted because a parameter server was restarted, a new session resumes from
    the last checkpoint.

    Args:
        train_op: op to run at each step; its value is the loss.
        logdir: folder of checkpoints and summaries; None: none are written.
        train_step_fn: runs a step, as `train_step` does.
        train_step_kwargs: the options of `train_step_fn`; by default made from the arguments here.
        log_every_n_steps: log a line every n steps; 0: never.
        graph: the graph; None: the default graph.
        master: the address of the session's server.
        is_chief: whether this process initializes, saves and summarizes.
        global_step: the global step; None: that of the graph.
        number_of_steps: the global step at which training ends; None: no end.
        init_op: initializes the variables; by default to their initial values.
        init_feed_dict: the feeds of `init_op`.
        local_init_op: initializes local variables and tables.
        init_fn: called after `init_op`, where there was no checkpoint.
        ready_op: lists variables that are not initialized.
        summary_op: the summaries to write; by default all of them; None: none.
        save_summaries_secs: seconds between two summaries.
        summary_writer: the writer of summaries; by default one for `logdir`; None: none.
        startup_delay_steps: global step at which workers other than the chief begin.
        saver: the saver; None: a saver of all variables.
        save_interval_secs: seconds between two checkpoints.
        sync_optimizer: a `tf.compat.v1.train.SyncReplicasOptimizer` of synchronized replicas, or a
            list of them.
        session_config: the config of the session.
        session_wrapper: called with the session; its result is used in place of the session.
        trace_every_n_steps: the chief writes a full trace of every n-th step to `logdir`; None:
            never.
        ignore_live_threads: whether to accept threads that do not end.

    Returns:
        The loss of the last step; None if no step was made.

    Raises:
        ValueError: arguments contradict each other.
    """
    writes = {
        'summary_op': summary_op is not DEFAULT and summary_op is not None,
        'saver': saver is not None,
        'trace_every_n_steps': trace_every_n_steps is not None,
    }
    _check_arguments(train_op, number_of_steps, writes if logdir is None else {})
    optimizers = _sync_optimizers(sync_optimizer)
    if startup_delay_steps > 0 and optimizers:
        raise ValueError(
            f'startup_delay_steps is {startup_delay_steps} and sync_optimizer is given; replicas '
            'that train in step begin together.'
        )
    graph = graph or tf1.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = tf1.train.get_or_create_global_step()
        if train_step_kwargs is DEFAULT:
            train_step_kwargs = _step_options(
                global_step,
                number_of_steps,
                log_every_n_steps,
                # All workers share `logdir`, and traces are named by the step: two workers would
                # overwrite them.
                trace_every_n_steps if is_chief else None,
            )
        replicas = Replicas(optimizers, is_chief)
        supervisor = tf1.train.Supervisor(
            graph=graph,
            is_chief=is_chief,
            logdir=logdir,
            init_op=supervisor_argument(init_op),
            init_feed_dict=init_feed_dict,
            local_init_op=replicas.local_init_op(local_init_op),
            ready_for_local_init_op=replicas.ready_for_local_init_op(),
            ready_op=supervisor_argument(ready_op),
            summary_op=supervisor_argument(summary_op) if logdir else None,
            summary_writer=supervisor_argument(summary_writer) if logdir else None,
            global_step=global_step,
            # A new one, as in TF-Slim's `train`. The Supervisor's default would be a Saver of the
            # graph's collection, if it has one.
            saver=saver or tf1.train.Saver(),
            init_fn=init_fn,
        )
        delay = 0 if is_chief else startup.startup_step(startup_delay_steps, number_of_steps or 0)
        run = Run(
            supervisor,
            train_op,
            train_step_fn,
            {'logdir': logdir, **train_step_kwargs},
            replicas,
            first_step=delay,
            save_seconds=save_interval_secs,
            summary_seconds=save_summaries_secs,
        )
        run.train(master, session_config, session_wrapper, ignore_live_threads)
        return run.loss


def _check_arguments(
    train_op: Optional[tf.Tensor], number_of_steps: Optional[int], needs_logdir: Mapping[str, bool]
) -> None:
    if train_op is None:
        raise ValueError('train_op is None; expected the op of a step.')
    for name, is_given in needs_logdir.items():
        if is_given:
            raise ValueError(f'{name} is given, but logdir is None; expected a folder.')
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError(f'number_of_steps is {number_of_steps}; expected more than 0, or None.')


def _sync_optimizers(sync_optimizer: Any) -> List[tf1.train.SyncReplicasOptimizer]:
    """Return the argument `sync_optimizer` of `train`, one or several, as a list."""
    several = sync_optimizer if isinstance(sync_optimizer, (list, tuple)) else [sync_optimizer]
    optimizers = [each for each in several if each is not None]
    for optimizer in optimizers:
        if not isinstance(optimizer, tf1.train.SyncReplicasOptimizer):
            raise ValueError(
                f'sync_optimizer is a {type(optimizer).__name__}; expected a '
                'tf.compat.v1.train.SyncReplicasOptimizer.'
            )
    return optimizers


def _step_options(
    global_step: tf.Variable,
    number_of_steps: Optional[int],
    log_every_n_steps: int,
    trace_every_n_steps: Optional[int],
) -> Dict[str, tf.Tensor]:
    """Build the bool scalars that `train_step` evaluates."""
    options = {}
    with tf1.name_scope('train_step'):
        # Present without an end too: a program's own `train_step_fn` runs it at each step.
        options['should_stop'] = (
            tf.constant(False)
            if number_of_steps is None
            else tf.greater_equal(global_step, number_of_steps)
        )
        for name, every in (('log', log_every_n_steps), ('trace', trace_every_n_steps)):
            if every:
                options[f'should_{name}'] = tf.equal(tf.math.floormod(global_step, every), 0)
    return options


def _write_trace(options: Mapping[str, Any], metadata: tf1.RunMetadata, step: int) -> None:
    profiling.write_chrome_trace(metadata, os.path.join(options['logdir'], f'tf_trace-{step}.json'))
    if options.get('summary_writer') is not None:
        options['summary_writer'].add_run_metadata(metadata, f'run_metadata-{step}')


def _change_each(
    pairs: Sequence[MaybePair], change: Callable[[List[gradients.Pair]], List[gradients.Pair]]
) -> List[MaybePair]:
    """Apply a function to each pair that has a gradient."""
    return [pair if pair[0] is None else change([pair])[0] for pair in pairs]
