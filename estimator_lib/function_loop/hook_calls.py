"""Session hooks without a session: both training loops use the same hooks.

A call runs several steps. Then the hooks are called for one step after the other, with the values
of each step. Hooks that act on variables, or read large tensors, are called for the last step only
(`GlobalStepHook.sees_each_step`). For a hook without that attribute each call has one step.

Hooks may read variables and tensors of the step's graph, and run its operations. Other uses of the
session are refused with the hook's name.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.function_loop import step_graphs
from estimator_lib.hooks import global_steps
from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1


class StepSession:
    """Substitute for a session, with the operations that hooks may use.

    Args:
        function: the function of the step, from `step_graphs.trace`.

    Attributes:
        graph: the graph of the step.
        step: the global step of the current calls of hooks; after a call, that of the variable.
    """

    def __init__(self, function: Any):
        self.graph = function.graph
        self._function = function
        # The key is the id of the fetch. The fetch is kept too, so that its id is not used again.
        self._parts: Dict[int, Tuple[Any, Any]] = {}
        self._user = 'a hook'
        self.global_step = tf1.train.get_global_step(self.graph)
        self.read_step()

    def read_step(self) -> int:
        """Set `step` to the value of the global step variable, and return it."""
        self.step = int(_value(self.global_step))
        return self.step

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Return the present values of variables, and of tensors computed from them.

        Args:
            fetches: nested fetches; an operation is run and gives None.
            feed_dict: not supported.
            options: not supported.
            run_metadata: not supported.

        Raises:
            errors.ConfigError: the request needs a session.
        """
        unsupported = {'feed_dict': feed_dict, 'options': options, 'run_metadata': run_metadata}
        for name, value in unsupported.items():
            if value is not None:
                raise self.refusal(f'calls session.run with {name}')
        return tf.nest.map_structure(self._run, fetches)

    def __getattr__(self, name: str) -> Any:
        # Protocols of Python, as those of copies, look for such names and expect an AttributeError.
        if name.startswith('_'):
            raise AttributeError(name)
        raise self.refusal(f'uses session.{name}')

    @contextlib.contextmanager
    def name_user(self, user: Any) -> Iterator[None]:
        """Set the user whose class is named by errors in the block."""
        outer, self._user = self._user, type(user).__name__
        try:
            yield
        finally:
            self._user = outer

    def check(self, fetch: Any) -> None:
        """Refuse a fetch that is neither a variable nor part of the step's graph.

        Raises:
            errors.ConfigError: the fetch is something else, as the name of a tensor.
        """
        is_of_graph = isinstance(fetch, (tf.Tensor, tf.Operation))
        if isinstance(fetch, tf.Variable) or (
            is_of_graph and getattr(fetch, 'graph', None) is self.graph
        ):
            return
        raise self.refusal(f'fetches {fetch!r}, which is no tensor of the graph of the step')

    def refusal(self, what: str) -> errors.ConfigError:
        """Return the error about an unsupported action of the current user of the session."""
        return _refusal(f'{self._user} {what}, which')

    def _run(self, fetch: Any) -> Any:
        # Hooks hear of a call's steps after the call: the variable has the value of its end
        # already.
        if fetch is self.global_step:
            return self.step
        self.check(fetch)
        operation = _operation(fetch)
        if isinstance(fetch, tf.Variable) and operation is None:
            return _value(fetch)
        if id(fetch) not in self._parts:  # pruning takes longer than a small step
            # `prune` takes operations as a list, since they return nothing.
            pruned = self._function.prune([], fetch if operation is None else [operation])
            self._parts[id(fetch)] = fetch, pruned
        _, part = self._parts[id(fetch)]
        value = part()
        if operation is None:
            return value.numpy()
        return _value(fetch) if isinstance(fetch, tf.Variable) else None


class NamedListener(tf1.train.CheckpointSaverListener):
    """Wrapper of a checkpoint listener, whose class the errors of the session name.

    Args:
        listener: the listener to call.
    """

    def __init__(self, listener: tf1.train.CheckpointSaverListener):
        self._listener = listener

    def begin(self) -> None:
        """Call the listener's `begin`."""
        self._listener.begin()

    def before_save(self, session: StepSession, global_step_value: int) -> None:
        """Call the listener's `before_save`."""
        with session.name_user(self._listener):
            self._listener.before_save(session, global_step_value)

    def after_save(self, session: StepSession, global_step_value: int) -> Optional[bool]:
        """Call the listener's `after_save`, and return whether training should stop."""
        with session.name_user(self._listener):
            return self._listener.after_save(session, global_step_value)

    def end(self, session: StepSession, global_step_value: int) -> None:
        """Call the listener's `end`."""
        with session.name_user(self._listener):
            self._listener.end(session, global_step_value)


class HookCalls:
    """Calls of the hooks of a training run, as a session makes them.

    Args:
        hooks: the hooks, in the order of their calls. In later steps a hook may only fetch tensors
            that it fetched in the first step.
        session: the substitute for a session.

    Attributes:
        each: tensors that hooks fetch of each step.
        last: further tensors that hooks fetch of a call's last step.
    """

    def __init__(self, hooks: Sequence[tf_estimator.SessionRunHook], session: StepSession):
        self._hooks = list(hooks)
        self._session = session
        self.each: List[tf.Tensor] = []
        self.last: List[tf.Tensor] = []
        self.should_stop = False

    def begin(self) -> None:
        """Call `after_create_session` of the hooks, and find out the tensors that they fetch."""
        for hook in self._hooks:
            with self._session.name_user(hook):
                hook.after_create_session(self._session, None)
        self._now = self._context()
        each: Dict[int, tf.Tensor] = {}
        last: Dict[int, tf.Tensor] = {}
        # Without tensors of the last step alone, one graph is compiled instead of two.
        cheap = {id(read) for read in self._session.graph.get_collection(step_graphs.STEP_READS)}
        for hook in self._hooks:
            # One request without a step, so that the graph of steps is compiled once with all
            # fetches. Later requests may ask for less, not for more.
            _, arguments = self._request(hook)
            for fetch in () if arguments is None else tf.nest.flatten(arguments.fetches):
                if not isinstance(fetch, tf.Variable):
                    in_each_step = _sees_each_step(hook) or id(fetch) in cheap
                    (each if in_each_step else last)[id(fetch)] = fetch
        self.each = list(each.values())
        self.last = [fetch for key, fetch in last.items() if key not in each]

    def before(self, count: int) -> Optional[tf1.RunOptions]:
        """Call `before_run` of the hooks for the next call, and return their run options."""
        self._now = self._context()
        self._arguments = self._ask(count == 1)
        options = [arguments.options for _, arguments in self._arguments if arguments is not None]
        return next((each for each in options if each is not None), None)

    def after(
        self,
        count: int,
        each: Sequence[Sequence[Any]],
        last: Sequence[Any],
        metadata: Any = None,
    ) -> None:
        """Call `after_run` of the hooks for each step of a call.

        Args:
            count: number of steps of the call.
            each: values of the tensors of `each`, step by step.
            last: values of the tensors of `last`.
            metadata: a trace of the call, if the options ask for it.
        """
        last_values = {id(fetch): value for fetch, value in zip(self.last, last)}
        for index in range(count):
            is_last = index == count - 1
            if index:
                self._arguments = self._ask(is_last)
            self._session.step += 1
            values = {id(fetch): steps[index] for fetch, steps in zip(self.each, each)}
            if is_last:
                values.update(last_values)
            for hook, arguments in self._arguments:
                with self._session.name_user(hook):
                    results = self._run_values(arguments, values, metadata)
                    hook.after_run(self._now, results)
        self.should_stop = self._now.stop_requested

    def end(self) -> None:
        """Call `end` of the hooks."""
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
        return [self._request(hook) for hook in asked]

    def _request(
        self, hook: tf_estimator.SessionRunHook
    ) -> Tuple[Any, Optional[tf1.train.SessionRunArgs]]:
        """Return the hook, and its arguments for the coming step."""
        with self._session.name_user(hook):
            arguments = hook.before_run(self._now)
            if arguments is not None and arguments.feed_dict:
                fed = errors.shortened([str(key) for key in arguments.feed_dict], 3)
                raise self._session.refusal(f'feeds values to the step ({fed})')
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
        def look_up(fetch: Any) -> Any:
            if isinstance(fetch, tf.Variable):
                return self._session.run(fetch)
            if id(fetch) not in values:
                raise self._session.refusal(
                    f'fetches {fetch.name} of a later step and not of the first'
                )
            return values[id(fetch)]

        results = None if arguments is None else tf.nest.map_structure(look_up, arguments.fetches)
        options = None if arguments is None else arguments.options
        return tf1.train.SessionRunValues(results, options, metadata)


# Their `begin` and `after_run` use parts of sessions: operations of variables, run metadata.
_OF_SESSIONS = (
    tf_estimator.CheckpointSaverHook,
    tf_estimator.ProfilerHook,
    tf_estimator.StepCounterHook,
)


def refuse_of_sessions(hooks: Sequence[tf_estimator.SessionRunHook]) -> None:
    """Refuse the hooks of TensorFlow that work in sessions only.

    Raises:
        errors.ConfigError: there is such a hook.
    """
    for hook in hooks:
        if isinstance(hook, _OF_SESSIONS):
            raise _refusal(type(hook).__name__)


def _refusal(what: str) -> errors.ConfigError:
    return errors.ConfigError(
        f'{what} needs a session, but train_config.loop is TF_FUNCTION; expected loop: ESTIMATOR.'
    )


def needs_single_steps(hooks: Sequence[tf_estimator.SessionRunHook]) -> bool:
    """Return whether a hook lacks `sees_each_step`, so that each call must have one step."""
    return not all(hasattr(hook, 'sees_each_step') for hook in hooks)


def _sees_each_step(hook: tf_estimator.SessionRunHook) -> bool:
    return getattr(hook, 'sees_each_step', False)


def _operation(fetch: Any) -> Optional[tf.Operation]:
    """Return the operation of a fetch: itself, or the assignment that returned a variable."""
    if isinstance(fetch, tf.Variable):
        # In a graph `variable.assign(..)` returns the variable, with the operation as its parent.
        fetch = fetch.__dict__.get('_parent_op')
    return fetch if isinstance(fetch, tf.Operation) else None


def _value(variable: tf.Variable) -> Any:
    """Return the value of a variable; under a strategy, that of the first copy."""
    return partitioned.components(variable)[0].numpy()
