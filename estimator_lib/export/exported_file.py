"""Files of `--model_file`: how each is read, as a part of a task or by its outputs alone.

| file | read as |
| --- | --- |
| `.tflite`, `.onnx` of an export | `ExportedFile`, with the host's functions of the task |
| `.tflite` of another program | `foreign_tflite.TfliteFile` |
| `.pb`, a frozen graph of any program | `foreign_graph.GraphFile` |
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import (
    artifacts,
    export_folders,
    exported_model,
    formats,
    frozen_graph,
    serving,
)
from estimator_lib.export.devices import static_graph, tflite_interpreter
from estimator_lib.export.foreign import foreign_graph, foreign_tflite
from estimator_lib.export.foreign.foreign_file import ForeignFile
from estimator_lib.processes import child_processes, journals
from estimator_lib.task import Features, Task, Tensors
from estimator_lib.task_interfaces.deployable import NO_CHANGES, content

tf1 = tf.compat.v1

log = logging.getLogger('estimator_lib')

_MOST_SECONDS = 120  # of the process that tries a file

# Files of any program, by the ends of their names.
_FOREIGN: Mapping[str, Callable[[str], ForeignFile]] = {
    '.tflite': foreign_tflite.TfliteFile,
    foreign_graph.ENDING: foreign_graph.GraphFile,
}


class ExportedFile:
    """File for devices with the host's functions of its task before and after it.

    Args:
        task: the task of the model.
        path: the path of the file; the end of its name gives the format.

    Attributes:
        path: of the file.
        scales_down_to: see `Deployable`.
        takes_images: whether it takes whole images: `serving.with_requests` has them as features.

    Raises:
        errors.UserError: the file cannot be run, or is of another model than the task.
    """

    def __init__(self, task: Task, path: str):
        self.path = path
        check(path)
        writer = formats.writer_of_file(path)
        check_content(path, writer.ends_process)
        self._model = writer.load(path)
        self._outputs = self._model.about['outputs']
        self._deployable = task.deployable(writer.ops, NO_CHANGES).of_file(self._outputs)
        self.scales_down_to = self._deployable.scales_down_to
        self._input = self._model.about['inputs'][static_graph.INPUT]
        sides = _known(self._input['shape'])[1:3]
        self.takes_images = self._input['dtype'] == 'uint8' and None in sides
        self._check_fit()
        artifacts.check_classes(path, task.presentation.class_names)

    def outputs(self, features: Features) -> Tensors:
        """Build the outputs of `Task.postprocess`, computed by the file instead of the network.

        Args:
            features: from `Task.prepare` in evaluation or from `Task.serving_features`.
        """
        pixels = self._deployable.pixels(features)
        sizes = self._deployable.content_sizes(features)
        names = list(self._outputs)
        types = [tf.as_dtype(self._outputs[name]['dtype']) for name in names]
        inputs = [pixels] if sizes is None else [pixels, sizes]
        run: Callable[..., Any] = self._run
        if self.takes_images:
            run, inputs = self._run_whole, [features[serving.REQUEST]]
        computed = tf.numpy_function(run, inputs, types, stateful=False)
        for name, output in zip(names, computed):
            output.set_shape([pixels.shape[0], *_known(self._outputs[name]['shape'])[1:]])
        return self._deployable.outputs(dict(zip(names, computed)), features)

    def _run(self, pixels: np.ndarray, sizes: Optional[np.ndarray] = None) -> Any:
        """Run the file on each image of a batch, and return the outputs of the batch."""
        rows = [self._model.run(image) for image in content(pixels, sizes)]
        return [np.concatenate([row[name] for row in rows]) for name in self._outputs]

    def _run_whole(self, requests: Sequence[bytes]) -> Any:
        """Run the file on each whole image, and return the outputs of the batch."""
        images = map(serving.read_request, requests)
        rows = [self._model.run(image[np.newaxis]) for image in images]
        return [np.concatenate([row[name] for row in rows]) for name in self._outputs]

    def _check_fit(self) -> None:
        described = self._input['shape']
        shape = list(self._deployable.input_shape)
        if _known(described[1:]) != shape and not self.takes_images:
            raise errors.UserError(
                f'{self.path} takes an image of {list(described)}, and the network of the config '
                f'one of {[1, *shape]}; expected the {artifacts.CONFIG_FILE} that was exported '
                'with it.'
            )
        # `sizes` has the shapes of some outputs, `meanings` the names of all.
        actual = {name: _known(about['shape'])[1:] for name, about in self._outputs.items()}
        named = {name: actual.get(name, ()) for name in sorted(self._deployable.meanings)}
        artifacts.check_outputs(self.path, {**named, **self._deployable.sizes}, actual)


class FilePredictor(exported_model.Predictor):
    """Predictor of a file, whose outputs have the names and sizes of those of a SavedModel.

    Args:
        task: see `ExportedFile`.
        path: see `ExportedFile`.
    """

    def __init__(self, task: Task, path: str):
        self.path = path
        file = ExportedFile(task, path)
        self._largest = file.scales_down_to

        def load(session: tf1.Session) -> Any:
            del session
            served = serving.image_placeholder(task)
            features = task.serving_features(served)
            if file.takes_images:
                requests = tf.map_fn(tf.io.serialize_tensor, served, fn_output_signature=tf.string)
                features = {**features, serving.REQUEST: requests}
            outputs = task.export_outputs(file.outputs(features))
            return tf1.saved_model.predict_signature_def({serving.INPUT_KEY: served}, outputs)

        self._open(load)

    def predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the outputs for a batch of images; log once that large ones are scaled down."""
        largest = self._largest
        if largest and any(side > most for side, most in zip(images.shape[1:3], largest)):
            self._largest = None
            log.warning(
                '%s takes images of %d x %d: larger ones are scaled down, and their results up; '
                '--tile=%d computes each pixel at its own size',
                self.path,
                *largest,
                min(largest),
            )
        return super().predict(images)


def _known(shape: Sequence[Any]) -> List[Optional[int]]:
    """Return a shape with None for the sides that have names."""
    return [side if isinstance(side, int) else None for side in shape]


def endings() -> List[str]:
    """Return the ends of the names of files: `.tflite`, `.onnx`, `.pb`."""
    return [*formats.endings(), foreign_graph.ENDING]


def is_file(path: Optional[str]) -> bool:
    """Return True for the path of a file, by the end of its name."""
    return bool(path) and _ending(str(path)) in endings()


def is_foreign(path: str) -> bool:
    """Return True for a file that is read by its outputs alone: no `Deployable` belongs to it.

    Args:
        path: of a file that `check` accepts.
    """
    if _ending(path) != foreign_tflite.ENDING:
        return _ending(path) in _FOREIGN
    return not tflite_interpreter.has_input(path, static_graph.INPUT)


def open_foreign(path: str) -> ForeignFile:
    """Open a file of any program.

    Raises:
        errors.UserError: it cannot be run, or has other inputs than one image; it has changed since
            its export.
    """
    check(path)
    check_content(path, ends_process=True)
    return _FOREIGN[_ending(path)](path)


def _ending(path: str) -> str:
    return os.path.splitext(path)[1]


def check(path: str) -> None:
    """Check that a path is that of a file of a known format.

    Raises:
        errors.UserError: the path is missing, a folder, or a file of an unknown format.
    """
    listed = ' or '.join(endings())
    if tf.io.gfile.isdir(path):
        raise errors.UserError(f'{path} is a folder; expected a file in it, {listed}.')
    if not tf.io.gfile.exists(path):
        raise errors.UserError(
            f'{path} is not there{errors.relative_to(path)}; expected a file, {listed}.'
        )
    if os.path.basename(path) == export_folders.SAVED_MODEL_FILE:
        raise errors.UserError(
            f'{path} is a part of a SavedModel; expected --saved_model_dir='
            f'{os.path.dirname(path) or "."}.'
        )
    if not is_file(path):
        raise errors.UserError(
            f'{path}: a file of no known format; expected one that ends with {listed}.'
        )


def check_content(path: str, ends_process: bool) -> None:
    """Check a file before it is loaded.

    A file with an `export.json` beside it must have the size and checksum in there. Any other file
    is first run in another process if a corrupt one would end this process.

    Args:
        path: of the file.
        ends_process: whether the interpreter ends its process where a file is corrupt.

    Raises:
        errors.UserError: the file has changed since its export, or another process cannot run it.
    """
    about = artifacts.read_about(path)
    is_exported = _is_described(path, about)
    if is_exported:
        artifacts.check_file(path, about)
    if ends_process and not (is_exported and artifacts.DIGEST in about):
        # This process does not try what that one has refused: a corrupt file that raises an error
        # in one process may end another one.
        _try_apart(path, tuple(journals.stamp(path) or ()))


@functools.lru_cache(maxsize=8)
def _try_apart(path: str, stamp: Tuple[int, ...]) -> None:
    """Run a file in another process, once for a state of the file."""
    del stamp
    child_processes.try_apart(__name__, path, path=path, seconds=_MOST_SECONDS)


def _is_described(path: str, about: Mapping[str, Any]) -> bool:
    """Return whether an `export.json` is about a file, and not about another one beside it."""
    is_graph = about.get('format') == frozen_graph.FrozenGraphWriter.name
    return (_ending(path) == foreign_graph.ENDING) == is_graph


def main(arguments: Sequence[str]) -> None:
    """Load and run a file, for `child_processes.try_apart`.

    Args:
        arguments: the path of the file.
    """
    with child_processes.telling_refusals():
        (path,) = arguments
        if is_foreign(path):
            _FOREIGN[_ending(path)](path).output_shapes()
            return
        model = formats.writer_of_file(path).load(path)
        model.run(np.zeros(model.about['inputs'][static_graph.INPUT]['shape'], np.float32))


if __name__ == '__main__':
    main(sys.argv[1:])
