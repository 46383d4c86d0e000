"""Session hooks without a session: the same hooks watch the steps of both training loops.

A call runs several steps; hooks are then told of them one after the other, with what each step
gave. Those that act on variables, or look at large tensors, are told of a call's last step only
(`GlobalStepHook.sees_each_step`).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.function_loop import step_graphs
from estimator_lib.hooks import global_steps
from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1


class StepSession:
    """What hooks find in place of a session.

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
        self.global_step = tf1.train.get_global_step(self.graph)
        self.read_step()

    def read_step(self) -> int:
        """Takes over the global step that the variable has."""
        self.step = int(_value(self.global_step))
        return self.step

    def run(self, fetches: Any) -> Any:
        """Values of variables, as they are now, and of tensors, computed from them.

        Args:
            fetches: nested.
        """
        return tf.nest.map_structure(self._run, fetches)

    def _run(self, fetch: Any) -> Any:
        if fetch is self.global_step:
            return self.step
        if isinstance(fetch, tf.Variable):
            return _value(fetch)
        if id(fetch) not in self._parts:  # To make one takes longer than a small step.
            self._parts[id(fetch)] = fetch, self._function.prune([], fetch)
        _, part = self._parts[id(fetch)]
        return part().numpy()


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
        """Tells that variables have their values; finds out what the hooks want to know."""
        for hook in self._hooks:
            hook.after_create_session(self._session, None)
        context = self._context()
        each: Dict[int, tf.Tensor] = {}
        last: Dict[int, tf.Tensor] = {}
        # Where a last step gives nothing of its own, there is one step to compile, not two.
        cheap = {id(read) for read in self._session.graph.get_collection(step_graphs.STEP_READS)}
        for hook in self._hooks:
            arguments = hook.before_run(context)
            fetches = () if arguments is None else arguments.fetches
            for fetch in tf.nest.flatten(fetches):
                if fetch is not self._session.global_step:
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
                hook.after_run(self._now, self._run_values(arguments, values, metadata))
        self.should_stop = self._now.stop_requested

    def end(self) -> None:
        """Tells that training has ended."""
        for hook in self._hooks:
            hook.end(self._session)

    def _context(self) -> tf1.train.SessionRunContext:
        return tf1.train.SessionRunContext(tf1.train.SessionRunArgs(None), self._session)

    def _ask(self, is_last: bool) -> List[Tuple[Any, Optional[tf1.train.SessionRunArgs]]]:
        asked = [hook for hook in self._hooks if is_last or _sees_each_step(hook)]
        for hook in asked:
            if isinstance(hook, global_steps.GlobalStepHook):
                hook.follow_step(self._session.step)
        return [(hook, hook.before_run(self._now)) for hook in asked]

    def _run_values(
        self,
        arguments: Optional[tf1.train.SessionRunArgs],
        values: Mapping[int, Any],
        metadata: Any,
    ) -> tf1.train.SessionRunValues:
        def value_of(fetch: Any) -> Any:
            return self._session.step if fetch is self._session.global_step else values[id(fetch)]

        results = None if arguments is None else tf.nest.map_structure(value_of, arguments.fetches)
        options = None if arguments is None else arguments.options
        return tf1.train.SessionRunValues(results, options, metadata)


def _sees_each_step(hook: tf.estimator.SessionRunHook) -> bool:
    return getattr(hook, 'sees_each_step', False)


def _value(variable: tf.Variable) -> Any:
    """Of the first copy, of a strategy's variable."""
    return partitioned.components(variable)[0].numpy()
