"""Running a file for devices as the host around it does: images in, a task's outputs out."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.export import (
    artifacts,
    exported_model,
    formats,
    integrity,
    serving,
    static_graph,
)
from estimator_lib.task import Features, Task, Tensors

tf1 = tf.compat.v1


class ExportedFile:
    """A file and the graph functions of its task on either side of it.

    Args:
        task: of the model that the file is of.
        path: of the file; its format is told by the end of its name.

    Attributes:
        path: of the file.

    Raises:
        errors.UserError: the file cannot be run, or is of another model than the task.
    """

    def __init__(self, task: Task, path: str):
        self.path = path
        check(path)
        writer = formats.writer_of_file(path)
        integrity.check(path, writer.ends_process)
        self._deployable = task.deployable(writer.ops, {})
        self._model = writer.load(path)
        self._outputs = self._model.about['outputs']
        self._check_fit()

    def outputs(self, features: Features) -> Tensors:
        """What `Task.postprocess` would give of a batch, had the file's numbers been the network's.

        Args:
            features: from `Task.prepare` in evaluation or from `Task.serving_features`.
        """
        pixels = self._deployable.pixels(features)
        names = list(self._outputs)
        types = [tf.as_dtype(self._outputs[name]['dtype']) for name in names]
        found = tf.numpy_function(self._run, [pixels], types, stateful=False)
        for name, one in zip(names, found):
            one.set_shape([pixels.shape[0], *self._outputs[name]['shape'][1:]])
        return self._deployable.outputs(dict(zip(names, found)), features)

    def _run(self, pixels: np.ndarray) -> Any:
        """The outputs of a batch, which the file takes image by image."""
        found = [self._model.run(pixels[index : index + 1]) for index in range(len(pixels))]
        return [np.concatenate([one[name] for one in found]) for name in self._outputs]

    def _check_fit(self) -> None:
        described = self._model.about['inputs'][static_graph.INPUT]['shape']
        shape = [1, *self._deployable.input_shape]
        if list(described) != shape:
            raise errors.UserError(
                f'{self.path} takes an image of {list(described)}, and the network of the config '
                f'one of {shape}; expected the {artifacts.CONFIG_FILE} that was exported with it.'
            )
        missing = sorted(set(self._deployable.meanings) - set(self._outputs))
        if missing:
            raise errors.UserError(
                f'{self.path} has no output {missing[0]!r}, which the network of the config has; '
                f'expected the {artifacts.CONFIG_FILE} that was exported with it.'
            )


class FilePredictor(exported_model.Predictor):
    """A file as a predictor: what it answers has the names and sizes of a SavedModel's answers.

    Args:
        task: see `ExportedFile`.
        path: see `ExportedFile`.
    """

    def __init__(self, task: Task, path: str):
        self.path = path
        file = ExportedFile(task, path)

        def load(session: tf1.Session) -> Any:
            del session
            served = tf1.placeholder(tf.uint8, [None, None, None, 3], serving.IMAGE_TENSOR)
            found = task.export_outputs(file.outputs(task.serving_features(served)))
            return tf1.saved_model.predict_signature_def({serving.INPUT_KEY: served}, found)

        self._open(load)

    @property
    def config_path(self) -> Optional[str]:
        """See `Predictor`."""
        return config_beside(self.path)

    @property
    def metrics(self) -> Dict[str, float]:
        """See `Predictor`."""
        return evaluated.of_first_set(metrics_beside(self.path))


def is_file(path: Optional[str]) -> bool:
    """Whether a path is one of a file for devices, by the end of its name."""
    return bool(path) and os.path.splitext(path)[1] in formats.endings()


def check(path: str) -> None:
    """Refuses what is no file.

    Raises:
        errors.UserError: there is nothing at the path, a folder, or a file of no known format.
    """
    listed = ' or '.join(formats.endings())
    if tf.io.gfile.isdir(path):
        raise errors.UserError(f'{path} is a folder; expected a file in it, {listed}.')
    if not tf.io.gfile.exists(path):
        raise errors.UserError(f'{path} is not there; expected a file, {listed}.')
    formats.writer_of_file(path)


def config_beside(path: str) -> Optional[str]:
    """The pipeline config that was written beside a file; None where there is none."""
    config = os.path.join(os.path.dirname(path), artifacts.CONFIG_FILE)
    return config if tf.io.gfile.exists(config) else None


def metrics_beside(path: str) -> Dict[str, Any]:
    """The metrics of the checkpoint that a file was written from; empty where it had none."""
    return checkpoint_files.read_state(os.path.join(os.path.dirname(path), evaluated.METRICS_FILE))


def step_of(path: str) -> int:
    """The global step of the checkpoint that a file was written from; 0 where it is not known."""
    about = checkpoint_files.read_state(os.path.join(os.path.dirname(path), artifacts.EXPORT_FILE))
    return int(about.get('origin', {}).get('global_step') or 0)
