"""Table of model families and export formats: agreement, size and latency, or why it is refused.

    python -m benchmarks.serving.deployment --families [--output=benchmark_families.json]
        [--only=FAMILY ...]

A family is a config of the package with random weights, and without a threshold of scores: so there
are detections to compare, and suppression has much to do. Agreement is that of the export
(`--mode=export`), on images of noise; that of a SavedModel is not measured. Latency is the median
of one image, with the part that a program does before it left out for files for devices. Processes
run one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import tempfile
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

_R_FCN = """
model { faster_rcnn { second_stage_box_predictor { rfcn_box_predictor {
  conv_hyperparams { initializer { truncated_normal_initializer { stddev: 0.01 } } }
  depth: 256 num_spatial_bins_height: 3 num_spatial_bins_width: 3 crop_height: 12 crop_width: 12
} } } }
"""
# The config of each family, and what is changed in it.
FAMILIES: Mapping[str, Tuple[str, str]] = {
    'classification': ('signs_mobilenet_v1', ''),
    'segmentation': ('nuclei_deeplab_mobilenet_v2', ''),
    'single-shot': ('bccd_ssd', ''),
    'single-shot, rotated': ('text_quads_rotated', ''),
    'EfficientDet': ('demo_efficientdet', ''),
    'Faster R-CNN': ('bccd_faster_rcnn', ''),
    'R-FCN': ('bccd_faster_rcnn', _R_FCN),
    'Mask R-CNN, images of any size': ('nuclei_mask_rcnn', ''),
    'CenterNet': ('demo_centernet', ''),
}
# By name: the format and its options.
FORMATS: Mapping[str, Tuple[str, Dict[str, Any]]] = {
    'saved_model': ('saved_model', {}),
    'tflite': ('tflite', {'quantize': 'none'}),
    'onnx': ('onnx', {}),
    'onnx --batch=dynamic': ('onnx', {'batch': 'dynamic'}),
}
_IMAGES = 4
_SIDES = 360, 480


def read(family: str) -> Tuple[Any, Any]:
    """Return the task and the config of a family."""
    from google.protobuf import text_format

    from estimator_lib import config as config_lib
    from model_fns import build_task
    from model_fns.cli import builtin_configs

    name, changes = FAMILIES[family]
    config = config_lib.load_pipeline_config(str(builtin_configs.builtin_configs()[name]))
    text_format.Merge(changes, config)
    _keep_all_scores(config.model)
    config.ClearField('train_input_reader')
    config.ClearField('eval_input_reader')
    return build_task(config, 'export'), config


def _keep_all_scores(model: Any) -> None:
    """Drop the thresholds of scores: before training, few detections would be above them."""
    kind = model.WhichOneof('model')
    field = {
        'ssd': 'post_processing',
        'faster_rcnn': 'second_stage_post_processing',
        'center_net': 'post_processing',
    }.get(kind)
    if field and getattr(model, kind).HasField(field):
        suppression = getattr(getattr(model, kind), field).batch_non_max_suppression
        suppression.score_threshold = 0.0


def save(task: Any, folder: str) -> str:
    """Write a checkpoint of a task's network; return its prefix.

    Weights of convolutions are such that the size of what passes through them stays (He et al.
    2015): with those of most configs, outputs are the same for all images before training.
    """
    import tensorflow as tf

    from estimator_lib import tf_estimator
    from estimator_lib.checkpoints import model_variables

    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(0)
        tf1.train.create_global_step()
        features = task.serving_features(tf.zeros([1, *_SIDES, 3], tf.uint8))
        task.predict(features, tf_estimator.ModeKeys.PREDICT)
        session.run(tf1.global_variables_initializer())
        for number, variable in enumerate(tf1.trainable_variables()):
            if variable.shape.rank == 4:
                height, width, inputs, _ = variable.shape.as_list()
                fan = height * width * (1 if 'depthwise' in variable.op.name else inputs)
                random = np.random.RandomState(number)
                variable.load(random.normal(0.0, (2.0 / fan) ** 0.5, variable.shape), session)
        saver = tf1.train.Saver(model_variables.with_companions(graph))
        return saver.save(session, os.path.join(folder, 'model.ckpt'))


def measure(family: str) -> Dict[str, Dict[str, Any]]:
    """Export a family in every format; return what was measured, or `refused`, by format."""
    from estimator_lib import errors

    task, config = read(family)
    rows: Dict[str, Dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save(task, folder)
        for name in FORMATS:
            try:
                rows[name] = _measure_format(name, task, config, checkpoint, folder)
            except errors.UserError as error:
                rows[name] = {'refused': ' '.join(str(error).replace(folder, '.').split())}
    return rows


def _measure_format(
    name: str, task: Any, config: Any, checkpoint: str, folder: str
) -> Dict[str, Any]:
    from estimator_lib.benchmarking import timing
    from estimator_lib.export import exporting, formats, samples
    from estimator_lib.export.device_files import DeviceWriter

    format_name, options = FORMATS[name]
    writer = formats.create_writer(format_name, options)
    exported = exporting.export(
        task, config, checkpoint, os.path.join(folder, name.replace(' ', '_')), writer
    )
    random = np.random.RandomState(0)
    images = [random.randint(0, 256, [*_SIDES, 3]).astype(np.uint8) for _ in range(_IMAGES)]
    inputs = [image[np.newaxis] for image in images]
    path = os.path.join(exported, writer.file_name)
    row: Dict[str, Any] = {'megabytes': os.path.getsize(path) / 1e6}
    if isinstance(writer, DeviceWriter):
        inputs = samples.pixels(task, task.deployable(writer.ops, {}), images)
        about = json.loads(pathlib.Path(exported, 'export.json').read_text())
        row['agreement'] = min(about['agreement']['outputs'].values())
        row['largest_difference'] = max(about['agreement']['largest_differences'].values())
    else:
        path = exported
    row['milliseconds'] = timing.time_apart(path, inputs, folder).one.median
    return row


def lines(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> List[str]:
    """Return a table in Markdown: a line for each family and format."""
    table = [
        '| family | format | agreement | largest difference | ms | MB |',
        '| --- | --- | --- | --- | --- | --- |',
    ]
    for family, rows in results.items():
        for name, row in rows.items():
            if 'refused' in row:
                cells = [f'refused: {row["refused"]}', '', '', '']
            else:
                cells = [
                    f'{row["agreement"]:.2%}' if 'agreement' in row else '',
                    f'{row["largest_difference"]:.0e}' if 'largest_difference' in row else '',
                    f'{row["milliseconds"]:.1f}',
                    f'{row["megabytes"]:.1f}',
                ]
            table.append(f'| {" | ".join([family, name, *cells])} |')
    return table


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    results = {}
    for family in arguments.only or FAMILIES:
        results[family] = measure(family)
        print('\n'.join(lines({family: results[family]})), flush=True)
    pathlib.Path(arguments.output).write_text(json.dumps(results, indent=2) + '\n')
    print('\n'.join(lines(results)))
