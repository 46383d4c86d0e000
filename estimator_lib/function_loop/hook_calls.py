"""Session hooks without a session: the same hooks watch the steps of both training loops.

A call runs several steps; hooks are then told of them one after the other, with what each step
gave. Those that act on variables, or look at large tensors, are told of a call's last step only
(`GlobalStepHook.sees_each_step`). A hook that says neither gets calls of one step, as in a session.

Hooks may read variables and tensors of the step's graph and run its operations. What a session
offers beyond that is refused with the hook's name.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.function_loop import step_graphs
from estimator_lib.hooks import global_steps
from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1


class StepSession:
    """Stand-in for a session, with what hooks may ask of one here.

    Args:
        function: of the step, from `step_graphs.trace`.

    Attributes:
        graph: of the step.
        step: the global step that hooks are told of; behind the last one of a call, the variable's.
    """

    def __init__(self, function: Any):
        self.graph = function.graph
        self._function = function
        # By the identity of what is fetched, which is kept: another one could get its place.
        self._parts: Dict[int, Tuple[Any, Any]] = {}
        self._user = 'a hook'
        self.global_step = tf1.train.get_global_step(self.graph)
        self.read_step()

    def read_step(self) -> int:
        """Take over the global step that the variable has."""
        self.step = int(_value(self.global_step))
        return self.step

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Return values of variables, as they are now, and of tensors, computed from them.

        Args:
            fetches: nested; an operation is run and gives None.
            feed_dict: refused, like all that follow.
            options: see `feed_dict`.
            run_metadata: see `feed_dict`.

        Raises:
            errors.ConfigError: a session is needed for this.
        """
        given = {'feed_dict': feed_dict, 'options': options, 'run_metadata': run_metadata}
        for name, value in given.items():
            if value is not None:
                raise self.refusal(f'calls session.run with {name}')
        return tf.nest.map_structure(self._run, fetches)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(name)
        raise self.refusal(f'uses session.{name}')

    @contextlib.contextmanager
    def name_user(self, user: Any) -> Iterator[None]:
        """Inside, a refusal names the class of `user`."""
        outer, self._user = self._user, type(user).__name__
        try:
            yield
        finally:
            self._user = outer

    def check(self, fetch: Any) -> None:
        """Refuse what is neither a variable nor of the graph of the step.

        Raises:
            errors.ConfigError: it is something else, the name of a tensor for example.
        """
        is_of_graph = isinstance(fetch, (tf.Tensor, tf.Operation))
        if isinstance(fetch, tf.Variable) or (
            is_of_graph and getattr(fetch, 'graph', None) is self.graph
        ):
            return
        raise self.refusal(f'fetches {fetch!r}, which is no tensor of the graph of the step')

    def refusal(self, what: str) -> errors.ConfigError:
        """Return the error about what the current user of the session does."""
        return _refusal(f'{self._user} {what}, which')

    def _run(self, fetch: Any) -> Any:
        if fetch is self.global_step:
            return self.step
        self.check(fetch)
        operation = _operation(fetch)
        if isinstance(fetch, tf.Variable) and operation is None:
            return _value(fetch)
        if id(fetch) not in self._parts:  # To make one takes longer than a small step.
            # Fetched operations give nothing: `prune` wants a list of them.
            pruned = self._function.prune([], fetch if operation is None else [operation])
            self._parts[id(fetch)] = fetch, pruned
        _, part = self._parts[id(fetch)]
        value = part()
        if operation is None:
            return value.numpy()
        return _value(fetch) if isinstance(fetch, tf.Variable) else None


class NamedListener(tf1.train.CheckpointSaverListener):
    """A listener of checkpoints, by whose name the session refuses what it does not carry.

    Args:
        listener: what is told.
    """

    def __init__(self, listener: tf1.train.CheckpointSaverListener):
        self._listener = listener

    def begin(self) -> None:
        """Tell that the graph is being built."""
        self._listener.begin()

    def before_save(self, session: StepSession, global_step_value: int) -> None:
        """Tells of a checkpoint to come."""
        with session.name_user(self._listener):
            self._listener.before_save(session, global_step_value)

    def after_save(self, session: StepSession, global_step_value: int) -> Optional[bool]:
        """Tells of a checkpoint; returns whether training should stop."""
        with session.name_user(self._listener):
            return self._listener.after_save(session, global_step_value)

    def end(self, session: StepSession, global_step_value: int) -> None:
        """Tell that training has ended."""
        with session.name_user(self._listener):
            self._listener.end(session, global_step_value)


class HookCalls:
    """Tells hooks of a training run what a session would.

    Args:
        hooks: in the order in which they are told; each asks for the same tensors in each run (or
            for some of those of the first).
        session: see `StepSession`.

    Attributes:
        each: what hooks want of each step.
        last: what hooks want of a call's last step, beside those.
    """

    def __init__(self, hooks: Sequence[tf.estimator.SessionRunHook], session: StepSession):
        self._hooks = list(hooks)
        self._session = session
        self.each: List[tf.Tensor] = []
        self.last: List[tf.Tensor] = []
        self.should_stop = False

    def begin(self) -> None:
        """Tell that variables have their values; finds out what the hooks want to know."""
        for hook in self._hooks:
            with self._session.name_user(hook):
                hook.after_create_session(self._session, None)
        self._now = self._context()
        each: Dict[int, tf.Tensor] = {}
        last: Dict[int, tf.Tensor] = {}
        # Where a last step gives nothing of its own, there is one step to compile, not two.
        cheap = {id(read) for read in self._session.graph.get_collection(step_graphs.STEP_READS)}
        for hook in self._hooks:
            _, arguments = self._asked(hook)
            for fetch in () if arguments is None else tf.nest.flatten(arguments.fetches):
                if not isinstance(fetch, tf.Variable):
                    is_of_each = _sees_each_step(hook) or id(fetch) in cheap
                    (each if is_of_each else last)[id(fetch)] = fetch
        self.each = list(each.values())
        self.last = [fetch for key, fetch in last.items() if key not in each]

    def before(self, count: int) -> Optional[tf1.RunOptions]:
        """Tells of a call that is to come; returns the options that hooks ask for."""
        self._now = self._context()
        self._arguments = self._ask(count == 1)
        options = [one.options for _, one in self._arguments if one is not None]
        return next((one for one in options if one is not None), None)

    def after(
        self,
        count: int,
        each: Sequence[Sequence[Any]],
        last: Sequence[Any],
        metadata: Any = None,
    ) -> None:
        """Tells of a call that was made.

        Args:
            count: of its steps.
            each: values of the tensors of `each`, step by step.
            last: values of those of `last`.
            metadata: a trace of the call, where options asked for it.
        """
        of_last = {id(fetch): value for fetch, value in zip(self.last, last)}
        for index in range(count):
            is_last = index == count - 1
            if index:
                self._arguments = self._ask(is_last)
            self._session.step += 1
            values = {id(fetch): steps[index] for fetch, steps in zip(self.each, each)}
            if is_last:
                values.update(of_last)
            for hook, arguments in self._arguments:
                with self._session.name_user(hook):
                    results = self._run_values(arguments, values, metadata)
                    hook.after_run(self._now, results)
        self.should_stop = self._now.stop_requested

    def end(self) -> None:
        """Tell that training has ended."""
        for hook in self._hooks:
            with self._session.name_user(hook):
                hook.end(self._session)

    def _context(self) -> tf1.train.SessionRunContext:
        return tf1.train.SessionRunContext(tf1.train.SessionRunArgs(None), self._session)

    def _ask(self, is_last: bool) -> List[Tuple[Any, Optional[tf1.train.SessionRunArgs]]]:
        asked = [hook for hook in self._hooks if is_last or _sees_each_step(hook)]
        for hook in asked:
            if isinstance(hook, global_steps.GlobalStepHook):
                hook.follow_step(self._session.step)
        return [self._asked(hook) for hook in asked]

    def _asked(
        self, hook: tf.estimator.SessionRunHook
    ) -> Tuple[Any, Optional[tf1.train.SessionRunArgs]]:
        """Return the hook, and what it wants of the coming step."""
        with self._session.name_user(hook):
            arguments = hook.before_run(self._now)
            if arguments is not None and arguments.feed_dict:
                raise self._session.refusal('feeds values to the step')
            for fetch in () if arguments is None else tf.nest.flatten(arguments.fetches):
                self._session.check(fetch)
                operation = _operation(fetch)
                if operation is not None:
                    raise self._session.refusal(f'runs {operation.name} with the step')
        return hook, arguments

    def _run_values(
        self,
        arguments: Optional[tf1.train.SessionRunArgs],
        values: Mapping[int, Any],
        metadata: Any,
    ) -> tf1.train.SessionRunValues:
        def value_of(fetch: Any) -> Any:
            if isinstance(fetch, tf.Variable):
                return self._session.run(fetch)
            if id(fetch) not in values:
                raise self._session.refusal(
                    f'fetches {fetch.name} of a later step and not of the first'
                )
            return values[id(fetch)]

        results = None if arguments is None else tf.nest.map_structure(value_of, arguments.fetches)
        options = None if arguments is None else arguments.options
        return tf1.train.SessionRunValues(results, options, metadata)


# Their `begin` and `after_run` take apart what sessions alone have: ops of variables, metadata.
_OF_SESSIONS = (
    tf.estimator.CheckpointSaverHook,
    tf.estimator.ProfilerHook,
    tf.estimator.StepCounterHook,
)


def refuse_of_sessions(hooks: Sequence[tf.estimator.SessionRunHook]) -> None:
    """Refuse the hooks of TensorFlow that work in sessions only.

    Raises:
        errors.ConfigError: there is one.
    """
    for hook in hooks:
        if isinstance(hook, _OF_SESSIONS):
            raise _refusal(type(hook).__name__)


def _refusal(what: str) -> errors.ConfigError:
    return errors.ConfigError(
        f'{what} needs a session, but train_config.loop is TF_FUNCTION; expected loop: ESTIMATOR.'
    )


def needs_single_steps(hooks: Sequence[tf.estimator.SessionRunHook]) -> bool:
    """Return whether a hook does not say of which steps of a call it is to be told."""
    return not all(hasattr(hook, 'sees_each_step') for hook in hooks)


def _sees_each_step(hook: tf.estimator.SessionRunHook) -> bool:
    return getattr(hook, 'sees_each_step', False)


def _operation(fetch: Any) -> Optional[tf.Operation]:
    """Return what a fetch runs: an operation, or the assignment that a variable came out of."""
    if isinstance(fetch, tf.Variable):
        # `variable.assign(..)` of a graph is the variable behind that operation.
        fetch = fetch.__dict__.get('_parent_op')
    return fetch if isinstance(fetch, tf.Operation) else None


def _value(variable: tf.Variable) -> Any:
    """Of the first copy, of a strategy's variable."""
    return partitioned.components(variable)[0].numpy()
