"""Run of an exported file in a runtime of others, without TensorFlow, in a process of its own.

python -m benchmarks.serving.runtimes RUNTIME MODEL INPUTS.npz OUTPUTS.npz NAME,NAME
"""

from __future__ import annotations

import sys
from typing import Callable, Dict, Mapping, Optional, Sequence

import numpy as np

from estimator_lib import errors
from estimator_lib.processes import child_processes

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]
# Starts of lines of errors that tell places in the sources of a runtime, or nothing.
_PLACES = ('Exception from', 'Check ', 'While validating', 'Model was', 'OpenCV(')
_MOST_CHARACTERS = 120


def open_vino(path: str, names: Sequence[str]) -> Run:
    """Load a model in OpenVINO; it computes in float32.

    Args:
        path: of the model.
        names: of its outputs, in their order in the file.
    """
    import openvino

    model = openvino.Core().compile_model(path, 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    places: Dict[str, int] = {}
    for index, port in enumerate(model.outputs):
        known = {name.partition(':')[0] for name in port.get_names()} & set(names)
        # A TFLite file has the names in its signature, which OpenVINO does not read.
        places[known.pop() if known else names[index]] = index

    def run(image: np.ndarray) -> Mapping[str, np.ndarray]:
        found = model([image])
        return {name: np.asarray(found[index]) for name, index in places.items()}

    return run


def open_cv(path: str, names: Sequence[str]) -> Run:
    """Load an ONNX file in OpenCV."""
    import cv2

    network = cv2.dnn.readNetFromONNX(path)

    def run(image: np.ndarray) -> Mapping[str, np.ndarray]:
        network.setInput(image)
        return dict(zip(names, network.forward(list(names))))

    return run


LOADERS: Mapping[str, Callable[[str, Sequence[str]], Run]] = {
    'openvino': open_vino,
    'cv2': open_cv,
}


def reason(error: Exception) -> str:
    """Return the line of an error that says most, shortened."""
    lines = [line.strip('>- ') for line in str(error).splitlines() if line.strip('>- ')]
    told = [line for line in lines if not line.startswith(_PLACES) and not line.endswith(':')]
    text = ' '.join((told or lines or [type(error).__name__])[0].split())
    return text if len(text) <= _MOST_CHARACTERS else f'{text[:_MOST_CHARACTERS]} ..'


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the model that the command line names, and write its outputs of each input."""
    runtime, path, inputs, outputs, names = sys.argv[1:] if arguments is None else arguments
    with np.load(inputs) as content, child_processes.telling_refusals():
        try:
            run = LOADERS[runtime](path, names.split(','))
            found = {
                f'{key}/{name}': value
                for key in content.files
                for name, value in run(content[key]).items()
            }
        except Exception as error:  # each runtime has errors of its own
            raise errors.UserError(reason(error)) from error
    np.savez(outputs, **found)


if __name__ == '__main__':
    main()
