"""TFLite files of any program, which have no signature that tells what they take and give."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib.export import serving
from estimator_lib.export.devices import tflite_interpreter
from estimator_lib.export.foreign.foreign_file import ForeignFile, ImageInput, refuse
from estimator_lib.export.metadata import tflite_metadata
from estimator_lib.task import Tensors

ENDING = '.tflite'

# By type of the input: the values of black and white. A quantized input is fed pixels, whatever its
# scale; floating-point ones of published networks are from -1 to 1 unless the metadata tell.
_RANGES: Mapping[Any, Any] = {
    np.uint8: ((0.0,), (255.0,)),
    np.int8: ((-128.0,), (127.0,)),
    np.float32: ((-1.0,), (1.0,)),
}


class TfliteFile(ForeignFile):
    """TFLite file with one input, an image.

    Args:
        path: of the file.

    Raises:
        errors.UserError: it cannot be run, or has no such input.
    """

    def __init__(self, path: str):
        self.path = path
        self._interpreter = tflite_interpreter.load(path).interpreter
        inputs = self._interpreter.get_input_details()
        if len(inputs) != 1 or len(inputs[0]['shape']) != 4 or inputs[0]['dtype'] not in _RANGES:
            listed = [f'{each["dtype"].__name__} {each["shape"].tolist()}' for each in inputs]
            raise refuse(path, f'its inputs are {", ".join(listed) or "none"}; expected one image')
        self._input = inputs[0]
        self._outputs = self._interpreter.get_output_details()
        metadata = tflite_metadata.read(path)
        self.labels = metadata.labels
        black, white = _RANGES[self._input['dtype']]
        if metadata.mean and self._input['dtype'] == np.float32:
            ends = zip(metadata.mean, metadata.deviation)
            black, white = zip(*((-mean / std, (255 - mean) / std) for mean, std in ends))
        self.image = ImageInput(
            serving.IMAGE_TENSOR,
            tf.as_dtype(self._input['dtype']),
            [int(side) for side in self._input['shape']],
            black,
            white,
        )

    def compute(self, images: tf.Tensor) -> Tensors:
        """Add the interpreter as an op."""
        computed = tf.numpy_function(
            self._run, [images], [tf.float32] * len(self._outputs), stateful=False
        )
        named: Dict[str, tf.Tensor] = {}
        for index, (details, output) in enumerate(zip(self._outputs, computed)):
            shape = [int(side) for side in details['shape']]
            # Names may be equal.
            named[f'{index}:{details["name"]}'] = tf.ensure_shape(output, shape)
        return named

    def _run(self, images: np.ndarray) -> List[np.ndarray]:
        self._interpreter.set_tensor(self._input['index'], images)
        self._interpreter.invoke()
        return [
            _dequantized(self._interpreter.get_tensor(each['index']), each)
            for each in self._outputs
        ]


def _dequantized(value: np.ndarray, details: Mapping[str, Any]) -> np.ndarray:
    """Return an output as float32: (value - zero point) * scale."""
    scale, zero_point = details['quantization']
    if scale:
        return ((value.astype(np.float32) - zero_point) * scale).astype(np.float32)
    return value.astype(np.float32)
