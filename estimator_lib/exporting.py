"""Trained models as SavedModels: one export, and exports that follow evaluations.

The export does not go through `Estimator.export_saved_model`: that restores every variable of the
graph, the global step among them, which published checkpoints need not have; and it saves variables
beside the graph, where constants serve requests faster (see `freezing`).
"""

from __future__ import annotations

import abc
import json
import logging
import math
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import checkpoint_files, checkpoints, errors, freezing, serving
from estimator_lib.task import Features, Task, Tensors
from protos import export_pb2, pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

SAVED_MODEL_FILE = 'saved_model.pb'
# TensorFlow leaves files in this folder of a SavedModel alone.
CONFIG_FILE = os.path.join('assets.extra', 'pipeline.config')
BEST_FILE = 'best.json'

# Writes the model of a checkpoint (the first argument) below a folder; returns the path.
Write = Callable[[str, str], str]
GraphHook = Optional[Callable[[], None]]


def export_saved_model(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    export_dir: str,
    serving_input: Optional[int] = None,
    graph_hook_fn: GraphHook = None,
) -> str:
    """Writes the model of a checkpoint as `export_dir/<timestamp>/`.

    The signature `serving_default` takes `inputs` (see `serving.serving_input_receiver_fn`) and
    returns what `task.export_outputs` names. Variables are constants in it. The folder appears
    under its name when it is complete; the config is in it, as `assets.extra/pipeline.config`.

    Args:
        task: what is exported.
        config: tells whether moving averages are exported, and is saved with the model.
        checkpoint: its prefix, or its folder: one of ours or a published one. It needs to hold the
            model's variables; a global step or optimizer slots do not matter.
        export_dir: made when it is not there.
        serving_input: an `export_pb2.ServingInput`; None: `config.export_config.serving_input`.
        graph_hook_fn: called when the network is built, as in training.

    Returns:
        The path of the new folder.

    Raises:
        errors.CheckpointError: the checkpoint is not there, or not of this model.
        errors.UserError: `export_dir` cannot be written to.
    """
    prefix = checkpoint_files.resolve_checkpoint(checkpoint)
    if serving_input is None:
        serving_input = config.export_config.serving_input
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(task, serving_input)()
        outputs = _build_outputs(task, receiver.features, graph_hook_fn)
        graph_def = _trained_graph(prefix, outputs, config.eval_config.use_moving_averages)
    path = _write(graph_def, receiver.receiver_tensors, outputs, config, export_dir)
    log.info('exported %s to %s', prefix, path)
    return path


def latest_export(folder: str) -> Optional[str]:
    """The newest SavedModel in a folder of exports, or in the folders in it; None for none."""
    found = [path for each in (folder, os.path.join(folder, '*')) for path in exports_in(each)]
    return max(found, key=_timestamp) if found else None


def exports_in(folder: str) -> List[str]:
    """The SavedModels `folder/<timestamp>`, oldest first; `folder` may be a pattern."""
    found = tf.io.gfile.glob(os.path.join(folder, '*', SAVED_MODEL_FILE))
    paths = [os.path.dirname(path) for path in found]
    return sorted((path for path in paths if os.path.basename(path).isdigit()), key=_timestamp)


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
            The path of a new SavedModel; None when there is none.
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
    """

    def __init__(
        self,
        folder: str,
        write: Write,
        metric: str,
        higher_is_better: bool = True,
        keep_max: int = 1,
    ):
        self._folder = folder
        self._write = write
        self._metric = metric
        self._higher_is_better = higher_is_better
        self._keep_max = keep_max

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
        state = _read_json(os.path.join(self._folder, BEST_FILE))
        same = ('metric', self._metric), ('higher_is_better', self._higher_is_better)
        if state is None or any(state.get(key) != value for key, value in same):
            return None
        value = state.get('value')
        return value if isinstance(value, (int, float)) else None

    def _is_better(self, value: float, best: Optional[float]) -> bool:
        if not math.isfinite(value):
            return False
        if best is None:
            return True
        return value > best if self._higher_is_better else value < best


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
        self._last_step: Optional[int] = None

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """See `Exporter`; once for each step."""
        if step == self._last_step:
            return None
        path = self._write(checkpoint_path, self._folder)
        self._last_step = step
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
    graph_hook_fn: GraphHook = None,
) -> List[Exporter]:
    """The exporters of a run, to `model_dir/export/{best,latest,final}`.

    Args:
        task: what is exported.
        config: `export_config` says when.
        model_dir: of the run.
        graph_hook_fn: see `export_saved_model`.

    Raises:
        errors.ConfigError: `export_config.best` does not say by which metric, or whether a loss is
            to be high or low.
    """

    def write(checkpoint: str, folder: str) -> str:
        return export_saved_model(task, config, checkpoint, folder, graph_hook_fn=graph_hook_fn)

    return exporters_from_config(config.export_config, os.path.join(model_dir, 'export'), write)


def exporters_from_config(
    config: export_pb2.ExportConfig, folder: str, write: Write
) -> List[Exporter]:
    """The exporters that a config asks for, in folders in `folder`."""
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


def _build_outputs(task: Task, features: Features, graph_hook_fn: GraphHook) -> Tensors:
    """The outputs of the signature, each named as its key in the graph."""
    predictions = task.predict(features, tf.estimator.ModeKeys.PREDICT)
    if graph_hook_fn is not None:
        graph_hook_fn()
    outputs = task.export_outputs(task.postprocess(predictions, features))
    return {name: tf.identity(output, name) for name, output in outputs.items()}


def _trained_graph(prefix: str, outputs: Tensors, use_moving_averages: bool) -> tf1.GraphDef:
    """The current graph with a checkpoint's values as constants."""
    # Optimising the graph for the few runs that it has here would take longer than they do.
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    session_config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Session(config=session_config) as session:
        checkpoints.create_inference_saver(use_moving_averages).restore(session, prefix)
        graph_def = freezing.freeze(session, list(outputs.values()))
    return freezing.fold_batch_norms(graph_def, list(outputs.values()))


def _write(
    graph_def: tf1.GraphDef,
    inputs: Mapping[str, tf.Tensor],
    outputs: Tensors,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    export_dir: str,
) -> str:
    """Writes a SavedModel under another name first, then gives it its name."""
    path = _new_path(export_dir)
    unfinished = os.path.join(export_dir, f'temp-{os.path.basename(path)}')
    try:
        _write_saved_model(graph_def, inputs, outputs, unfinished)
        config_path = os.path.join(unfinished, CONFIG_FILE)
        tf.io.gfile.makedirs(os.path.dirname(config_path))
        with tf.io.gfile.GFile(config_path, 'w') as file:
            file.write(text_format.MessageToString(config, as_utf8=True))
        tf.io.gfile.rename(unfinished, path)
    except (tf.errors.OpError, OSError) as error:
        if tf.io.gfile.isdir(unfinished):
            tf.io.gfile.rmtree(unfinished)
        raise errors.UserError(f'the export to {export_dir} failed: {error}') from error
    return path


def _write_saved_model(
    graph_def: tf1.GraphDef,
    inputs: Mapping[str, tf.Tensor],
    outputs: Tensors,
    path: str,
) -> None:
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.import_graph_def(graph_def, name='')

        def here(tensors: Mapping[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
            return {key: graph.get_tensor_by_name(one.name) for key, one in tensors.items()}

        signature = tf1.saved_model.predict_signature_def(here(inputs), here(outputs))
        key = tf1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        builder = tf1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session, [tf1.saved_model.tag_constants.SERVING], {key: signature}, clear_devices=True
        )
        builder.save()


def _new_path(export_dir: str) -> str:
    """A folder that is not there yet, named by the time in seconds."""
    number = int(time.time())
    while tf.io.gfile.exists(os.path.join(export_dir, str(number))):
        number += 1
    return os.path.join(export_dir, str(number))


def _timestamp(path: str) -> int:
    name = os.path.basename(path)
    return int(name) if name.isdigit() else -1


def _keep_newest(folder: str, count: int) -> None:
    """Deletes all exports in a folder but the newest ones; none for a count of 0."""
    if count:
        for path in exports_in(folder)[:-count]:
            tf.io.gfile.rmtree(path)


def _read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in a JSON file; None when there is no such file, or none such in it."""
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            content = json.loads(file.read())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        log.warning('%s is damaged; the best value so far is not known', path)
        return None
    return content
