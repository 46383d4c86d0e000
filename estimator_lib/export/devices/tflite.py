"""Files for TFLite: written by TensorFlow's converter, run by its interpreter.

All are converted from a SavedModel with a signature: only this way keeps the names of inputs and
outputs, and custom ops. The input is pixels from 0 to 255: float32, or uint8 if the arithmetic is
int8. Outputs are float32 (and int64 classes).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import int8_tensors, static_graph, tflite_interpreter
from estimator_lib.export.devices.device_files import (
    DYNAMIC,
    FLOAT16,
    INT8,
    NONE,
    DeviceModel,
    DeviceWriter,
    FileModel,
)
from estimator_lib.export.devices.static_graph import StaticGraph
from estimator_lib.export.metadata import tflite_metadata
from estimator_lib.export.metadata.client_program import Runtime
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import Ops

tf1 = tf.compat.v1

_PIXELS = (0.0, 255.0)
_SIGNATURE = 'serving_default'
_EXPLAINED_IMAGES = 20  # on which a refused file is compared tensor by tensor


class TfliteWriter(DeviceWriter):
    """Format of TFLite files."""

    name = 'tflite'
    file_name = 'model.tflite'
    ops = Ops.TFLITE
    quantizes = (NONE, DYNAMIC, FLOAT16, INT8)
    ends_process = True
    runtime = Runtime(
        packages=('ai_edge_litert', 'tflite_runtime'),
        imports=(
            'try:',
            '    from ai_edge_litert.interpreter import Interpreter',
            'except ImportError:',
            '    from tflite_runtime.interpreter import Interpreter',
        ),
        load=(
            "interpreter = Interpreter(os.path.join(folder, 'model.tflite'))",
            "signature = interpreter.get_signature_runner('serving_default')",
            "dtype = about['inputs']['image']['dtype']",
            '',
            '',
            'def run(pixels):',
            "    pixels = pixels if dtype == 'float32' else np.clip(np.rint(pixels), 0, 255)",
            '    return signature(image=pixels[np.newaxis].astype(dtype))',
            '',
        ),
    )

    def convert(
        self,
        graph: StaticGraph,
        path: str,
        quantize: str,
        representative: Sequence[np.ndarray] = (),
    ) -> None:
        """Convert a network with the converter of TensorFlow."""
        with _converter(graph, quantize, representative) as converter:
            if self.keep_float:
                content = int8_tensors.convert(converter, self.keep_float)
            else:
                content = converter.convert()
        _require_custom_ops(content, graph.deployable.tflite_ops, path)
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(content)

    def explain(self, model: DeviceModel) -> Sequence[str]:
        """List the tensors that lose most in int8; those with ranges of training are not known."""
        if model.quantize != INT8 or model.graph.is_quantized:
            return ()
        with _converter(model.graph, INT8, model.representative) as converter:
            images = model.representative[:_EXPLAINED_IMAGES]
            return int8_tensors.describe(converter, images, self.keep_float)

    def write(self, model: DeviceModel, source: Source, folder: str) -> None:
        """Convert the network, and add the metadata of its input, outputs and classes."""
        super().write(model, source, folder)
        path = os.path.join(folder, self.file_name)
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = file.read()
        task, deployable = source.task, model.graph.deployable
        described = tflite_metadata.add(
            content, deployable, task.name, task.presentation.class_names, model.facts
        )
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(described)

    def load(self, path: str, num_threads: Optional[int] = None) -> FileModel:
        """Load a file in the interpreter of TFLite."""
        return TfliteModel(path, num_threads)


class TfliteModel(FileModel):
    """File in the interpreter of TFLite.

    Args:
        path: of the file.
        num_threads: that a run may take; None: as many as the interpreter likes.

    Raises:
        errors.UserError: it cannot be read, or is not one of ours: an image in, named outputs.
    """

    def __init__(self, path: str, num_threads: Optional[int] = None):
        loaded = tflite_interpreter.load(path, num_threads=num_threads)
        self._interpreter = loaded.interpreter
        self._run = self._runner(path)
        ((_, self._input),) = self._run.get_input_details().items()
        self.about = {
            'inputs': {static_graph.INPUT: _described(self._input, 'pixels from 0 to 255')},
            'outputs': {
                name: _described(one) for name, one in self._run.get_output_details().items()
            },
            'made_with': f'TensorFlow {tf.__version__}',
            'run_with': loaded.version,
        }

    def run(self, image: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the outputs for an image, float32 [1, *input_shape]."""
        if self._input['dtype'] != np.float32:
            image = np.clip(np.round(image), *_PIXELS).astype(self._input['dtype'])
        return dict(self._run(**{static_graph.INPUT: image}))

    def _runner(self, path: str) -> Any:
        inputs = self._interpreter.get_signature_list().get(_SIGNATURE, {}).get('inputs')
        if inputs != [static_graph.INPUT]:
            raise errors.UserError(
                f'{path}: a TFLite file with the inputs {inputs}; expected one that '
                f'--mode=export --format=tflite has written, with the input {static_graph.INPUT!r}.'
            )
        return self._interpreter.get_signature_runner(_SIGNATURE)


def _described(details: Any, meaning: str = '') -> Dict[str, Any]:
    """Describe an input or output for `export.json`."""
    scale, zero_point = details['quantization']
    return {
        'dtype': np.dtype(details['dtype']).name,
        'shape': [int(side) for side in details['shape']],
        **({'scale': float(scale), 'zero_point': int(zero_point)} if scale else {}),
        **({'meaning': meaning} if meaning else {}),
    }


def _check_representative(images: Sequence[np.ndarray], shape: Sequence[int]) -> None:
    """Refuse examples for which the converter would raise a late and unclear error."""
    if not len(images):
        raise errors.UserError(
            'int8: there are no representative examples; expected at least one image.'
        )
    for image in images:
        if image.shape != (1, *shape) or image.dtype != np.float32:
            raise errors.UserError(
                f'int8: a representative example is {image.dtype} {list(image.shape)}; expected '
                f'float32 {[1, *shape]}, what the network takes.'
            )


def _save(graph: StaticGraph, path: str, is_int8: bool) -> None:
    """Write the SavedModel that is converted."""
    with tf.Graph().as_default(), tf1.Session() as session:
        shape = [1, *graph.deployable.input_shape]
        image = tf1.placeholder(tf.float32, shape, static_graph.INPUT)
        taken = image
        if is_int8:
            # So that a step of the quantized input is a pixel's, whatever the examples hold.
            low, high = _PIXELS
            taken = tf.quantization.fake_quant_with_min_max_args(image, low, high)
        outputs = graph.add(taken, Ops.TFLITE_INT8 if is_int8 else Ops.TFLITE)
        tf1.saved_model.simple_save(session, path, {static_graph.INPUT: image}, outputs)


@contextlib.contextmanager
def _converter(
    graph: StaticGraph, quantize: str, representative: Sequence[np.ndarray]
) -> Iterator[Any]:
    """Give the block TensorFlow's converter of a network; raise its errors as `UserError`.

    Raises:
        errors.UserError: the network has an op that TFLite does not.
    """
    if quantize == INT8:
        _check_representative(representative, graph.deployable.input_shape)
    with tempfile.TemporaryDirectory() as folder:
        _save(graph, os.path.join(folder, 'saved_model'), is_int8=quantize == INT8)
        converter = tf.lite.TFLiteConverter.from_saved_model(os.path.join(folder, 'saved_model'))
        # Without this, an unknown op would become a custom op that no interpreter can run.
        converter.allow_custom_ops = bool(graph.deployable.tflite_ops)
        if quantize != NONE:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == FLOAT16:
            converter.target_spec.supported_types = [tf.float16]
        if quantize == INT8:
            converter.representative_dataset = lambda: ([image] for image in representative)
            # The second set lets ops without a kernel for int8, such as the suppression, stay in
            # float.
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
                tf.lite.OpsSet.TFLITE_BUILTINS,
            ]
            converter.inference_input_type = tf.uint8
        try:
            with tflite_interpreter.quiet():
                yield converter
        except errors.UserError:
            raise
        except Exception as error:  # the converter raises errors of any type
            reason = errors.first_line(error)
            raise errors.UserError(
                f'the network cannot be converted to TFLite: {reason}'
            ) from error


def _require_custom_ops(content: bytes, names: Sequence[str], path: str) -> None:
    missing = [name for name in sorted(names) if name.encode() not in content]
    if missing:
        raise errors.UserError(
            f'{os.path.basename(path)} was converted without the op {missing[0]}: it would answer '
            'every image with constants. No export is left.'
        )
