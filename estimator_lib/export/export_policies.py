"""Exporters, which export the best, each or the last evaluated model."""

from __future__ import annotations

import abc
import json
import logging
import math
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import checkpoint_files, evaluated, plain_paths, state_files
from estimator_lib.config import metric_choices
from estimator_lib.export import artifacts, export_folders, exporting
from estimator_lib.export.saved_model import SavedModelWriter
from estimator_lib.export.writers import GraphHook
from estimator_lib.task import Task
from protos import export_pb2, pipeline_pb2

log = logging.getLogger('estimator_lib')

BEST_FILE = 'best.json'
BEST_CHECKPOINT = 'best'

# Writes the model of a checkpoint (the first argument) below a folder, where the newest one there
# is not the same already; returns the path.
Write = Callable[[str, str], str]


class Exporter(abc.ABC):
    """Exporter of a run, which is called after each evaluation and may export the model."""

    @abc.abstractmethod
    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Export the model if the policy of the exporter says so.

        Args:
            step: the global step of the evaluated checkpoint.
            checkpoint_path: its prefix.
            metrics: the metrics of the evaluation.
            is_final: whether this is the last evaluation of the run.

        Returns:
            The path of the SavedModel; None without an export.
        """


class BestExporter(Exporter):
    """Exporter of a model that was better than all before it.

    The best value is stored in `folder/best.json`, so it survives restarts. NaN and infinity are
    never best; of equal values the first is the best.

    Args:
        folder: of the exports.
        write: writes one.
        metric: the metric's name.
        higher_is_better: of its values.
        keep_max: how many exports stay; 0 for all.
        checkpoint_folder: keeps a copy of the best checkpoint; '': none does.
        texts: of files beside that copy, by name, so that it is used without its run.
    """

    def __init__(
        self,
        folder: str,
        write: Write,
        metric: str,
        higher_is_better: bool = True,
        keep_max: int = 1,
        checkpoint_folder: str = '',
        texts: Mapping[str, str] = {},
    ):
        self._folder = folder
        self._write = write
        self._metric = metric
        self._higher_is_better = higher_is_better
        self._keep_max = keep_max
        self._checkpoint_folder = checkpoint_folder
        self._texts = texts

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Export the model if its metric is better than before."""
        if self._metric not in metrics:
            log.warning(
                'best export: the evaluation at step %d has no %r%s',
                step,
                self._metric,
                errors.did_you_mean(self._metric, metrics),
            )
            return None
        value = float(metrics[self._metric])
        best = self.best_value()
        direction = 'higher' if self._higher_is_better else 'lower'
        before = 'none before' if best is None else f'before {best:.6g}'
        decided = f'{self._metric} {value:.6g} at step {step} ({before}; {direction} is better)'
        if not self._is_better(value, best):
            # The end of a run gives its last evaluation a second time.
            if (self._read_state().get('step'), best) != (step, value):
                log.info('not exported as the best: %s', decided)
            return None
        path = self._write(checkpoint_path, self._folder)
        if self._checkpoint_folder:
            checkpoint_files.keep_copy(checkpoint_path, self._checkpoint_folder)
            evaluated.copy(checkpoint_path, self._checkpoint_folder)
            for name, text in self._texts.items():
                checkpoint_files.write_atomically(os.path.join(self._checkpoint_folder, name), text)
        # Written after the export and the checkpoint: a kill in between leaves the old best, and
        # the same evaluation decides again.
        state = {
            'metric': self._metric,
            'higher_is_better': self._higher_is_better,
            'value': value,
            'step': step,
            'path': os.path.basename(path),
        }
        checkpoint_files.write_atomically(
            os.path.join(self._folder, BEST_FILE), json.dumps(state, indent=2) + '\n'
        )
        export_folders.keep_newest(self._folder, self._keep_max)
        log.info('best so far: %s', decided)
        return path

    def best_value(self) -> Optional[float]:
        """Return the best value so far; None where there is none of this metric."""
        state = self._read_state()
        same = ('metric', self._metric), ('higher_is_better', self._higher_is_better)
        # With another metric a run begins again: values of two metrics do not compare.
        if any(state.get(key) != value for key, value in same):
            return None
        value = state.get('value')
        # The file may have been edited: a text would fail in the comparison.
        return value if isinstance(value, (int, float)) else None

    def _read_state(self) -> Mapping[str, Any]:
        return state_files.read_state(os.path.join(self._folder, BEST_FILE))

    def _is_better(self, value: float, best: Optional[float]) -> bool:
        if not math.isfinite(value):
            return False
        if best is None:
            return True
        return value > best if self._higher_is_better else value < best


class Best(NamedTuple):
    """Best evaluation of a run so far.

    Attributes:
        step: of its checkpoint, which is in `model_dir/best`.
        metric: the name of the metric that decides.
        value: of the metric.
        export: the path of the SavedModel; '' where it has been removed.
    """

    step: int
    metric: str
    value: float
    export: str


def read_best(model_dir: str) -> Optional[Best]:
    """Return the best evaluation of a run; None where `model_dir/best` holds no known one.

    A step that the run has not come to is of another run, whose files are still there.
    """
    folder = export_folders.run_folder(model_dir, export_folders.BEST)
    state = state_files.read_state(os.path.join(folder, BEST_FILE))
    step, metric, value = (state.get(key) for key in ('step', 'metric', 'value'))
    types_fit = (
        isinstance(step, int) and isinstance(metric, str) and isinstance(value, (int, float))
    )
    folders = model_dir, os.path.join(model_dir, BEST_CHECKPOINT)
    try:
        latest, kept = (checkpoint_files.latest_step(plain_paths.plain_path(f)) for f in folders)
    except errors.CheckpointError:
        return None
    if not types_fit or not kept == step <= latest:
        return None
    path = os.path.join(folder, str(state.get('path')))
    is_there = tf.io.gfile.exists(os.path.join(path, export_folders.SAVED_MODEL_FILE))
    return Best(step, metric, float(value), path if is_there else '')


class LatestExporter(Exporter):
    """Exporter of the model of each evaluation.

    Args:
        folder: of the exports.
        write: writes one.
        keep_max: how many stay; 0 for all.
    """

    def __init__(self, folder: str, write: Write, keep_max: int = 5):
        self._folder = folder
        self._write = write
        self._keep_max = keep_max

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Export the model."""
        path = self._write(checkpoint_path, self._folder)
        export_folders.keep_newest(self._folder, self._keep_max)
        return path


class FinalExporter(Exporter):
    """Exporter of the model at the end of training.

    Args:
        folder: of the exports.
        write: writes one.
    """

    def __init__(self, folder: str, write: Write):
        self._folder = folder
        self._write = write

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Export the model if training has ended."""
        return self._write(checkpoint_path, self._folder) if is_final else None


class EstimatorExporter(Exporter):
    """Exporter of `tf.estimator` as one of this package.

    Args:
        exporter: does the work.
        estimator: of the run; what the exporter exports.
        num_steps: of the training, whose last evaluation is the final one; 0: not known.
    """

    def __init__(
        self, exporter: tf_estimator.Exporter, estimator: tf_estimator.Estimator, num_steps: int
    ):
        self._exporter = exporter
        self._estimator = estimator
        self._num_steps = num_steps
        self._done: Optional[Tuple[int, bool]] = None

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Call the exporter, once for each checkpoint.

        The evaluation after the last checkpoint is the final one, whoever asks for it. Training
        that ended earlier tells so in a second call.
        """
        is_final = is_final or 0 < self._num_steps <= step
        if self._done == (step, is_final):
            return None
        self._done = step, is_final
        return self._exporter.export(
            estimator=self._estimator,
            export_path=export_folders.run_folder(self._estimator.model_dir, self._exporter.name),
            checkpoint_path=checkpoint_path,
            # An Estimator has the step among its results, and exporters read it there.
            eval_result={**metrics, tf.compat.v1.GraphKeys.GLOBAL_STEP: step},
            is_the_final_export=is_final,
        )


def create_exporters(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    graph_hook_fn: GraphHook = None,
) -> List[Exporter]:
    """Return the exporters of a run, to `model_dir/export/{best,latest,final}`.

    A folder whose newest export is of the same checkpoint and config gets no other one: a finished
    run may be started any number of times.

    Args:
        task: what is exported.
        config: `export_config` says when.
        model_dir: of the run.
        graph_hook_fn: called when the network is built, as in training; None: nothing is called.

    Raises:
        errors.ConfigError: `export_config.best` does not say by which metric.
    """
    written: Dict[str, str] = {}  # the last export, by its checkpoint

    def write(checkpoint: str, folder: str) -> str:
        newest = export_folders.list_exports(folder)[-1:]
        origin = artifacts.origin(config, checkpoint)
        if newest and artifacts.read_origin(newest[0]) == origin:
            return newest[0]
        # One evaluation may be the best and the final one; what was exported is then copied.
        done = written.get(checkpoint, '')
        if done and tf.io.gfile.exists(os.path.join(done, export_folders.SAVED_MODEL_FILE)):
            return export_folders.copy_export(done, folder)
        path = exporting.export(task, config, checkpoint, folder, SavedModelWriter(), graph_hook_fn)
        written.clear()
        written[checkpoint] = path
        return path

    texts = artifacts.model_texts(task, config)
    return exporters_from_config(config.export_config, model_dir, write, texts)


def exporters_from_config(
    config: export_pb2.ExportConfig, model_dir: str, write: Write, texts: Mapping[str, str] = {}
) -> List[Exporter]:
    """Build the exporters that a config enables.

    Args:
        config: the `export_config` of the pipeline config.
        model_dir: of the exports; the best checkpoint is kept there too.
        write: writes one.
        texts: of files beside the best checkpoint, by name.
    """
    exporters: List[Exporter] = []
    for name in export_folders.enabled_policies(config):
        folder = export_folders.run_folder(model_dir, name)
        if name == export_folders.BEST:
            _check_best(config.best)
            exporters.append(
                BestExporter(
                    folder,
                    write,
                    config.best.metric,
                    metric_choices.higher_is_better(config.best),
                    config.best.keep_max,
                    os.path.join(model_dir, BEST_CHECKPOINT),
                    texts,
                )
            )
        elif name == export_folders.LATEST:
            exporters.append(LatestExporter(folder, write, config.latest.keep_max))
        else:
            exporters.append(FinalExporter(folder, write))
    return exporters


def _check_best(best: export_pb2.BestExport) -> None:
    if not best.metric:
        raise errors.ConfigError(
            'export_config.best.metric is not set; expected the name of an evaluation metric '
            '(or `loss`) to tell the best model by.'
        )


def check_exporters(
    exporters: Sequence[tf_estimator.Exporter],
    config: export_pb2.ExportConfig,
    evaluates: bool,
) -> None:
    """Refuse exporters that would not be called, or that share a folder.

    Args:
        exporters: of `tf.estimator`, of a program.
        config: its exporters have folders too.
        evaluates: whether the run evaluates.

    Raises:
        errors.UserError: see above.
    """
    if exporters and not evaluates:
        names = ', '.join(str(exporter.name) for exporter in exporters)
        raise errors.UserError(
            f'exporters: they are called after evaluations, and this run makes none: {names}; '
            'expected an eval_input_reader, eval_config.schedule.enabled and an evaluating mode.'
        )
    taken = set(export_folders.enabled_policies(config))
    for exporter in exporters:
        if exporter.name in taken:
            raise errors.UserError(
                f'exporters: two write to export/{exporter.name}; expected another name (names '
                f'that are taken: {", ".join(sorted(taken))}).'
            )
        taken.add(exporter.name)
