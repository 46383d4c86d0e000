"""`Saver`s of training and inference, for the `Scaffold` of an `EstimatorSpec`."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from typing import Any, FrozenSet, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors, graph_state
from estimator_lib.checkpoints import (
    checkpoint_maps,
    model_variables,
    object_graphs,
    reader_positions,
    ready_ops,
    restore_report,
)
from estimator_lib.checkpoints.checkpoint_files import (
    OBJECT_STEP,
    READER_SCOPE,
    checkpoint_shapes,
    checkpoint_step,
    explained_read,
    explained_write,
    resolve_checkpoint,
)
from estimator_lib.checkpoints.initial_values import (
    load_values,
    require_types,
    set_values,
)
from estimator_lib.optimization import moving_averages, partitioned
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import Task

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# Time between two checkpoints if the config sets neither seconds nor steps.
# The default of an Estimator's RunConfig.
DEFAULT_SAVE_SECONDS = 600


# The defaults are those of `tf.train.Saver`: 10,000 hours mean never.
def create_saver(
    keep_max: Optional[int] = None, keep_every_n_hours: float = 10000.0
) -> tf1.train.Saver:
    """Create the `Saver` of a training graph: of all its variables, sharded over its devices.

    Call it at the end of the `model_fn`. Only variables that are created later, by session hooks,
    may be missing in a checkpoint: they then keep their initial values.

    Args:
        keep_max: the number of latest checkpoints to keep; 0 or None for all.
        keep_every_n_hours: the interval at which one more checkpoint is kept forever.
    """
    # A Saver does not find eager variables in a graph: they are passed to it.
    eager = {
        variable_name(variable): partitioned.components(variable)[0]
        for variable in tf1.global_variables()
        if partitioned.is_eager(variable)
    }
    with tf.init_scope() if eager else contextlib.nullcontext():
        saver = _ResumingSaver(
            eager or None,
            # Sharded: each parameter server writes its own variables. Otherwise all values pass
            # through one device.
            sharded=not eager,
            max_to_keep=keep_max,
            keep_checkpoint_every_n_hours=keep_every_n_hours,
            defer_build=not eager,
            # Absolute paths in the list of checkpoints would point to the old place in a moved
            # folder.
            save_relative_paths=True,
        )
    saver.known = frozenset(map(partitioned.whole_name, tf1.global_variables()))
    return saver


def create_inference_saver(
    use_moving_averages: bool = False, task: Optional[Task] = None
) -> tf1.train.Saver:
    """Create the `Saver` of an evaluation or inference graph.

    It restores all global variables of the graph, and the checkpoint must have each of them. The
    global step and optimizer slots may be missing, as in checkpoints of other programs. When it
    saves, for a SavedModel with variables, it uses the names that it has restored.

    Args:
        use_moving_averages: whether to restore averages in place of variables that have one.
        task: the task of the model, for object-based checkpoints.
    """
    saver = _InferenceSaver(defer_build=True)
    saver.use_moving_averages = use_moving_averages
    saver.task = task
    return saver


def require_fit(prefix: str, variables: Mapping[str, tf.Variable]) -> None:
    """Refuse a checkpoint that lacks variables, or has them in another shape.

    Args:
        prefix: the checkpoint, which may have further variables.
        variables: the required variables by their names in the checkpoint.

    Raises:
        errors.CheckpointError: the checkpoint does not fit; the message has a table of differences.
    """
    shapes = checkpoint_shapes(prefix)
    report = restore_report.match(shapes, variables, prefix)
    if not report.is_complete:
        raise errors.CheckpointError(
            f'{prefix} is not a checkpoint of this model.{object_graphs.hint(shapes)}'
            f'{restore_report.averages_hint(report, shapes)}\n{report.table()}'
        )


class _InferenceSaver(tf1.train.Saver):
    """`Saver` that restores by `checkpoint_maps`; see `create_inference_saver`."""

    use_moving_averages = False
    task: Optional[Task] = None
    _averages: Mapping[Any, str] = {}

    def build(self) -> None:
        """Add the ops that save to the graph; a restore does not need them."""
        if self.saver_def is None:
            variables: Any = tf1.global_variables()
            if self._averages:
                # A strategy's variables can only be passed as a list, so names are given only for
                # averages.
                variables = {
                    self._averages.get(variable.ref(), variable_name(variable)): variable
                    for variable in variables
                }
            # `allow_empty`: the graph of a network of constants has no variable.
            self.saver_def = tf1.train.Saver(variables, sharded=True, allow_empty=True).saver_def
        super().build()

    def save(self, sess: tf1.Session, save_path: str, *args: Any, **options: Any) -> Optional[str]:
        self.build()
        return super().save(sess, save_path, *args, **options)

    def export_meta_graph(self, *args: Any, **options: Any) -> Any:
        self.build()
        return super().export_meta_graph(*args, **options)

    def restore(self, sess: tf1.Session, save_path: str) -> None:
        shapes = checkpoint_shapes(save_path)
        _require_companions(save_path, shapes, sess.graph)
        wanted = checkpoint_maps.inference_map(
            self.task, model_variables.restorable(sess.graph), save_path, self.use_moving_averages
        )
        self._averages = {
            variable.ref(): name
            for name, variable in wanted.items()
            if name == moving_averages.average_name(variable)
        }
        step = tf1.train.get_global_step(sess.graph)
        step_names = [name for name in (tf1.GraphKeys.GLOBAL_STEP, OBJECT_STEP) if name in shapes]
        if step is not None and step_names:
            wanted = {**wanted, step_names[0]: step}
        elif step is not None:
            # A published checkpoint may lack the step. Metrics are reported by it, so it needs a
            # value.
            sess.run(step.initializer)
        require_fit(save_path, wanted)
        load_values(sess, save_path, wanted)


class _ResumingSaver(tf1.train.Saver):
    """`Saver` that resumes from checkpoints that lack variables which may start fresh.

    The readers of another number of workers have other names: they continue together from where
    those of the checkpoint were, see `reader_positions`. With other sources readers start from the
    beginning. So does the loss scale of a run that continues in float16, and a variable that is not
    among `known`, because a session hook created it.

    Parameter servers that are ahead of the checkpoint are not restored: a restarted chief takes
    over the steps that the workers made meanwhile. A checkpoint that cannot be written raises a
    `CheckpointError` instead of an error of an op.
    """

    known: FrozenSet[str] = frozenset()

    def save(self, sess: tf1.Session, save_path: str, *args: Any, **options: Any) -> Optional[str]:
        with explained_write(os.path.dirname(save_path)):
            return super().save(sess, save_path, *args, **options)

    def restore(self, sess: tf1.Session, save_path: str) -> None:
        live, step = ready_ops.live_step(sess), checkpoint_step(save_path)
        if live is not None and live >= step:
            log.info('the parameter servers are at step %d: nothing to restore', live)
            return
        log.info('resuming from step %d: %s', step, save_path)
        variables = partitioned.whole(sess.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES))
        by_name = {variable_name(variable): variable for variable in variables}
        report = restore_report.match(checkpoint_shapes(save_path), by_name)
        moved = _moved_readers(save_path, by_name)
        lacking = [entry.name for entry in report.missing + report.mismatched]
        fresh = [name for name in lacking if name not in moved]
        eager = any(map(partitioned.is_eager, variables))
        # With a variable that may not start fresh, TensorFlow's own restore raises the error.
        if not (fresh or moved) or not all(map(self._may_start_fresh, fresh)):
            if eager:
                load_values(sess, save_path, by_name)
                return
            # A restore op of the session raises a long error of the graph for another type.
            require_types(save_path, by_name)
            self._restore_all(sess, save_path)
            return
        if fresh:
            log.warning(
                '%s does not have all that this run keeps: %s start fresh', save_path, fresh
            )
        if not eager:  # Eager variables are initialized when they are created.
            # The initializer of a strategy's variable would be a new op of the finalized graph.
            started = itertools.chain(*(partitioned.components(by_name[name]) for name in fresh))
            sess.run([variable.initializer for variable in started])
        loaded = {
            entry.checkpoint_name: by_name[entry.name]
            for entry in report.loaded
            if entry.name not in moved
        }
        load_values(sess, save_path, loaded)
        set_values(sess, moved, by_name)

    def _restore_all(self, sess: tf1.Session, save_path: str) -> None:
        if self.saver_def is None:
            self.build()
        with explained_read(resolve_checkpoint(save_path)):
            super().restore(sess, save_path)

    def _may_start_fresh(self, name: str) -> bool:
        return restore_report.may_start_fresh(name) or name not in self.known


def _moved_readers(prefix: str, by_name: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
    """Return the positions of a graph's readers if those of a checkpoint are others."""
    names = [name for name in by_name if name.startswith(f'{READER_SCOPE}/')]
    if not names:
        return {}
    shape = by_name[names[0]].shape.as_list()
    moved = reader_positions.moved_positions(prefix, names, shape)
    if moved:
        log.info('%s is of other readers: these continue from where they were', prefix)
    return moved


def _require_companions(prefix: str, shapes: Mapping[str, Sequence[int]], graph: tf.Graph) -> None:
    """Refuse a checkpoint of the same model that was trained without companion variables."""
    for kind, names in graph_state.companions_by_kind(graph).items():
        missing = sorted(names - shapes.keys())
        if missing:
            raise errors.CheckpointError(
                f'{prefix}: {len(missing)} of the {len(names)} {kind} of this model are not in it '
                f'({missing[0]}, ...): it was not trained as this config says. Train from it '
                '(train_config.fine_tune_checkpoint), which starts them.'
            )
