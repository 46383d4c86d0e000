"""Table of families, formats and runtimes, for docs/devices.md.

    python -m benchmarks.serving.devices [--families=single-shot,CenterNet] [--images=2]

Each family is the model of a config of the package with random weights. Its exports run in every
runtime that is installed: TensorFlow, the interpreter of TFLite, onnxruntime, OpenVINO, OpenCV. A
cell has the largest difference of a number, or the sentence of a refusal. The runtime of a format
is compared with the checkpoint; OpenVINO and OpenCV are compared with that runtime, in a process
for each cell, which they may end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import model_variables
from estimator_lib.export import artifacts, exporting, formats, inference_graph, samples
from estimator_lib.export.devices.device_files import DeviceWriter
from estimator_lib.export.saved_model import SavedModelWriter
from estimator_lib.export.writers import Source, Writer
from estimator_lib.processes import child_processes
from estimator_lib.task import Arrays, Task
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.deployable import NO_CHANGES, Deployable
from model_fns import build_task
from model_fns.cli import builtin_configs
from protos import export_pb2, model_pb2, pipeline_pb2
from vision_extras.benchmark import timing

tf1 = tf.compat.v1

FAMILIES = {
    'classification': 'signs_mobilenet_v1',
    'segmentation': 'demo_masks',
    'segmentation with instances': 'nuclei_deeplab_mobilenet_v2',
    'single-shot': 'bccd_ssd',
    'rotated single-shot': 'demo_rotated',
    'EfficientDet': 'demo_efficientdet',
    'CenterNet': 'demo_centernet',
    'Faster R-CNN': 'bccd_faster_rcnn',
    'Mask R-CNN': 'demo_mask_rcnn',
    'Keypoint R-CNN with a pyramid': 'demo_keypoint_rcnn',
}
HEAD = ('family', 'format', 'runtime of the format', 'OpenVINO', 'OpenCV')
# Packages of the last columns, and the formats that they read.
OTHERS = {
    'openvino': ('saved_model', 'frozen_graph', 'tflite', 'onnx'),
    'cv2': ('onnx',),
}
_NONE = '-'
_LEAST_AGREEMENT = 0.97
_MOST_SECONDS = 300


class Exported(NamedTuple):
    """Export of a model, and what the runtime of its format computes.

    Attributes:
        path: of its file, or of a SavedModel's folder.
        inputs: what it takes, each with a batch dimension of 1.
        outputs: of each input, by name, in the order of the file.
        deployable: of a file for devices; None: it is for servers.
        task: of the model.
    """

    path: str
    inputs: Sequence[np.ndarray]
    outputs: Sequence[Arrays]
    deployable: Optional[Deployable]
    task: Task


def builtin_model(name: str) -> model_pb2.DetectionModel:
    """Return the model of a config of the package."""
    text = builtin_configs.builtin_configs()[name].read_text(encoding='utf-8')
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model


def create_source(model: model_pb2.DetectionModel, folder: str) -> Source:
    """Return a model with random weights, and without data."""
    config = pipeline_pb2.TrainEvalPipelineConfig(model=model)
    task = build_task(config)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(0)
        tf1.train.create_global_step()
        image = samples.noise(0, 16, task.image_format.channels)
        features = task.serving_features(tf.constant(image[np.newaxis]))
        task.predict(features, tf_estimator.ModeKeys.PREDICT)
        session.run(tf1.global_variables_initializer())
        _enliven(graph, session)
        saver = tf1.train.Saver(model_variables.with_companions(graph))
        checkpoint = saver.save(session, os.path.join(folder, 'model.ckpt'))
    return Source(task.as_exported(), config, checkpoint)


def _enliven(graph: tf.Graph, session: tf1.Session) -> None:
    """Give kernels but those of heads values that keep the variance of activations.

    Initial values are for batch norm with the statistics of a batch. With those of an untrained
    network activations vanish, and outputs would agree whatever is computed.
    """
    random = np.random.RandomState(0)
    for variable in graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES):
        shape = variable.shape.as_list()
        if len(shape) < 2 or 'Predictor' in variable.op.name:
            continue
        inputs = shape[:-2] if 'depthwise' in variable.op.name else shape[:-1]
        variable.load(random.normal(0.0, np.sqrt(2.0 / np.prod(inputs)), shape), session)


def rows(family: str, num_images: int) -> Iterator[Sequence[str]]:
    """Export a family in all formats; yield a row of the table for each."""
    with tempfile.TemporaryDirectory() as folder:
        source = create_source(builtin_model(FAMILIES[family]), folder)
        images = samples.evaluation_images(source.task, source.config, num_images).images
        expected = inference_graph.build(source, export_pb2.IMAGE_TENSOR, images).expected
        for name, kind in formats.WRITERS.items():
            writer = kind()
            try:
                target = os.path.join(folder, name)
                export = exporting.export(
                    source.task, source.config, source.checkpoint, target, writer
                )
            except errors.UserError as error:
                yield family, name, refusal(error, folder), *[_NONE] * len(OTHERS)
                continue
            exported = _run(source, writer, export, images)
            own = _own_cell(exported, artifacts.read_about(exported.path), expected)
            yield family, name, own, *(_cell(each, name, exported, folder) for each in OTHERS)


def _run(
    source: Source, writer: Writer[Any], export: str, images: Sequence[np.ndarray]
) -> Exported:
    """Run an export in the runtime of its format."""
    path = export if writer.artifacts_folder else os.path.join(export, writer.file_name)
    inputs, deployable = [image[np.newaxis] for image in images], None
    if isinstance(writer, DeviceWriter):
        deployable = source.task.deployable(writer.ops, NO_CHANGES)
        inputs = samples.pixels(source.task, deployable, images)
    if isinstance(writer, SavedModelWriter):
        model = tf.saved_model.load(path)
        found = [
            {name: value.numpy() for name, value in model(tf.constant(each)).items()}
            for each in inputs
        ]
        return Exported(path, inputs, found, deployable, source.task)
    run = timing.load(path).run
    outputs = [run(each) for each in inputs]
    if deployable is None:
        names = [name.partition(':')[0] for name in artifacts.read_about(path)['outputs']]
        outputs = [dict(zip(names, each)) for each in outputs]
    else:  # in the order of the file
        order = dict.fromkeys([*deployable.contents, *deployable.meanings])
        outputs = [{name: each[name] for name in order} for each in outputs]
    return Exported(path, inputs, outputs, deployable, source.task)


def _own_cell(exported: Exported, about: Mapping[str, Any], expected: Sequence[Arrays]) -> str:
    if exported.deployable is not None:  # compared with the checkpoint when it was written
        told = about['agreement']
        return describe(told['outputs'], told['largest_differences'])
    return _compared(expected, exported.outputs, exported)


def _compared(expected: Sequence[Arrays], found: Sequence[Arrays], exported: Exported) -> str:
    if exported.deployable is not None:
        parts = exported.deployable.agreement(expected, found, exact=True)
        return describe(parts, exported.deployable.largest_differences(expected, found))
    in_order = agreement.compare(expected, found)
    differences = agreement.largest_differences(expected, found)
    same = {name: value for name, value in differences.items() if in_order[name] == 1.0}
    return describe(exported.task.compare_served(expected, found), same)


def describe(parts: Mapping[str, float], differences: Mapping[str, float]) -> str:
    """Describe an agreement in a cell.

    Args:
        parts: matching part of each output, in [0, 1].
        differences: largest difference of each output.
    """
    worst = min(parts, key=lambda name: parts[name])
    if parts[worst] < _LEAST_AGREEMENT:
        return f'differs: {agreement.percent(parts[worst])} of {worst} agree'
    rest = '' if parts[worst] == 1.0 else f', {agreement.percent(parts[worst])} of {worst}'
    return f'agrees to {max(differences.values(), default=0.0):.0e}{rest}'


def refusal(error: Exception, folder: str) -> str:
    """Return an error as a cell, without paths of a folder."""
    text = ' '.join(str(error).replace(folder, '').split())
    return f'refused: {text}'.replace('|', '/')


def _cell(package: str, name: str, exported: Exported, folder: str) -> str:
    """Run an export in the runtime of another package, and compare it."""
    if name not in OTHERS[package]:
        return _NONE
    if importlib.util.find_spec(package) is None:
        return 'not installed'
    inputs, result = (os.path.join(folder, file) for file in ('inputs.npz', 'outputs.npz'))
    np.savez(inputs, *exported.inputs)
    names = ','.join(exported.outputs[0])
    try:
        child_processes.try_apart(
            'benchmarks.serving.runtimes',
            *(package, exported.path, inputs, result, names),
            path=os.path.basename(exported.path),
            seconds=_MOST_SECONDS,
        )
    except errors.UserError as error:
        return refusal(error, folder)
    with np.load(result) as content:
        found = [
            {key: content[f'arr_{index}/{key}'] for key in exported.outputs[0]}
            for index in range(len(exported.inputs))
        ]
    return _compared(exported.outputs, found, exported)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--families', default=','.join(FAMILIES), help='names, with commas')
    parser.add_argument('--images', type=int, default=2, help='images of noise for each cell')
    options = parser.parse_args(arguments)
    families = options.families.split(',')
    for family in families:
        if family not in FAMILIES:
            hint = errors.did_you_mean(family, FAMILIES)
            parser.error(f'--families: no family is named {family!r}{hint}')
    print('\n'.join(_line(each) for each in (HEAD, ['---'] * len(HEAD))))
    for family in families:
        for row in rows(family, options.images):
            print(_line(row), flush=True)


def _line(cells: Sequence[str]) -> str:
    return f'| {" | ".join(cells)} |'


if __name__ == '__main__':
    main()
