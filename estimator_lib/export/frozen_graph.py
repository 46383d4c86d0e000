"""Trained models as frozen graphs: one file, the way of programs that feed and fetch by name.

    graph_def.ParseFromString(open('frozen_inference_graph.pb', 'rb').read())
    tf.import_graph_def(graph_def, name='')
    session.run('detection_boxes:0', {'image_tensor:0': images})

The input is that of the published programs, uint8 images of any size; outputs are named as they are
in the signature of a SavedModel. What was written is read again and run beside the network with its
variables: an export whose outputs differ does not stay.
"""

from __future__ import annotations

import logging
import os
from typing import Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.export import agreement, artifacts, exporting, freezing, samples, serving
from estimator_lib.task import Task
from protos import export_pb2, pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

FILE = 'frozen_inference_graph.pb'

_IMAGES = 8  # that the file is run on
_LEAST_AGREEMENT = 0.99


def export_frozen_graph(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str, export_dir: str
) -> str:
    """Writes the model of a checkpoint as `export_dir/<timestamp>/frozen_inference_graph.pb`.

    Beside it are `pipeline.config`, `export.json` (inputs, outputs, agreement, origin),
    `labels.txt` and the files of `Task.asset_files`. The folder appears under its name when it is
    complete.

    Args:
        task: what is exported.
        config: see `exporting.export_saved_model`.
        checkpoint: its prefix, or its folder.
        export_dir: made when it is not there.

    Returns:
        The path of the new folder.

    Raises:
        errors.CheckpointError: the checkpoint is not there, or not of this model.
        errors.UserError: `export_dir` cannot be written to, or what was written computes something
            else than the model.
    """
    prefix = checkpoint_files.resolve_checkpoint(checkpoint)
    sample = samples.of_evaluation(task, config, _IMAGES)
    images = sample.images
    graph_def, expected = _frozen(task, config, prefix, images)
    name = task.image_tensor_name()
    _rename(graph_def, serving.IMAGE_TENSOR, name)

    def write(unfinished: str) -> None:
        tf.io.gfile.makedirs(unfinished)
        path = os.path.join(unfinished, FILE)
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(graph_def.SerializeToString())
        found = run_file(path, f'{name}:0', list(expected[0]), images)
        parts = agreement.compare(expected, found)
        agreement.require(parts, _LEAST_AGREEMENT, path)
        about = {
            'format': 'frozen_graph',
            'inputs': {f'{name}:0': 'uint8 [batch, height, width, 3]'},
            'outputs': {f'{key}:0': _described(value) for key, value in expected[0].items()},
            'agreement': {'images': str(sample), 'outputs': parts},
            'origin': exporting.origin(config, prefix),
        }
        artifacts.write(unfinished, task, config, about)
        log.info('%s', agreement.line(parts, str(sample)))

    path = exporting.write_whole(export_dir, write)
    log.info('exported %s to %s', prefix, path)
    return path


def run_file(
    path: str, input_name: str, keys: Sequence[str], images: Sequence[np.ndarray]
) -> Sequence[Mapping[str, np.ndarray]]:
    """The outputs of a frozen graph for images, one at a time.

    Args:
        path: of the file.
        input_name: of the tensor that takes [1, height, width, 3].
        keys: the names of outputs.
        images: uint8 [height, width, 3] each.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        graph_def = tf1.GraphDef()
        with tf.io.gfile.GFile(path, 'rb') as file:
            graph_def.ParseFromString(file.read())
        tf1.import_graph_def(graph_def, name='')
        fetches = {key: f'{key}:0' for key in keys}
        return [session.run(fetches, {input_name: image[np.newaxis]}) for image in images]


def _frozen(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    prefix: str,
    images: Sequence[np.ndarray],
) -> Tuple[tf1.GraphDef, Sequence[Mapping[str, np.ndarray]]]:
    """The graph with constants for variables, and what the network with variables computes."""
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(task, export_pb2.IMAGE_TENSOR)()
        received = receiver.receiver_tensors[serving.INPUT_KEY]
        outputs = exporting.build_outputs(task, receiver.features)
        averages = config.eval_config.use_moving_averages
        with exporting.trained_session(prefix, averages, task) as session:
            expected = [session.run(outputs, {received: image[np.newaxis]}) for image in images]
            tensors = list(outputs.values())
            frozen = freezing.freeze(session, tensors)
        return freezing.fold_batch_norms(frozen, tensors).to_graph_def(), expected


def _rename(graph_def: tf1.GraphDef, old: str, new: str) -> None:
    """Gives a node of a graph another name."""
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
