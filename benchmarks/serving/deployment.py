"""Measurement of a classifier as a file for small devices: accuracy, size and latency.

    python -m benchmarks.serving.deployment [--data=../shared/data/sign_digits] [--work=FOLDER] \
        [--steps=1500] [--quantized_steps=400] [--output=benchmark_deployment.json]

`configs/signs_mobilenet_v1.config` is trained for some steps, and fine-tuned to be quantized for
some more. The models are exported as a SavedModel, as TFLite files of every arithmetic and, where
the packages of the extra `[onnx]` are installed, as an ONNX file, which onnxruntime runs: of each
the accuracy on the test images, the size, and the milliseconds for an image are printed. Images are
given one at a time, to one model after the other, so that what else the machine does falls on all;
a SavedModel brings the image to the network's size itself, which takes part of its time, and takes
as many threads as it likes; a file has one, since several wait for each other where the
machine does other work too. With a `--work` folder, what is there from an earlier call is used
again. `--families` measures something else, see `families`.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from benchmarks import measuring
from benchmarks.serving import families

_CONFIG = os.path.join(measuring.ROOT, 'configs', 'signs_mobilenet_v1.config')
_DATA = os.path.join(measuring.ROOT, '..', 'shared', 'data', 'sign_digits')
_ONNX = 'ONNX'
# The name of each export, of which model it is, and how it is asked for.
_EXPORTS: Mapping[str, Tuple[str, Sequence[str]]] = {
    'SavedModel': ('float', ['--format=saved_model']),
    'TFLite float': ('float', ['--format=tflite']),
    _ONNX: ('float', ['--format=onnx']),
    'TFLite float16': ('float', ['--format=tflite', '--quantize=float16']),
    'TFLite dynamic': ('float', ['--format=tflite', '--quantize=dynamic']),
    'TFLite int8': ('float', ['--format=tflite', '--quantize=int8']),
    'SavedModel, quantization-aware': ('quantized', ['--format=saved_model']),
    'TFLite int8, quantization-aware': ('quantized', ['--format=tflite']),
}
_QUANTIZED = """
graph_rewriter {{ quantization {{ delay: 0 }} }}
train_config {{
  fine_tune_checkpoint: "{checkpoint}"
  fine_tune_checkpoint_type: "classification"
  optimizer {{
    momentum_optimizer {{
      learning_rate {{
        cosine_decay_learning_rate {{
          learning_rate_base: 0.005 warmup_learning_rate: 0.0005 warmup_steps: 20
          total_steps: {steps}
        }}
      }}
    }}
  }}
}}
"""


class Model(NamedTuple):
    """An export that can be run.

    Attributes:
        size: of its file, in bytes.
        prepare: of decoded images, uint8 [height, width, 3] each, what is fed; it is not timed.
        run: of that, the logits [classes].
    """

    size: int
    prepare: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
    run: Callable[[np.ndarray], np.ndarray]


def call(work: str, *command: str) -> None:
    """Run a module of the project in the folder of the records and models."""
    environment = {**os.environ, 'PYTHONPATH': measuring.ROOT}
    done = subprocess.run(
        [sys.executable, '-m', *command], cwd=work, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f'{" ".join(command)}\n{done.stderr[-2000:]}')


def train(work: str, data: str, steps: int, quantized_steps: int) -> None:
    """Convert the images, and train both models, where that has not been done."""
    for split in ('train', 'test'):
        if not glob.glob(f'{work}/data/signs/{split}-*'):
            call(
                work,
                'model_fns.datasets.convert',
                '--from=folders',
                f'--images={os.path.abspath(data)}/{split}',
                '--label_map=data/signs/label_map.pbtxt',
                f'--output_prefix=data/signs/{split}',
            )
    quantized = _QUANTIZED.format(checkpoint=f'{work}/models/float', steps=quantized_steps)
    schedule = 'optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.total_steps'
    runs = {
        'float': (steps, [f'--set=train_config.{schedule}={steps}']),
        'quantized': (quantized_steps, [f'--config_override={quantized}']),
    }
    for name, (count, flags) in runs.items():
        if not os.path.exists(f'{work}/models/{name}/checkpoint'):
            call(
                work,
                'run_train_eval',
                '--mode=train',
                f'--pipeline_config_path={_CONFIG}',
                f'--model_dir=models/{name}',
                f'--num_train_steps={count}',
                *flags,
            )


def export(work: str) -> Dict[str, str]:
    """Export both models in all formats; return the folders by the names of `_EXPORTS`."""
    from estimator_lib import errors
    from estimator_lib.export import formats

    folders = {}
    for name, (model, flags) in _EXPORTS.items():
        try:
            if name == _ONNX:
                formats.WRITERS['onnx']().check()
        except errors.UserError as missing:
            print(f'without {name}: {missing}')
            continue
        folder = os.path.join(work, 'exports', name.replace(' ', '_').replace(',', ''))
        if not glob.glob(f'{folder}/[0-9]*'):
            call(
                work,
                'run_train_eval',
                '--mode=export',
                f'--model_dir=models/{model}',
                f'--export_dir={folder}',
                *flags,
            )
        (folders[name],) = glob.glob(f'{folder}/[0-9]*')
    return folders


def load(folder: str, task: Any, threads: int) -> Model:
    """Return the model in the folder of an export."""
    from estimator_lib.export import exported_model, formats, onnx_files, samples, tflite

    written = [
        formats.writer_of_file(f'{folder}/{name}')
        for name in os.listdir(folder)
        if os.path.splitext(name)[1] in formats.endings()
    ]
    if not written:
        predictor = exported_model.Predictor(folder)
        return Model(
            os.path.getsize(os.path.join(folder, 'saved_model.pb')),
            lambda images: [image[np.newaxis] for image in images],
            lambda image: predictor.predict(image)['logits'][0],
        )
    (writer,) = written
    path = os.path.join(folder, writer.file_name)
    deployable = task.deployable(writer.ops, {})
    kinds = {'tflite': tflite.TfliteModel, 'onnx': onnx_files.OnnxModel}
    model = kinds[writer.name](path, threads)
    return Model(
        os.path.getsize(path),
        lambda images: samples.pixels(task, deployable, images),
        lambda pixels: model.run(pixels)['logits'][0],
    )


def read_images(work: str, task: Any) -> Tuple[List[np.ndarray], np.ndarray]:
    """Return the test images, uint8 [height, width, 3] each, and the positions of their classes."""
    import tensorflow as tf

    found = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        files = sorted(glob.glob(f'{work}/data/signs/test-*'))
        records = tf.data.TFRecordDataset(files).map(task.decode)
        iterator = tf.compat.v1.data.make_initializable_iterator(records)
        following = iterator.get_next()
        session.run([tf.compat.v1.tables_initializer(), iterator.initializer])
        while True:
            try:
                found.append(session.run((following['image'], following['label'])))
            except tf.errors.OutOfRangeError:
                break
    images, labels = zip(*found)
    return list(images), np.array(labels)


def measure(models: Mapping[str, Model], images: Sequence[np.ndarray], labels: np.ndarray) -> Any:
    """Run all models on all images, alternately.

    Returns:
        By the models' names: accuracy, the part of the images on which the class is that of the
        first model, kB, and milliseconds: the least and the median.
    """
    classes: Dict[str, List[int]] = {name: [] for name in models}
    seconds: Dict[str, List[float]] = {name: [] for name in models}
    fed = {name: one.prepare(images) for name, one in models.items()}
    for index in range(-1, len(images)):
        for name, model in models.items():
            started = time.perf_counter()
            logits = model.run(fed[name][max(index, 0)])
            if index >= 0:  # the first run is slow
                seconds[name].append(time.perf_counter() - started)
                classes[name].append(int(np.argmax(logits)))
    first = np.array(next(iter(classes.values())))
    return {
        name: {
            'accuracy': float(np.mean(np.array(found) == labels)),
            'agreement': float(np.mean(np.array(found) == first)),
            'kB': models[name].size / 1000,
            'least_ms': 1e3 * min(seconds[name]),
            'median_ms': 1e3 * statistics.median(seconds[name]),
        }
        for name, found in classes.items()
    }


def run(work: str, arguments: argparse.Namespace) -> None:
    """Train, export, measure and print."""
    train(work, arguments.data, arguments.steps, arguments.quantized_steps)
    folders = export(work)

    from estimator_lib import config as config_lib
    from model_fns import build_task

    os.chdir(work)  # paths of the config are relative
    config = config_lib.load_pipeline_config(f'{work}/models/float/pipeline.config')
    task = build_task(config, 'predict')
    images, labels = read_images(work, task)
    models = {name: load(folder, task, arguments.threads) for name, folder in folders.items()}
    rows = measure(models, images, labels)
    print(f'{len(images)} test images; agreement is with the first row')
    print(
        f'{"":34s} {"accuracy":>9s} {"agreement":>10s} {"kB":>7s} {"ms, least":>10s} {"median":>7s}'
    )
    for name, row in rows.items():
        print(
            f'{name:34s} {row["accuracy"]:9.2%} {row["agreement"]:10.2%} {row["kB"]:7.0f} '
            f'{row["least_ms"]:10.3f} {row["median_ms"]:7.3f}'
        )
    pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=2) + '\n')


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--data', default=_DATA, help='a folder of images for each class')
    parser.add_argument('--work', help='where records, models and exports are kept')
    parser.add_argument('--steps', type=int, default=1500, help='of the training')
    parser.add_argument('--quantized_steps', type=int, default=400, help='of the fine-tuning')
    parser.add_argument('--threads', type=int, default=1, help='of the runtimes')
    parser.add_argument('--output', default='benchmark_deployment.json', help='a JSON file')
    parser.add_argument(
        '--families', action='store_true', help='every model family in every format instead'
    )
    parser.add_argument(
        '--only', nargs='+', choices=families.FAMILIES, help='some families, with --families'
    )
    arguments = parser.parse_args()
    arguments.output = os.path.abspath(arguments.output)
    measuring.quiet()
    if arguments.families:
        families.run(arguments)
        return
    if arguments.work:
        os.makedirs(arguments.work, exist_ok=True)
        run(os.path.abspath(arguments.work), arguments)
        return
    with tempfile.TemporaryDirectory() as work:
        run(work, arguments)


if __name__ == '__main__':
    main()
