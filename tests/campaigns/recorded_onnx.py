"""Recorded detections of published detectors, found again by ONNX files in onnxruntime.

    python -m tests.campaigns.recorded_onnx [CASE ...]

Each case of `../shared/golden` is a network with weights by a rule and the detections that the
published program found. The network is exported with `--format=onnx`, which compares the file with
TensorFlow, and the file's detections are compared with the recorded ones, to 1e-3. Each case takes
half a minute or more.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from typing import Any, Dict

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import tf_estimator
from estimator_lib.checkpoints import model_variables
from estimator_lib.export import exported_file, formats
from estimator_lib.export.writers import Source
from model_fns import build_task
from model_fns.detection import fields
from protos import pipeline_pb2
from tests.conftest import shared_folder
from tests.matched_rows import nearest_rows
from tests.model_fns.detection import recorded_detectors, recorded_objects

tf1 = tf.compat.v1

CASES = (
    'ssd_mobilenet_v1_coco',
    'faster_rcnn_resnet50_256x320',
    'mask_rcnn_inception_v2_256x320',
    'tf2/faster_rcnn_resnet50_v1_fpn_keep_aspect_256',
    'tf2/centernet_resnet50_v1_fpn_256',
)
TOLERANCE = 1e-3
_COMPARED = (
    fields.DETECTION_BOXES,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.DETECTION_MASKS,
)


def read_config(name: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Return the config of a case, whose file may be without its outer `model`."""
    text = (shared_folder() / 'golden' / f'{name}.config').read_text()
    if not text.startswith('model'):
        text = f'model {{ {text} }}'
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


def read_arrays(name: str) -> Dict[str, np.ndarray]:
    """Return the arrays of a case."""
    with np.load(shared_folder() / 'golden' / f'{name}.npz') as recorded:
        return {key: recorded[key] for key in recorded.files}


def save(task: Any, name: str, arrays: Dict[str, np.ndarray], folder: pathlib.Path) -> str:
    """Write a checkpoint of a case's network, with the recorded weights; return its prefix."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        features = task.serving_features(tf.constant(arrays['input_image_uint8']))
        task.predict(features, tf_estimator.ModeKeys.PREDICT)
        if 'weights_keys' in arrays:  # of TensorFlow 2, by path
            weights = recorded_objects.weights_of(recorded_detectors.Case(name, None, arrays))
            by_path = task.checkpoints.object_paths(tf1.global_variables(), 'full')
            feeds = {one.initializer.inputs[1]: weights[path] for path, one in by_path.items()}
            session.run([one.initializer for one in by_path.values()], feeds)
        else:
            recorded_detectors.set_weights(session)
        variables = model_variables.with_companions(graph)
        return tf1.train.Saver(variables).save(session, str(folder / 'model.ckpt'))


def largest_difference(found: Dict[str, np.ndarray], arrays: Dict[str, np.ndarray]) -> float:
    """Return the largest difference of detections, whose rows may come in another order."""
    expected = {
        name: arrays[f'infer/det__{name}'] for name in _COMPARED if f'infer/det__{name}' in arrays
    }
    # Recorded classes are from 0.
    found = {**found, fields.DETECTION_CLASSES: found[fields.DETECTION_CLASSES] - 1}
    differences = []
    for index in range(len(arrays['input_image_uint8'])):
        rows = nearest_rows(
            *(
                np.column_stack([values[name][index] for name in _COMPARED[:3]])
                for values in (found, expected)
            )
        )
        for name, values in expected.items():
            differences.append(np.abs(found[name][index][rows] - values[index]).max())
    return float(max(differences))


def run(name: str) -> bool:
    """Export a case, print its agreement, and return whether it is close enough."""
    started = time.perf_counter()
    config, arrays = read_config(name), read_arrays(name)
    task = build_task(config)
    with tempfile.TemporaryDirectory() as folder:
        source = Source(task, config, save(task, name, arrays, pathlib.Path(folder)))
        writer = formats.create_writer('onnx')
        model = writer.build(source)
        writer.write(model, source, folder)
        about = writer.verify(model, source, folder)
        predictor = exported_file.FilePredictor(task, f'{folder}/{writer.file_name}')
        found = predictor.predict(arrays['input_image_uint8'])
    difference = largest_difference(found, arrays)
    parts = ', '.join(f'{key} {part:.2%}' for key, part in about['agreement']['outputs'].items())
    print(
        f'{name:50s} {difference:9.1e} {about["bytes"] / 1e6:8.1f} MB '
        f'{time.perf_counter() - started:6.0f} s  {parts}',
        flush=True,
    )
    return difference <= TOLERANCE


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cases', nargs='*', default=CASES, help='names of ../shared/golden')
    failed = [name for name in parser.parse_args().cases if not run(name)]
    if failed:
        sys.exit(f'{", ".join(failed)}: differences above {TOLERANCE:g}')


if __name__ == '__main__':
    main()
