"""Frozen graphs: one file, for programs that feed and fetch by name.

    graph_def.ParseFromString(open('frozen_inference_graph.pb', 'rb').read())
    tf.import_graph_def(graph_def, name='')
    session.run('detection_boxes:0', {'image_tensor:0': images})

The input is that of the published programs, uint8 images of any size. Outputs are named as in the
signature of a SavedModel. The file is read again and run beside the network with its variables.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import environment, errors
from estimator_lib.export import artifacts, inference_graph, samples, serving
from estimator_lib.export.metadata import model_facts
from estimator_lib.export.samples import Sample
from estimator_lib.export.writers import Source, Writer
from estimator_lib.task import Arrays
from estimator_lib.task_interfaces import agreement
from protos import export_pb2

tf1 = tf.compat.v1

_IMAGES = 8  # that the file is run on
# Not 1: folded batch norm rounds otherwise, which decides between results of nearly equal scores.
_LEAST_AGREEMENT = 0.99


class FrozenModel(NamedTuple):
    """Frozen graph and what it must compute.

    Attributes:
        graph_def: with constants in place of variables.
        input_name: of the node that takes images.
        sample: images that the file is run on.
        expected: outputs of the network with variables, of each of these images.
    """

    graph_def: tf1.GraphDef
    input_name: str
    sample: Sample
    expected: Sequence[Arrays]


@dataclasses.dataclass(frozen=True)
class FrozenGraphWriter(Writer[FrozenModel]):
    """Format of frozen graphs.

    Attributes:
        input_type: `serving.IMAGE_TENSOR`, or None for the same.
    """

    input_type: Optional[str] = None

    name = 'frozen_graph'
    file_name = 'frozen_inference_graph.pb'

    def build(self, source: Source) -> FrozenModel:
        """Build the inference graph, and run the network with its variables on images.

        Raises:
            errors.UserError: `input_type` is another one than that of a frozen graph.
        """
        if self.input_type not in (None, serving.IMAGE_TENSOR):
            raise errors.UserError(
                f'--input_type={self.input_type}: a frozen graph takes {serving.IMAGE_TENSOR}; '
                'expected that, or --format=saved_model.'
            )
        sample = samples.evaluation_images(source.task, source.config, _IMAGES)
        built = inference_graph.build(source, export_pb2.IMAGE_TENSOR, sample.images)
        graph_def = built.frozen.to_graph_def()
        name = source.task.image_tensor_name()
        _rename(graph_def, serving.IMAGE_TENSOR, name)
        return FrozenModel(graph_def, name, sample, built.expected)

    def write(self, model: FrozenModel, source: Source, folder: str) -> None:
        """Write the graph as one protocol buffer."""
        with tf.io.gfile.GFile(os.path.join(folder, self.file_name), 'wb') as file:
            # Attributes of nodes are maps, which have no order otherwise: equal models are equal
            # files.
            file.write(model.graph_def.SerializeToString(deterministic=True))

    def verify(self, model: FrozenModel, source: Source, folder: str) -> Dict[str, Any]:
        """Run the file on the images, beside the network."""
        path = os.path.join(folder, self.file_name)
        outputs = model.expected[0]
        computed = run_file(path, f'{model.input_name}:0', list(outputs), model.sample.images)
        parts = source.task.compare_served(model.expected, computed)
        agreement.require(parts, _LEAST_AGREEMENT, path, str(model.sample))
        dtype, channels = source.task.image_format.dtype, source.task.image_format.channels
        return {
            **model_facts.describe_origin(source),
            'inputs': {f'{model.input_name}:0': f'{dtype.name} [batch, height, width, {channels}]'},
            'outputs': {f'{key}:0': _described(value) for key, value in outputs.items()},
            'environment': environment.SERVER_VARIABLES,
            'agreement': {'images': str(model.sample), 'outputs': parts},
            **artifacts.describe_file(path),
        }


def run_file(
    path: str, input_name: str, keys: Sequence[str], images: Sequence[np.ndarray]
) -> List[Mapping[str, np.ndarray]]:
    """Return the outputs of a frozen graph for images, one at a time.

    Args:
        path: of the file.
        input_name: of the tensor that takes [1, height, width, 3].
        keys: the names of outputs.
        images: uint8 [height, width, 3] each.
    """
    fetches = {key: f'{key}:0' for key in keys}
    with open_file(path) as session:
        return [session.run(fetches, {input_name: image[np.newaxis]}) for image in images]


def open_file(path: str) -> tf1.Session:
    """Open a session with the graph of a file; the caller closes it.

    Raises:
        errors.UserError: the file has changed since its export.
    """
    about = artifacts.read_about(path)
    if about.get('format') == FrozenGraphWriter.name:
        artifacts.check_file(path, about)
    graph_def = tf1.GraphDef()
    with tf.io.gfile.GFile(path, 'rb') as file:
        graph_def.ParseFromString(file.read())
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(graph_def, name='')
    return tf1.Session(graph=graph)


def _rename(graph_def: tf1.GraphDef, old: str, new: str) -> None:
    """Give a node of a graph another name."""
    if any(node.name == new for node in graph_def.node) and old != new:
        raise ValueError(f'the graph has another node {new!r}')
    for node in graph_def.node:
        if node.name == old:
            node.name = new
        for index, name in enumerate(node.input):
            base, colon, place = name.lstrip('^').partition(':')
            if base == old:
                node.input[index] = ('^' if name.startswith('^') else '') + new + colon + place


def _described(value: np.ndarray) -> str:
    sides = ', '.join(map(str, ('batch', *value.shape[1:])))
    return f'{value.dtype} [{sides}]'
