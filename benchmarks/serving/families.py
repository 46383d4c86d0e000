"""Table of model families and export formats: agreement, latency and size, or why it is refused.

    python -m benchmarks.serving.deployment --families [--output=benchmark_families.json]
        [--only=FAMILY ...]

A family is a config of the package with random weights, and without a threshold of scores: so there
are detections to compare, and suppression has much to do. Agreement is that of the export
(`--mode=export`), on images of noise: the matching part of the output that agrees least.

Latency is that of one image on one thread, as a ratio to the SavedModel. The formats of a family
run alternately in one process, so that what else the machine does falls on all. The SavedModel
brings the image to the size of the network itself; of a file that part is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from benchmarks import measuring

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
_REFERENCE = 'saved_model'
_IMAGES = 4
_SIDES = 360, 480
_TURNS = 20
_SECONDS = 60.0  # after which no more turns begin
# Of TensorFlow; the other runtimes are told.
_ONE_THREAD = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}


class Exported(NamedTuple):
    """Export that has been written.

    Attributes:
        path: of the file, or the folder of a SavedModel.
        inputs: file with the images that it takes.
        row: what is known of it before it is timed.
    """

    path: str
    inputs: str
    row: Dict[str, Any]


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
    exports: Dict[str, Exported] = {}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = save(task, folder)
        for name in FORMATS:
            try:
                exports[name] = export(name, task, config, checkpoint, folder)
                rows[name] = exports[name].row
            except errors.UserError as error:
                rows[name] = {'refused': ' '.join(str(error).replace(folder, '.').split())}
        about = os.path.join(folder, 'exports.json')
        pathlib.Path(about).write_text(json.dumps([each[:2] for each in exports.values()]))
        seconds = measuring.run_apart('serving.families', [about])
    for name, taken in zip(exports, seconds):
        rows[name]['milliseconds'] = 1e3 * taken
        rows[name]['latency'] = taken / seconds[0]
    return rows


def export(name: str, task: Any, config: Any, checkpoint: str, folder: str) -> Exported:
    """Export a model in the format of a name."""
    from estimator_lib.export import exporting, formats, samples
    from estimator_lib.export.device_files import DeviceWriter

    format_name, options = FORMATS[name]
    writer = formats.create_writer(format_name, options)
    below = os.path.join(folder, name.replace(' ', '_'))
    exported = exporting.export(task, config, checkpoint, below, writer)
    random = np.random.RandomState(0)
    images = [random.randint(0, 256, [*_SIDES, 3]).astype(np.uint8) for _ in range(_IMAGES)]
    inputs = [image[np.newaxis] for image in images]
    path = os.path.join(exported, writer.file_name)
    row: Dict[str, Any] = {'megabytes': os.path.getsize(path) / 1e6}
    if isinstance(writer, DeviceWriter):
        inputs = samples.pixels(task, task.deployable(writer.ops, {}), images)
        agreement = json.loads(pathlib.Path(exported, 'export.json').read_text())['agreement']
        row['agreement'] = min(agreement['outputs'].values())
        row['agreements'] = agreement['outputs']
        row['largest_differences'] = agreement['largest_differences']
    else:
        path = exported
    np.savez(f'{below}.npz', *inputs)
    return Exported(path, f'{below}.npz', row)


def load(path: str) -> Callable[[np.ndarray], Any]:
    """Load an export as a function of an image, which one thread computes."""
    from estimator_lib.export import exported_model, onnx_files, tflite

    kinds = {'.tflite': tflite.TfliteModel, '.onnx': onnx_files.OnnxModel}
    kind = kinds.get(os.path.splitext(path)[1])
    return exported_model.Predictor(path).predict if kind is None else kind(path, 1).run


def time_in_turns(exports: Sequence[Sequence[str]]) -> List[float]:
    """Run exports alternately, in this process; return the median of the seconds of each.

    Args:
        exports: path, and the file of the images.
    """
    os.environ.update(_ONE_THREAD)
    runs = [load(path) for path, _ in exports]
    inputs = []
    for _, file in exports:
        with np.load(file) as content:
            inputs.append([content[name] for name in content.files])
    taken: List[List[float]] = [[] for _ in exports]
    begun = time.perf_counter()
    for turn in range(_TURNS + 1):
        for run, images, seconds in zip(runs, inputs, taken):
            started = time.perf_counter()
            run(images[turn % len(images)])
            if turn:  # the first run is slow
                seconds.append(time.perf_counter() - started)
        if turn >= 3 and time.perf_counter() - begun > _SECONDS:
            break
    return [statistics.median(seconds) for seconds in taken]


def lines(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> List[str]:
    """Return a table in Markdown: a line for each family, a column for each format."""
    table = [
        f'| family | {" | ".join(FORMATS)} |',
        f'| --- |{" --- |" * len(FORMATS)}',
    ]
    for family, rows in results.items():
        cells = [_cell(name, rows[name]) for name in FORMATS]
        table.append(f'| {family} | {" | ".join(cells)} |')
    return table


def _cell(name: str, row: Mapping[str, Any]) -> str:
    """Describe a format of a family."""
    if 'refused' in row:
        return f'refused: {row["refused"].partition("; expected")[0]}'
    size = f'{row["megabytes"]:.1f} MB'
    if name == _REFERENCE:
        return f'works (reference, {row["milliseconds"]:.0f} ms, {size})'
    return f'works ({100 * row["agreement"]:.4g} %, {row["latency"]:.2f}, {size})'


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    results = {}
    for family in arguments.only or FAMILIES:
        results[family] = measure(family)
        print('\n'.join(lines({family: results[family]})), flush=True)
        pathlib.Path(arguments.output).write_text(json.dumps(results, indent=2) + '\n')
    print('\n'.join(lines(results)))


def main() -> None:
    """Time the exports of a file."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('exports', help='JSON: [path, file of the images] of each')
    exports = json.loads(pathlib.Path(parser.parse_args().exports).read_text())
    print(json.dumps(time_in_turns(exports)))


if __name__ == '__main__':
    main()
