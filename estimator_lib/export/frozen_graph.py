"""Trained models as frozen graphs: one file, the way of programs that feed and fetch by name.

    graph_def.ParseFromString(open('frozen_inference_graph.pb', 'rb').read())
    tf.import_graph_def(graph_def, name='')
    session.run('detection_boxes:0', {'image_tensor:0': images})

The input is that of the published programs, uint8 images of any size; outputs are named as they are
in the signature of a SavedModel. What was written is read again and run beside the network with its
variables: an export whose outputs differ does not stay.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Dict, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.data.record_sources import input_files
from estimator_lib.export import exporting, freezing, serving
from estimator_lib.task import IMAGE, Task
from protos import export_pb2, pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

FILE = 'frozen_inference_graph.pb'
EXPORT_FILE = 'export.json'
CONFIG_FILE = 'pipeline.config'

_IMAGES = 8  # that the file is run on
_LEAST_AGREEMENT = 0.99
# Folding batch norm rounds otherwise than batch norm does.
_TOLERANCE = {'rtol': 1e-3, 'atol': 1e-4}


def export_frozen_graph(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str, export_dir: str
) -> str:
    """Writes the model of a checkpoint as `export_dir/<timestamp>/frozen_inference_graph.pb`.

    Beside it are `pipeline.config`, `export.json` (inputs, outputs, agreement, origin), and the
    files of `Task.asset_files`. The folder appears under its name when it is complete.

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
    kind, images = _sample(task, config)
    graph_def, expected = _frozen(task, config, prefix, images)
    name = task.image_tensor_name()
    _rename(graph_def, serving.IMAGE_TENSOR, name)

    def write(unfinished: str) -> None:
        tf.io.gfile.makedirs(unfinished)
        path = os.path.join(unfinished, FILE)
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(graph_def.SerializeToString())
        found = run_file(path, f'{name}:0', list(expected[0]), images)
        agreement = compare(expected, found)
        _require(agreement, path)
        about = {
            'format': 'frozen_graph',
            'inputs': {f'{name}:0': 'uint8 [batch, height, width, 3]'},
            'outputs': {f'{key}:0': _described(value) for key, value in expected[0].items()},
            'agreement': {'images': f'{len(images)} {kind}', 'outputs': agreement},
            'origin': exporting.origin(config, prefix),
        }
        texts = {
            CONFIG_FILE: text_format.MessageToString(config, as_utf8=True),
            EXPORT_FILE: json.dumps(about, indent=2) + '\n',
            **task.asset_files(),
        }
        for file_name, text in texts.items():
            with tf.io.gfile.GFile(os.path.join(unfinished, file_name), 'w') as file:
                file.write(text)
        log.info('%s', _agreement_line(agreement, f'{len(images)} {kind}'))

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


def compare(
    expected: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, np.ndarray]]
) -> Dict[str, float]:
    """How much of each output is as expected, in [0, 1].

    Args:
        expected: outputs of each image, by name.
        found: those that are compared with them.

    Returns:
        By name, the part of the numbers that are equal, or close where they are floats; 0 where
        shapes differ.
    """
    parts: Dict[str, float] = {}
    for name in expected[0]:
        same = [_close(want[name], got[name]) for want, got in zip(expected, found)]
        parts[name] = float(np.mean(np.concatenate(same))) if same else 0.0
    return parts


def _close(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    if expected.shape != found.shape:
        return np.zeros([1], bool)
    if expected.dtype.kind != 'f':
        return np.ravel(expected == found)
    return np.ravel(np.isclose(found, expected, **_TOLERANCE))


def _require(agreement: Mapping[str, float], path: str) -> None:
    worst = min(agreement, key=lambda name: agreement[name])
    if agreement[worst] < _LEAST_AGREEMENT:
        raise errors.UserError(
            f'{os.path.basename(path)} was written and computes something else than the model: '
            f'{agreement[worst]:.1%} of {worst} agree; expected at least {_LEAST_AGREEMENT:.0%}. '
            'No export is left.'
        )


def _agreement_line(agreement: Mapping[str, float], images: str) -> str:
    parts = ', '.join(f'{name} {part:.2%}' for name, part in agreement.items())
    return f'agreement with the network on {images}: {parts}'


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
            graph_def = freezing.freeze(session, tensors)
        return freezing.fold_batch_norms(graph_def, tensors), expected


def _sample(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig
) -> Tuple[str, Sequence[np.ndarray]]:
    """Images to run the file on, and what they are: those of the evaluation, where they are here.

    Returns:
        A word for them, and uint8 [height, width, 3] each.
    """
    for reader in config.eval_input_reader:
        try:
            files = [file.path for file in input_files(reader)]
        except errors.UserError:
            continue
        found = _decoded(task, files)
        if found:
            return 'images of the evaluation', found
    random = np.random.RandomState(0)
    return 'images of noise', [
        random.randint(0, 256, [320, 320, 3]).astype(np.uint8) for _ in range(_IMAGES)
    ]


def _decoded(task: Task, files: Sequence[str]) -> Sequence[np.ndarray]:
    """The images of the first records that can be decoded."""
    with tf.Graph().as_default(), tf1.Session() as session:
        examples = tf.data.TFRecordDataset(files).map(lambda one: task.decode(one)[IMAGE])
        images = examples.ignore_errors().take(_IMAGES)
        # Tables of label names are looked up: such an input has to be initialised.
        iterator = tf1.data.make_initializable_iterator(images)
        following = iterator.get_next()
        session.run([tf1.tables_initializer(), iterator.initializer])
        found = []
        try:
            while True:
                image = session.run(following)
                found.append(np.clip(np.round(image), 0, 255).astype(np.uint8))
        except tf.errors.OutOfRangeError:
            return [image for image in found if image.shape[-1] == 3]


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
