"""Trained models as SavedModels.

The export does not go through `Estimator.export_saved_model`: that restores every variable of the
graph, the global step among them, which published checkpoints need not have; and it saves variables
beside the graph, where constants serve requests faster (see `freezing`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, evaluated, savers
from estimator_lib.export import freezing, saved_model_file, serving, warmup
from estimator_lib.task import Features, Task, Tensors
from protos import pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

SAVED_MODEL_FILE = 'saved_model.pb'
# The folders of a run's exports, among which the newest one is looked for.
POLICIES = ('best', 'latest', 'final')
_MOST_DIGITS = 18  # of the names of exports: servers read them as int64
# TensorFlow leaves files in this folder of a SavedModel alone.
ASSETS = 'assets.extra'
CONFIG_FILE = os.path.join(ASSETS, 'pipeline.config')
WARMUP_FILE = os.path.join(ASSETS, 'tf_serving_warmup_requests')
ORIGIN_FILE = os.path.join(ASSETS, 'origin.json')
METRICS_FILE = os.path.join(ASSETS, evaluated.METRICS_FILE)

GraphHook = Optional[Callable[[], None]]


class InferenceGraph(NamedTuple):
    """A model's graph with constants in the places of its variables.

    Attributes:
        frozen: the graph.
        inputs: tensors of the graph that it was made from, by key; names are the same.
        outputs: likewise.
    """

    frozen: freezing.Frozen
    inputs: Mapping[str, tf.Tensor]
    outputs: Tensors

    def signature(self) -> Any:
        """The `SignatureDef` of inputs and outputs."""
        with tf.Graph().as_default():  # It cannot be made outside of graphs.
            return tf1.saved_model.predict_signature_def(dict(self.inputs), dict(self.outputs))


def export_saved_model(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    export_dir: str,
    serving_input: Optional[int] = None,
    graph_hook_fn: GraphHook = None,
    signature_name: Optional[str] = None,
    warmup_requests: int = 0,
) -> str:
    """Writes the model of a checkpoint as `export_dir/<timestamp>/`.

    The signatures `serving_default` and `tensorflow/serving/predict` take `inputs` (see
    `serving.serving_input_receiver_fn`) and return what `task.export_outputs` names. Variables are
    constants. The folder appears under its name when it is complete; in its `assets.extra` are
    `pipeline.config`, `origin.json` (see `origin`), the files of `Task.asset_files`, and, where the
    checkpoint has been evaluated, `metrics.json`.

    Args:
        task: what is exported.
        config: tells whether moving averages are exported, and is saved with the model.
        checkpoint: its prefix, or its folder: one of ours or a published one. It needs to hold the
            model's variables; a global step or optimizer slots do not matter.
        export_dir: made when it is not there.
        serving_input: an `export_pb2.ServingInput`; None: `config.export_config.serving_input`.
        graph_hook_fn: called when the network is built, as in training.
        signature_name: another name by which the signature can be asked for.
        warmup_requests: how many requests a server makes before it takes others; see `warmup`.

    Returns:
        The path of the new folder.

    Raises:
        errors.CheckpointError: the checkpoint is not there, or not of this model.
        errors.UserError: `export_dir` cannot be written to, or there can be no such warm-up.
    """
    prefix = checkpoint_files.resolve_checkpoint(checkpoint)
    if serving_input is None:
        serving_input = config.export_config.serving_input
    files = {
        CONFIG_FILE: text_format.MessageToString(config, as_utf8=True),
        ORIGIN_FILE: json.dumps(origin(config, prefix)) + '\n',
        **{os.path.join(ASSETS, name): text for name, text in task.asset_files().items()},
    }
    metrics = evaluated.read(prefix)
    if metrics:
        files[METRICS_FILE] = json.dumps(metrics, indent=2) + '\n'
    if warmup_requests:
        warmup.check(warmup_requests)
    names = [serving.DEFAULT_SIGNATURE, serving.PREDICT_SIGNATURE]
    names += [signature_name] if signature_name else []
    model = inference_graph(task, config, prefix, serving_input, graph_hook_fn)

    def write(unfinished: str) -> None:
        write_saved_model(model, names, unfinished)
        tf.io.gfile.makedirs(os.path.join(unfinished, ASSETS))
        for name, text in files.items():
            with tf.io.gfile.GFile(os.path.join(unfinished, name), 'w') as file:
                file.write(text)
        if warmup_requests:
            kind = model.inputs[serving.INPUT_KEY].op.name
            warmup.write(os.path.join(unfinished, WARMUP_FILE), kind, warmup_requests)

    path = write_whole(export_dir, write)
    log.info('exported %s to %s', prefix, path)
    return path


def inference_graph(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    prefix: str,
    serving_input: int,
    graph_hook_fn: GraphHook = None,
) -> InferenceGraph:
    """The graph that serves a checkpoint's model.

    Args:
        task: see `export_saved_model`.
        config: see `export_saved_model`.
        prefix: of the checkpoint.
        serving_input: an `export_pb2.ServingInput`.
        graph_hook_fn: see `export_saved_model`.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model.
    """
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(task, serving_input)()
        outputs = build_outputs(task, receiver.features, graph_hook_fn)
        averages = config.eval_config.use_moving_averages
        frozen = _trained_graph(prefix, outputs, averages, task)
        return InferenceGraph(frozen, receiver.receiver_tensors, outputs)


def origin(config: pipeline_pb2.TrainEvalPipelineConfig, prefix: str) -> Dict[str, Any]:
    """What an export says of where it is from: equal for equal models.

    Args:
        config: of the export.
        prefix: of the checkpoint.

    Returns:
        `global_step`, `checkpoint`, and a `fingerprint` of the config and the checkpoint's index,
        which has checksums of all values.
    """
    content = hashlib.sha256(config.SerializeToString(deterministic=True))
    if tf.io.gfile.exists(prefix + '.index'):
        with tf.io.gfile.GFile(prefix + '.index', 'rb') as file:
            content.update(file.read())
    return {
        'global_step': checkpoint_files.step_of(prefix),
        'checkpoint': os.path.basename(prefix),
        'fingerprint': content.hexdigest(),
    }


def step_of_export(path: str) -> Optional[int]:
    """Returns the global step of an export; None where it does not say, as others' do not."""
    return checkpoint_files.read_state(os.path.join(path, ORIGIN_FILE)).get('global_step')


def copy_export(path: str, export_dir: str) -> str:
    """Copies a SavedModel to `export_dir/<timestamp>/`; returns the path of the copy."""

    def copy(unfinished: str) -> None:
        for folder, _, files in tf.io.gfile.walk(path):
            target = os.path.normpath(os.path.join(unfinished, os.path.relpath(folder, path)))
            tf.io.gfile.makedirs(target)
            for file in files:
                tf.io.gfile.copy(os.path.join(folder, file), os.path.join(target, file))

    return write_whole(export_dir, copy)


def latest_export(folder: str) -> Optional[str]:
    """The newest SavedModel in a folder of exports, or in the folders in it; None for none."""
    folders = [folder, *(os.path.join(folder, name) for name in _names_in(folder))]
    return max(
        (path for each in folders for path in exports_in(each)), key=_timestamp, default=None
    )


def exports_in(folder: str) -> List[str]:
    """The SavedModels `folder/<timestamp>`, oldest first."""
    paths = [os.path.join(folder, name) for name in _names_in(folder) if name.isdigit()]
    found = [path for path in paths if tf.io.gfile.exists(os.path.join(path, SAVED_MODEL_FILE))]
    return sorted(found, key=_timestamp)


def _names_in(folder: str) -> List[str]:
    """What is in a folder, whose name is no pattern; nothing where there is none."""
    if not tf.io.gfile.isdir(folder):
        return []
    return [name.rstrip('/') for name in tf.io.gfile.listdir(folder)]


def build_outputs(task: Task, features: Features, graph_hook_fn: GraphHook = None) -> Tensors:
    """The outputs of the signature, each named as its key in the graph."""
    predictions = task.predict(features, tf.estimator.ModeKeys.PREDICT)
    if graph_hook_fn is not None:
        graph_hook_fn()
    outputs = task.export_outputs(task.postprocess(predictions, features))
    return {name: tf.identity(output, name) for name, output in outputs.items()}


@contextlib.contextmanager
def trained_session(
    prefix: str, use_moving_averages: bool, task: Optional[Task] = None
) -> Iterator[tf1.Session]:
    """A session of the current graph with a checkpoint's values.

    Args:
        prefix: of the checkpoint.
        use_moving_averages: see `savers.create_inference_saver`.
        task: see there.

    Raises:
        errors.CheckpointError: the checkpoint is not of this model.
    """
    # Optimizing the graph for the few runs that it has here would take longer than they do.
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    session_config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Session(config=session_config) as session:
        savers.create_inference_saver(use_moving_averages, task).restore(session, prefix)
        yield session


def _trained_graph(
    prefix: str, outputs: Tensors, use_moving_averages: bool, task: Optional[Task] = None
) -> freezing.Frozen:
    """The current graph with a checkpoint's values as constants."""

    def freeze() -> freezing.Frozen:
        with trained_session(prefix, use_moving_averages, task) as session:
            return freezing.freeze(session, list(outputs.values()))

    # The session's variables are gone with the function that made it, before new ones are made.
    return freezing.fold_batch_norms(freeze(), list(outputs.values()))


def write_whole(export_dir: str, write: Callable[[str], None]) -> str:
    """Lets a function write to a folder under another name, and then gives it its name.

    Args:
        export_dir: where the folder is to be.
        write: is given the other name; what it raises leaves no folder.

    Returns:
        The path of `export_dir/<timestamp>`.

    Raises:
        errors.UserError: it cannot be written.
    """
    path = _new_path(export_dir)
    unfinished = os.path.join(export_dir, f'temp-{os.path.basename(path)}')
    try:
        write(unfinished)
        tf.io.gfile.rename(unfinished, path)
    except (tf.errors.OpError, OSError, errors.UserError) as error:
        if tf.io.gfile.isdir(unfinished):
            tf.io.gfile.rmtree(unfinished)
        if isinstance(error, errors.UserError):
            raise
        raise errors.UserError(f'the export to {export_dir} failed: {error}') from error
    return path


def write_saved_model(model: InferenceGraph, names: Sequence[str], path: str) -> None:
    """Writes a graph of constants as a SavedModel.

    Args:
        model: the graph.
        names: of the signatures, all of them the same.
        path: of the new folder.

    Raises:
        errors.UserError: the model is too large for one file.
    """
    # There are no variables, but a SavedModel has the folder.
    tf.io.gfile.makedirs(os.path.join(path, tf1.saved_model.constants.VARIABLES_DIRECTORY))
    file = os.path.join(path, SAVED_MODEL_FILE)
    saved_model_file.write(file, model.frozen, dict.fromkeys(names, model.signature()))


def _new_path(export_dir: str) -> str:
    """Returns a folder that is not there yet, named by the time in seconds.

    The name is above those of all earlier exports of the run, also after the clock has gone back:
    the newest export is the one of the largest number.
    """
    parent, name = os.path.split(export_dir.rstrip('/'))
    folders = [os.path.join(parent, one) for one in POLICIES] if name in POLICIES else []
    taken = [
        int(one)
        for folder in (export_dir, *folders)
        for one in _names_in(folder)
        if one.isascii() and one.isdigit() and len(one) <= _MOST_DIGITS
    ]
    return os.path.join(export_dir, str(max(int(time.time()), *(one + 1 for one in taken), 0)))


def _timestamp(path: str) -> int:
    name = os.path.basename(path)
    return int(name) if name.isdigit() else -1
