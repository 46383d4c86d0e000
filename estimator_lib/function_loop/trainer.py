"""`FunctionTrainer`: training as by an Estimator, but without sessions."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, model_fn, tf_estimator
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.data import inputs
from estimator_lib.distribution import eager_workers, mixed_precision, strategies
from estimator_lib.function_loop import call_lengths, hook_calls, step_graphs
from estimator_lib.hooks import non_finite, profiling, summaries
from protos import train_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

Hooks = Sequence[tf_estimator.SessionRunHook]


class FunctionTrainer:
    """Trainer that calls a `tf.function` of several steps.

    Args:
        step_fn: builds a training step, as of `model_fn.create_step_fn`.
        run_config: `model_dir`, the seed, and the rewrites of graphs.
        train_config: cadences of reports and checkpoints, and `steps_per_call`.
    """

    def __init__(
        self,
        step_fn: model_fn.StepFn,
        run_config: tf_estimator.RunConfig,
        train_config: train_pb2.TrainConfig,
    ):
        self._step_fn = step_fn
        self._run_config = run_config
        self._train_config = train_config

    def train(
        self,
        input_fn: inputs.RecordInput,
        hooks: Hooks = (),
        max_steps: Optional[int] = None,
        saving_listeners: Sequence[tf1.train.CheckpointSaverListener] = (),
    ) -> None:
        """Train as `tf_estimator.Estimator.train` does, with the same arguments.

        Raises:
            errors.UserError: eager execution is off, or a hook needs a session.
        """
        if not tf.executing_eagerly():
            raise errors.ConfigError(
                'train_config.loop is TF_FUNCTION, which needs eager execution, but it is off '
                '(tf.compat.v1.disable_eager_execution), or this call is inside a graph; expected '
                'eager execution, or loop: ESTIMATOR.'
            )
        hook_calls.refuse_of_sessions(hooks)
        model_dir = self._run_config.model_dir
        if max_steps is not None and checkpoint_files.latest_step(model_dir) >= max_steps:
            log.info('step %d has been reached: nothing to train', max_steps)
            return
        with _rewrites(self._run_config.session_config):
            function, (step, all_hooks) = self._trace(input_fn, hooks, saving_listeners)
            session = hook_calls.StepSession(function)
            _set_variables(step.scaffold, session, model_dir)
            agreed = eager_workers.MeanOfWorkers(
                self._run_config.train_distribute, self._run_config.num_worker_replicas
            )
            _check_start(agreed, session.step, model_dir)
            calls = hook_calls.HookCalls(all_hooks, session)
            calls.begin()
            steps = step_graphs.Steps(function, step.train_op, calls.each, calls.last)
            # A call in which the input ends returns no values of its earlier steps.
            is_single = input_fn.ends or hook_calls.needs_single_steps(hooks)
            (single_fraction,) = agreed([float(is_single)])
            lengths = call_lengths.CallLengths.from_config(
                self._train_config, session.step, max_steps, single_fraction > 0
            )
            with contextlib.suppress(tf.errors.OutOfRangeError):
                _train(steps, calls, lengths, agreed, session, max_steps)
            session.read_step()
            calls.end()

    def _trace(
        self,
        input_fn: inputs.RecordInput,
        hooks: Hooks,
        listeners: Sequence[tf1.train.CheckpointSaverListener],
    ) -> Tuple[Any, Tuple[model_fn.TrainStep, List[tf_estimator.SessionRunHook]]]:
        strategy = self._run_config.train_distribute
        with strategies.scope(strategy):
            next_batch = input_fn.open(self._run_config)

        def build() -> Any:
            step_graphs.create_global_step()
            step = self._step(*next_batch())
            # The order of hooks is that of an Estimator.
            own = step.training_chief_hooks if self._run_config.is_chief else []
            all_hooks = [*own, *hooks, *step.training_hooks]
            for hook in all_hooks:
                # Listeners belong to the hook that saves, as `Estimator.train` has it.
                if isinstance(hook, non_finite.FiniteCheckpointSaverHook):
                    hook.listen([hook_calls.NamedListener(listener) for listener in listeners])
                hook.begin()
            return step, all_hooks

        traced = step_graphs.trace(build, self._run_config.tf_random_seed, strategy)
        if self._run_config.is_chief:
            # Checkpoints of this loop have no `.meta`, so the events alone have the graph.
            summaries.get_writer(self._run_config.model_dir).add_graph(traced[0].graph)
        return traced

    def _step(self, features: Any, labels: Any) -> model_fn.TrainStep:
        """Build the step of the first replica of a strategy, with the train op of all replicas."""
        arguments = features, labels, self._run_config
        if not tf.distribute.has_strategy():
            return self._step_fn(*arguments)
        strategy = tf.distribute.get_strategy()
        built = strategy.extended.call_for_each_replica(self._step_fn, args=arguments)
        steps = strategy.experimental_local_results(built)
        return dataclasses.replace(steps[0], train_op=tf.group(*(step.train_op for step in steps)))


def _train(
    steps: step_graphs.Steps,
    calls: hook_calls.HookCalls,
    lengths: call_lengths.CallLengths,
    agreed: eager_workers.MeanOfWorkers,
    session: hook_calls.StepSession,
    max_steps: Optional[int],
) -> None:
    """Make calls until `max_steps`, or until a hook of any worker requests a stop."""
    stops = False
    while not stops and (max_steps is None or session.step < max_steps):
        count = lengths.next(session.step)
        seconds = _call(steps, calls, count)
        # All workers make the same calls; otherwise the others would wait forever.
        wish, seconds = agreed([float(calls.should_stop), seconds])
        stops = wish > 0
        lengths.took(count, seconds)


def _call(steps: step_graphs.Steps, calls: hook_calls.HookCalls, count: int) -> float:
    """Run a call and its hooks, and return the duration of the call in seconds."""
    options = calls.before(count)
    begun = time.monotonic()
    traces = options is not None and options.trace_level != tf1.RunOptions.NO_TRACE
    with profiling.traced() if traces else contextlib.nullcontext() as trace:
        each, last = steps(count)
    seconds = time.monotonic() - begun
    calls.after(count, each, last, trace)
    return seconds


def _check_start(agreed: eager_workers.MeanOfWorkers, step: int, model_dir: Optional[str]) -> None:
    """Wait until all workers have restored: the chief may write checkpoints only then.

    Raises:
        errors.ClusterError: the workers begin at different steps.
    """
    (mean,) = agreed([step])
    if mean != step:
        raise errors.ClusterError(
            f'this worker begins at step {step}, and all begin at {mean:g} on average: they found '
            f'different checkpoints in model_dir {model_dir}; expected one folder that all see.'
        )


def _set_variables(
    scaffold: tf1.train.Scaffold, session: hook_calls.StepSession, model_dir: Optional[str]
) -> None:
    """Restore the latest checkpoint, or set the initial values where there is none."""
    checkpoint = checkpoint_files.latest_checkpoint(model_dir) if model_dir else None
    if checkpoint is not None:
        scaffold.saver.restore(session, checkpoint)
        # As a session does: `keep_max` counts the checkpoints of earlier starts too.
        listed = tf.train.get_checkpoint_state(model_dir).all_model_checkpoint_paths
        scaffold.saver.recover_last_checkpoints(listed)
    elif scaffold.init_fn is not None:
        scaffold.init_fn(session)
    session.read_step()


@contextlib.contextmanager
def _rewrites(session_config: Optional[tf1.ConfigProto]) -> Iterator[None]:
    """Apply the graph rewrites of a session's options to functions compiled in the block."""
    if session_config is None:
        yield
        return
    rewrites = session_config.graph_options.rewrite_options
    options = tf.config.optimizer
    before = options.get_experimental_options()
    switches = ('auto_mixed_precision', 'auto_mixed_precision_onednn_bfloat16')
    # Functions ignore a session's config: these options are those of the process.
    wanted = {name: getattr(rewrites, name) == rewrites.ON for name in switches}
    wanted['disable_meta_optimizer'] = rewrites.disable_meta_optimizer
    options.set_experimental_options(wanted)
    try:
        yield
    finally:
        # Options that nobody has set are not among those of `get_experimental_options`.
        options.set_experimental_options({name: before.get(name, False) for name in wanted})
        mixed_precision.restore()
