"""Targets that read checkpoints and exported models."""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
import random
from typing import Any, Callable, Dict, List, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

import run_train_eval
from estimator_lib.checkpoints import (
    checkpoint_files,
    fine_tuning,
    initial_values,
    model_dirs,
    object_graphs,
    savers,
)
from estimator_lib.data import reader_state
from estimator_lib.export import artifacts, exported_file, exported_model, formats
from estimator_lib.export.devices import static_graph
from model_fns.cli import flag_parsing, front_door
from protos import train_pb2
from tests.campaigns.fuzz.mutations import mutate_bytes, mutate_message, mutate_text
from tests.campaigns.fuzz.workspace import CHECKPOINT, OBJECT_PATHS, VALUES, Workspace

tf1 = tf.compat.v1

_FOREIGN = 0.1  # share of the files for devices without `export.json`: each takes a process
_ODD_VALUES = (
    np.int64(-1), np.int64(2**62), np.float32('nan'), np.int32(7), np.bool_(True), np.array(b'x'),
    np.zeros([0], np.int64), np.zeros([2, 3], np.int64), np.full([2, 3], -(2**62)),
    np.full([2, 3], 2**62), np.zeros([3, 3, 3, 4], np.float64), np.array([b'a', b'b'], object),
)  # fmt: skip


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (
        checkpoint, checkpoint_values, object_checkpoint, tflite, onnx, saved_model, export,
    )  # fmt: skip
    return {one.__name__: functools.partial(one, workspace) for one in functions}


def checkpoint(workspace: Workspace, generator: random.Random) -> None:
    """Resume and fine-tune from a folder of checkpoints with a malformed or missing file."""
    folder = workspace.copy(workspace.model)
    path = generator.choice([*sorted(folder.glob('model.ckpt-5.[di]*')), folder / 'checkpoint'])
    _mutate_file(generator, path)
    _restore(folder, generator.choice((folder, folder / CHECKPOINT)))


def checkpoint_values(workspace: Workspace, generator: random.Random) -> None:
    """Resume and fine-tune from a checkpoint with odd values, of other types and shapes."""
    folder = workspace.empty('odd_model')
    position = reader_state.variable_name('chief_0')
    values: Dict[str, Any] = {
        **VALUES,
        'global_step': np.int64(5),
        position: np.zeros([2, reader_state.COLUMNS], np.int64),
    }
    for _ in range(generator.randint(1, 2)):
        values[generator.choice(sorted(values))] = generator.choice(_ODD_VALUES)
    prefix = _save(folder / generator.choice((CHECKPOINT, 'model.ckpt', 'ckpt-0')), values)
    checkpoint_files.clean_temporary(str(folder))
    _restore(folder, prefix)


def _restore(folder: pathlib.Path, named: pathlib.Path) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [tf1.get_variable(name, initializer=value) for name, value in VALUES.items()]
        tf1.train.create_global_step()
        reader_state.create_position_variables(['chief_0'], 0, 1)
        checkpoint_files.clean_temporary(str(folder))
        model_dirs.check_model_dir(str(folder), tf1.global_variables())
        reader_state.read_position(str(folder), ['chief_0'], 0, 1)
        prefix = checkpoint_files.resolve_checkpoint(str(named))
        train_config = train_pb2.TrainConfig(fine_tune_checkpoint=prefix)
        by_name = {variable.op.name: variable for variable in variables}
        report = fine_tuning.fine_tune_report(train_config, by_name)
        loaded = {entry.name: by_name[entry.name] for entry in report.loaded}
        initial_values.load_values(session, prefix, loaded)
        savers.create_saver().restore(session, prefix)


def object_checkpoint(workspace: Workspace, generator: random.Random) -> None:
    """Evaluate a checkpoint of TensorFlow 2 with a malformed file or graph of objects."""
    if generator.random() < 0.4:
        folder = workspace.copy(workspace.object_model)
        names = ('ckpt-0.index', 'ckpt-0.data-00000-of-00001', 'checkpoint')
        _mutate_file(generator, folder / generator.choice(names))
    else:
        reader = tf.train.load_checkpoint(str(workspace.object_model))
        values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
        graph = values[object_graphs.GRAPH_KEY]
        folder = workspace.empty('odd_object_model')
        kind = generator.randrange(3)
        if kind == 0:
            values[object_graphs.GRAPH_KEY] = np.array(mutate_bytes(generator, graph))
        elif kind == 1:
            message = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph)
            message = mutate_message(generator, message)
            values[object_graphs.GRAPH_KEY] = np.array(message.SerializeToString())
        else:
            values[generator.choice(sorted(values))] = generator.choice(_ODD_VALUES)
        _save(folder / 'ckpt-0', values)
        checkpoint_files.clean_temporary(str(folder))
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, value in VALUES.items():
            tf1.get_variable(name, initializer=value)
        tf1.train.create_global_step()
        prefix = checkpoint_files.resolve_checkpoint(str(folder))
        saver = savers.create_inference_saver(generator.random() < 0.5, _ObjectTask())
        saver.restore(session, prefix)


class _ObjectTask:
    """Task whose variables have paths of objects; it is asked for no more than that."""

    name = 'object'

    @property
    def checkpoints(self) -> _ObjectTask:
        """Return the task: it maps its variables itself."""
        return self

    def object_paths(self, variables: List[tf.Variable], kind: Any) -> Mapping[str, tf.Variable]:
        """Return the variables by their paths of objects."""
        del kind
        by_name = {variable.op.name: variable for variable in variables}
        return {path: by_name[name] for path, name in OBJECT_PATHS.items()}

    def foreign_checkpoint(self, names: Any) -> str:
        """Return '': every checkpoint is of this model."""
        del names
        return ''


def _save(prefix: pathlib.Path, values: Mapping[str, Any]) -> pathlib.Path:
    """Write a checkpoint of any tensors; return its prefix."""
    names = sorted(values)
    tensors = [
        tf.constant(values[name]) if np.asarray(values[name]).dtype != object
        else tf.constant(list(values[name]))
        for name in names
    ]  # fmt: skip
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[''] * len(names), tensors=tensors
    )
    return prefix


def _mutate_file(generator: random.Random, path: pathlib.Path) -> None:
    """Change a file, or remove it."""
    content = path.read_bytes()
    path.unlink()
    if generator.random() < 0.2:
        return
    if path.suffix in ('.json', '.txt', '.pbtxt', '.config') or path.name == 'checkpoint':
        path.write_bytes(mutate_text(generator, content.decode()))
    else:
        path.write_bytes(mutate_bytes(generator, content))


def tflite(workspace: Workspace, generator: random.Random) -> None:
    """Run a TFLite file."""
    _run_device_file(workspace.copy(workspace.tflite) / 'model.tflite', generator)


def onnx(workspace: Workspace, generator: random.Random) -> None:
    """Run an ONNX file."""
    _run_device_file(workspace.copy(workspace.onnx) / 'model.onnx', generator)


def _run_device_file(path: pathlib.Path, generator: random.Random) -> None:
    """Run a file with its `export.json`, one of which is malformed; or without, as foreign ones."""
    if generator.random() < _FOREIGN:
        path.with_name(artifacts.EXPORT_FILE).unlink()
    _mutate_file(generator, generator.choice(sorted(path.parent.iterdir())))
    exported_file.check(str(path))
    writer = formats.writer_of_file(str(path))
    exported_file.check_content(str(path), writer.ends_process)
    model = writer.load(str(path))
    model.run(np.zeros(model.about['inputs'][static_graph.INPUT]['shape'], np.float32))


def saved_model(workspace: Workspace, generator: random.Random) -> None:
    """Load a SavedModel."""
    folder = workspace.copy(workspace.served_model)
    path = folder / 'saved_model.pb'
    path.write_bytes(mutate_bytes(generator, path.read_bytes()))
    exported_model.Predictor(str(folder))


def export(workspace: Workspace, generator: random.Random) -> None:
    """Predict with an export or a checkpoint that has malformed files beside it."""
    name = generator.choice(('saved_model_dir', 'model_dir', 'model_file'))
    sources = {'model_dir': workspace.classifier, 'model_file': workspace.device_export}
    folder = workspace.copy(sources.get(name, workspace.export))
    model = folder / 'model.tflite' if name == 'model_file' else folder
    files = sorted(path for path in folder.rglob('*') if path.is_file())
    _mutate_file(generator, generator.choice(files))
    flags = [
        '', '--mode=predict', f'--{name}={model}', f'--images={workspace.images}',
        f'--output_dir={workspace.empty("predicted")}',
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        front_door.run(run_train_eval.run_options(flag_parsing.parse_flags(flags)))
