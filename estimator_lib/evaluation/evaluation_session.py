"""The graph and session of an evaluation, kept from one model to the next."""

from __future__ import annotations

import abc
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.data import inputs
from estimator_lib.evaluation.evaluated_predictor import EvaluatedPredictor
from estimator_lib.export.exported_file import ExportedFile
from estimator_lib.graphs import evaluation, losses
from estimator_lib.hooks import summaries
from estimator_lib.task import Metric, Task

tf1 = tf.compat.v1

EvaluatedFile = Union[ExportedFile, EvaluatedPredictor]


class Measured(NamedTuple):
    """Measurements of the graph of a pass.

    Attributes:
        metrics: (value, update op) by name; the updates are run for each batch.
        values: further tensors by name, read at the end of the pass.
    """

    metrics: Mapping[str, Metric]
    values: Mapping[str, tf.Tensor]


class Passes(abc.ABC):
    """Passes over a set of examples, in one graph and session.

    Args:
        config: the config of the session, with the random seed.
        hooks: session hooks. `begin` is called once, when the graph is built;
            `after_create_session` and `end` are called in each pass.

    Attributes:
        seconds_to_first_batch: seconds from the start of the last pass to its first batch; for the
            first pass, with the building of the graph.
    """

    def __init__(
        self, config: tf_estimator.RunConfig, hooks: Sequence[tf1.train.SessionRunHook] = ()
    ):
        self._started: Optional[float] = time.monotonic()
        self.seconds_to_first_batch = 0.0
        self._hooks = list(hooks)
        with tf.Graph().as_default() as graph:
            tf1.set_random_seed(config.tf_random_seed)
            measured = self._measure()
            for hook in self._hooks:
                hook.begin()
            # The iterator over the examples is initialized with the tables.
            self._begin_pass = tf.group(tf1.local_variables_initializer(), tf1.tables_initializer())
            # All updates in one fetch: the network runs once for each batch.
            self._update = tf.group([update for _, update in measured.metrics.values()])
            self._values = {name: value for name, (value, _) in measured.metrics.items()}
            self._values.update(measured.values)
        # A hook that adds an op in each pass is an error, and not a graph that grows and is
        # prepared again.
        graph.finalize()
        # Kept for all checkpoints. For a network of 1,298 ops an evaluation of 10 batches took 1.2
        # to 2.0 s with a new session, and 0.3 s with the same one.
        self._session = tf1.Session(graph=graph, config=config.session_config)

    @abc.abstractmethod
    def evaluate(self, checkpoint_path: str) -> Dict[str, Any]:
        """Run one pass with the variables of a checkpoint, and return the metrics by name."""

    @abc.abstractmethod
    def _measure(self) -> Measured:
        """Build the graph: a batch of examples, the model's outputs, and the metrics."""

    def close(self) -> None:
        """Close the session, and so release its memory."""
        self._session.close()

    def _begin(self, session: tf1.Session) -> None:
        """Set the variables at the beginning of a pass; here there are none."""
        del session

    def _run_pass(self) -> Dict[str, Any]:
        """Run one pass, and return the metrics by name."""
        session, started = self._session, self._started or time.monotonic()
        self._started = None
        self._begin(session)
        session.run(self._begin_pass)
        for hook in self._hooks:
            hook.after_create_session(session, None)
        is_first = True
        while self._step():
            if is_first:
                self.seconds_to_first_batch = time.monotonic() - started
                is_first = False
        for hook in self._hooks:
            hook.end(session)
        return session.run(self._values)

    def _step(self) -> bool:
        """Update the metrics with a batch; return False at the end of the examples."""
        requests = [hook.before_run(None) for hook in self._hooks]
        fetches = [self._update, *(request.fetches for request in requests)]
        try:
            _, *results = self._session.run(fetches)
        except tf.errors.OutOfRangeError:
            return False
        for hook, result in zip(self._hooks, results):
            hook.after_run(None, tf1.train.SessionRunValues(result, None, None))
        return True


class EvaluationSession(Passes):
    """Evaluation of checkpoints of one model on one set of examples.

    Building a graph and preparing its first run takes longer than reading a checkpoint. So the
    graph is built once, and each evaluation restores the variables and begins a new pass.

    Args:
        evaluation_fn: builds the evaluation graph.
        input_fn: one pass over the examples.
        config: the config of the session, passed to `input_fn` too.
        hooks: session hooks, as in `Passes`.
    """

    def __init__(
        self,
        evaluation_fn: evaluation.EvaluationFn,
        input_fn: inputs.RecordInput,
        config: tf_estimator.RunConfig,
        hooks: Sequence[tf1.train.SessionRunHook] = (),
    ):
        self._evaluation_fn = evaluation_fn
        self._config = config
        self._input_fn = input_fn
        self._checkpoint_path = ''
        super().__init__(config, hooks)

    def evaluate(self, checkpoint_path: str) -> Dict[str, Any]:
        """Run one pass with the variables of a checkpoint.

        Args:
            checkpoint_path: the prefix of the checkpoint.

        Returns:
            The metrics by name; among them `loss`, the mean of the total loss over the examples,
            `global_step`, and `learning_rate` where the config has one.
        """
        self._checkpoint_path = checkpoint_path
        return self._run_pass()

    def _measure(self) -> Measured:
        step = tf1.train.create_global_step()
        features, labels = self._input_fn(config=self._config)
        graph = self._evaluation_fn(features, labels)
        self._saver = graph.saver
        total = graph.loss_metrics[f'Loss/{losses.TOTAL_LOSS}']
        metrics = {'loss': total, **graph.metrics, **graph.loss_metrics}
        values = {tf1.GraphKeys.GLOBAL_STEP: step}
        if graph.learning_rate is not None:
            values[evaluation.LEARNING_RATE] = graph.learning_rate
        return Measured(metrics, values)

    def _begin(self, session: tf1.Session) -> None:
        self._saver.restore(session, self._checkpoint_path)


class FileSession(Passes):
    """Evaluation of a file on one set of examples.

    There are no losses: they need the raw outputs of the network, which a file with final outputs
    does not have.

    Args:
        task: has the metrics.
        file: the file to evaluate.
        input_fn: one pass over the examples.
        config: the config of the session, as in `Passes`.
        hooks: session hooks, as in `Passes`.
    """

    def __init__(
        self,
        task: Task,
        file: EvaluatedFile,
        input_fn: inputs.RecordInput,
        config: tf_estimator.RunConfig,
        hooks: Sequence[tf1.train.SessionRunHook] = (),
    ):
        self._task = task
        self._file = file
        self._input_fn = input_fn
        super().__init__(config, hooks)

    def evaluate(self, checkpoint_path: str = '') -> Dict[str, Any]:
        """Run one pass, and return the metrics by name; the file has its variables.

        Raises:
            errors.UserError: the model fails on an image.
        """
        del checkpoint_path
        try:
            return self._run_pass()
        except tf.errors.OpError as error:
            problem = getattr(self._file, 'problem', None)
            if problem is None:
                raise
            raise problem from error

    def _measure(self) -> Measured:
        features, labels = self._input_fn()
        features, state = inputs.pop_reader_state(features)
        outputs = self._file.outputs(features)
        metrics = self._task.metrics(outputs, features, labels)
        summaries.offer_examples(features, outputs, labels, state and state.records)
        return Measured(metrics, {})
