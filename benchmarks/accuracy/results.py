"""Score, size and latency of trained runs, for docs/results.md.

    python -m benchmarks.accuracy.results RUN [RUN ...] [--metric=accuracy] \
        [--images=GLOB --picture=FILE --score_threshold=0.5]

`RUN` is a `model_dir` whose config exports the best model (`export_config.best`). Each row has the
best value of the metric, the size of the SavedModel, and the milliseconds that the export takes
for one image of the run's evaluation: the least of the medians of some rounds, so that other work
on the machine counts as little as possible. `--picture` draws the predictions of the last run in
the first images of `--images`.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List

from benchmarks import measuring

_ROUNDS, _RUNS = 5, 20
_ROWS, _HEIGHT = 2, 240  # of the picture, and pixels of an image in it


def model_files(export: str) -> List[str]:
    """Return the files of a SavedModel that hold its graph and weights."""
    return [
        path
        for name in ('saved_model.pb', 'variables/*')
        for path in glob.glob(os.path.join(glob.escape(export), name))
    ]


def best_export(run: str) -> str:
    """Return the folder of the newest best export of a run."""
    from estimator_lib.export import export_folders

    folders = export_folders.list_exports(export_folders.run_folder(run, export_folders.BEST))
    if not folders:
        raise SystemExit(f'{run} has no export/best; expected a run with export_config.best.')
    return folders[-1]


def milliseconds(export: str, image: Any) -> float:
    """Return the time of one request, the least of the medians of some rounds.

    Args:
        export: folder of a SavedModel.
        image: uint8 [1, height, width, 3].
    """
    import tensorflow as tf

    serve = tf.saved_model.load(export).signatures['serving_default']
    tensor = tf.constant(image)
    medians = []
    for _ in range(_ROUNDS):
        seconds = []
        for _ in range(_RUNS):
            started = time.perf_counter()
            serve(inputs=tensor)
            seconds.append(time.perf_counter() - started)
        medians.append(statistics.median(seconds))
    return 1000 * min(medians)


def first_image(config: Any) -> Any:
    """Return the first image that a config evaluates, uint8 [1, height, width, 3]."""
    import tensorflow as tf

    paths = config.eval_input_reader[0].tf_record_input_reader.input_path
    records = sorted(path for pattern in paths for path in tf.io.gfile.glob(pattern))
    content = next(tf.data.TFRecordDataset(records).as_numpy_iterator())
    feature = tf.train.Example.FromString(content).features.feature
    return tf.io.decode_image(feature['image/encoded'].bytes_list.value[0]).numpy()[None]


def measure(run: str, metric: str) -> Dict[str, Any]:
    """Return the row of a run: its metric, megabytes and milliseconds."""
    from estimator_lib import config as config_lib
    from estimator_lib import errors

    export = best_export(run)
    config = config_lib.load_pipeline_config(os.path.join(run, 'pipeline.config'))
    with open(os.path.join(export, 'assets.extra', 'metrics.json'), encoding='utf-8') as file:
        metrics = next(part for part in json.load(file).values() if isinstance(part, dict))
    name = metric or config.export_config.best.metric
    if name not in metrics:
        near = errors.did_you_mean(name, metrics)
        raise SystemExit(f'--metric: the evaluation of {run} has no {name!r}{near}')
    return {
        'run': run,
        'metric': name,
        'value': metrics[name],
        'megabytes': sum(map(os.path.getsize, model_files(export))) / 1e6,
        'milliseconds': milliseconds(export, first_image(config)),
    }


def draw(run: str, images: str, path: str, threshold: str = '') -> None:
    """Draw the predictions of a run in the first images, side by side, as a JPEG file.

    Args:
        run: a `model_dir`.
        images: what `--mode=predict` takes.
        path: of the JPEG file.
        threshold: the least score of a detection; empty: the model's own.
    """
    import numpy as np
    from PIL import Image

    from estimator_lib.drawing import visualization

    program = os.path.join(measuring.ROOT, 'run_train_eval.py')
    with tempfile.TemporaryDirectory() as folder:
        flags = [f'--saved_model_dir={best_export(run)}', f'--images={images}']
        flags += [f'--score_threshold={threshold}'] if threshold else []
        command = [sys.executable, program, '--mode=predict', *flags, f'--output_dir={folder}']
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        names = sorted(glob.glob(os.path.join(folder, '*.png')))
        names = [name for name in names if not name.endswith(('_classes.png', '_instances.png'))]
        pictures = [np.asarray(Image.open(name).convert('RGB')) for name in names[: 2 * _ROWS]]
    height, width, _ = pictures[0].shape
    columns = 1 if width > 1.5 * height else 2  # one where image and prediction are side by side
    width = _HEIGHT * width // height
    pictures = [visualization.resized(picture, _HEIGHT, width) for picture in pictures]
    sheet = visualization.grid(pictures[: columns * _ROWS], columns)
    Image.fromarray(sheet).save(path, quality=85)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('runs', nargs='+', metavar='RUN', help='a model_dir')
    parser.add_argument('--metric', default='', help='left out: that of export_config.best')
    parser.add_argument('--images', help='what --mode=predict takes, for --picture')
    parser.add_argument('--picture', help='where to draw the last run')
    parser.add_argument('--score_threshold', default='', help='of detections in the picture')
    parser.add_argument('--output', default='benchmark_results.json', help='the JSON')
    arguments = parser.parse_args()
    if bool(arguments.picture) != bool(arguments.images):
        parser.error('--picture and --images go together.')
    measuring.quiet()
    rows = [measure(run, arguments.metric) for run in arguments.runs]
    for row in rows:
        print(
            f'{row["run"]}: {row["metric"]} {row["value"]:.3f}, {row["megabytes"]:.1f} MB, '
            f'{row["milliseconds"]:.1f} ms'
        )
    with open(arguments.output, 'w', encoding='utf-8') as file:
        json.dump(rows, file, indent=2)
    if arguments.picture:
        draw(arguments.runs[-1], arguments.images, arguments.picture, arguments.score_threshold)


if __name__ == '__main__':
    main()
