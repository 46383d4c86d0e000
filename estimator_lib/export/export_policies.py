"""Exports that follow evaluations: of the best model, of each, of the last."""

from __future__ import annotations

import abc
import json
import logging
import math
import os
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, evaluated, plain_paths
from estimator_lib.export import artifacts, exporting
from estimator_lib.task import Task
from protos import export_pb2, pipeline_pb2

log = logging.getLogger('estimator_lib')

BEST_FILE = 'best.json'
BEST_CHECKPOINT = 'best'

# Writes the model of a checkpoint (the first argument) below a folder, where the newest one there
# is not the same already; returns the path.
Write = Callable[[str, str], str]


class Exporter(abc.ABC):
    """Is told of each evaluation, and exports the model where it sees fit."""

    @abc.abstractmethod
    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Exports, or not.

        Args:
            step: the global step of the evaluated checkpoint.
            checkpoint_path: its prefix.
            metrics: what the evaluation found.
            is_final: whether training has ended with it.

        Returns:
            The path of the SavedModel; None when this evaluation is no reason to export.
        """


class BestExporter(Exporter):
    """Exports the model of an evaluation that was better than all before it.

    What was best is kept in `folder/best.json`, so it survives restarts. NaN and infinity are never
    best, and of equals the first is.

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
        """See `Exporter`."""
        if self._metric not in metrics:
            log.warning(
                'best export: the evaluation at step %d has no %r%s',
                step,
                self._metric,
                errors.did_you_mean(self._metric, metrics),
            )
            return None
        value = float(metrics[self._metric])
        if not self._is_better(value, self.best_value()):
            return None
        path = self._write(checkpoint_path, self._folder)
        if self._checkpoint_folder:
            checkpoint_files.keep_copy(checkpoint_path, self._checkpoint_folder)
            evaluated.copy(checkpoint_path, self._checkpoint_folder)
            for name, text in self._texts.items():
                checkpoint_files.write_atomically(os.path.join(self._checkpoint_folder, name), text)
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
        _keep_newest(self._folder, self._keep_max)
        log.info('best so far: %s %.6g at step %d', self._metric, value, step)
        return path

    def best_value(self) -> Optional[float]:
        """The best value so far; None when there is none of this metric."""
        state = checkpoint_files.read_state(os.path.join(self._folder, BEST_FILE))
        same = ('metric', self._metric), ('higher_is_better', self._higher_is_better)
        if any(state.get(key) != value for key, value in same):
            return None
        value = state.get('value')
        return value if isinstance(value, (int, float)) else None

    def _is_better(self, value: float, best: Optional[float]) -> bool:
        if not math.isfinite(value):
            return False
        if best is None:
            return True
        return value > best if self._higher_is_better else value < best


class Best(NamedTuple):
    """The best evaluation of a run so far.

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
    """Returns the best evaluation of a run; None where `model_dir/best` holds no known one.

    A step that the run has not come to is of another run, whose files are still there.
    """
    folder = os.path.join(model_dir, 'export', 'best')
    state = checkpoint_files.read_state(os.path.join(folder, BEST_FILE))
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
    is_there = tf.io.gfile.exists(os.path.join(path, exporting.SAVED_MODEL_FILE))
    return Best(step, metric, float(value), path if is_there else '')


class LatestExporter(Exporter):
    """Exports the model of each evaluation.

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
        """See `Exporter`."""
        path = self._write(checkpoint_path, self._folder)
        _keep_newest(self._folder, self._keep_max)
        return path


class FinalExporter(Exporter):
    """Exports the model at the end of training.

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
        """See `Exporter`."""
        return self._write(checkpoint_path, self._folder) if is_final else None


def create_exporters(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    graph_hook_fn: exporting.GraphHook = None,
) -> List[Exporter]:
    """The exporters of a run, to `model_dir/export/{best,latest,final}`.

    A folder whose newest export is of the same checkpoint and config gets no other one: a finished
    run may be started any number of times.

    Args:
        task: what is exported.
        config: `export_config` says when.
        model_dir: of the run.
        graph_hook_fn: see `exporting.export_saved_model`.

    Raises:
        errors.ConfigError: `export_config.best` does not say by which metric, or whether a loss is
            to be high or low.
    """
    written: Dict[str, str] = {}  # the last export, by its checkpoint

    def write(checkpoint: str, folder: str) -> str:
        newest = exporting.exports_in(folder)[-1:]
        if newest and exporting.origin(config, checkpoint) == checkpoint_files.read_state(
            os.path.join(newest[0], exporting.ORIGIN_FILE)
        ):
            return newest[0]
        # One evaluation may be the best and the final one; what was exported is then copied.
        done = written.get(checkpoint, '')
        if done and tf.io.gfile.exists(os.path.join(done, exporting.SAVED_MODEL_FILE)):
            return exporting.copy_export(done, folder)
        path = exporting.export_saved_model(
            task, config, checkpoint, folder, graph_hook_fn=graph_hook_fn
        )
        written.clear()
        written[checkpoint] = path
        return path

    texts = {
        artifacts.CONFIG_FILE: text_format.MessageToString(config, as_utf8=True),
        **task.asset_files(),
    }
    folder = os.path.join(model_dir, 'export')
    return exporters_from_config(config.export_config, folder, write, texts)


def exporters_from_config(
    config: export_pb2.ExportConfig, folder: str, write: Write, texts: Mapping[str, str] = {}
) -> List[Exporter]:
    """Returns the exporters that a config asks for.

    Args:
        config: says which.
        folder: of the exports; the best checkpoint is kept beside it.
        write: writes one.
        texts: of files beside the best checkpoint, by name.
    """
    exporters: List[Exporter] = []
    if config.HasField('best'):
        best = config.best
        _check_best(best)
        exporters.append(
            BestExporter(
                os.path.join(folder, 'best'),
                write,
                best.metric,
                best.higher_is_better,
                best.keep_max,
                os.path.join(os.path.dirname(folder), BEST_CHECKPOINT),
                texts,
            )
        )
    if config.HasField('latest'):
        latest = os.path.join(folder, 'latest')
        exporters.append(LatestExporter(latest, write, config.latest.keep_max))
    if config.final.enabled:
        exporters.append(FinalExporter(os.path.join(folder, 'final'), write))
    return exporters


def _check_best(best: export_pb2.BestExport) -> None:
    if not best.metric:
        raise errors.ConfigError(
            'export_config.best.metric is not set; expected the name of an evaluation metric '
            '(or `loss`) to tell the best model by.'
        )
    is_loss = best.metric == 'loss' or best.metric.startswith('Loss/')
    if is_loss and not best.HasField('higher_is_better'):
        raise errors.ConfigError(
            f'export_config.best: the metric is {best.metric!r} and higher_is_better is left at '
            'true; expected higher_is_better: false (or true, if that is what is meant).'
        )


def _keep_newest(folder: str, count: int) -> None:
    """Deletes all exports in a folder but the newest ones; none for a count of 0."""
    if count:
        for path in exporting.exports_in(folder)[:-count]:
            tf.io.gfile.rmtree(path)
