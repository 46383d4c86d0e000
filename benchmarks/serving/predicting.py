"""Measurement of `--mode=predict`: images a second in batches, read ahead, against one at a time.

    python -m benchmarks.serving.predicting [--model=ssd_mobilenet_v1_coco] [--images=200]

The images are synthetic, 320 x 240 JPEG, in TFRecords and as files. The model has random weights,
and draws a picture of each image. One at a time is: read, decode, run, describe, write, next.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, Dict

from benchmarks import measuring, scenes


def write_images(folder: str, records: str) -> int:
    """Write the images of TFRecords as files; return how many."""
    import tensorflow as tf

    paths = sorted(tf.io.gfile.glob(records))
    contents = tf.data.TFRecordDataset(paths).as_numpy_iterator()
    count = 0
    for count, content in enumerate(contents, start=1):
        feature = tf.train.Example.FromString(content).features.feature
        with open(os.path.join(folder, f'{count:05d}.jpg'), 'wb') as file:
            file.write(feature['image/encoded'].bytes_list.value[0])
    return count


def one_at_a_time(predictor: Any, task: Any, images: Any, output_dir: str) -> None:
    """Predict as a plain loop does."""
    from estimator_lib.drawing import visualization
    from estimator_lib.task import IMAGE

    os.makedirs(output_dir)
    for image in images:
        pixels = image.read()
        outputs = predictor.predict(pixels[None])
        outputs = {name: value[0] for name, value in outputs.items()}
        described = task.describe({IMAGE: pixels}, outputs)
        visualization.write_png(os.path.join(output_dir, image.stem + '.png'), described.picture)


def measure(model: str, num_images: int, turns: int) -> Dict[str, float]:
    """Return images a second of both, the best of some turns each, in turn."""
    from estimator_lib.commands import predict
    from estimator_lib.export import exported_model
    from model_fns import build_task
    from model_fns.datasets import image_sources

    with tempfile.TemporaryDirectory() as folder:
        paths = scenes.write_records(folder, num_images)
        config = scenes.load_config(model, paths, len(scenes.CLASSES))
        model_dir = os.path.join(folder, 'run')
        scenes.train_one_step(config, model_dir)
        task = build_task(config)
        predictor = exported_model.CheckpointPredictor(task, config, model_dir)
        files = os.path.join(folder, 'files')
        os.mkdir(files)
        count = write_images(files, paths['records'])
        images = image_sources.find_images(files)

        def seconds(name: str, function: Any) -> float:
            started = time.perf_counter()
            function(predictor, task, images, os.path.join(folder, name))
            return time.perf_counter() - started

        rates: Dict[str, float] = {}
        for turn in range(turns):
            for name, function in (
                ('one_at_a_time', one_at_a_time),
                ('batches_read_ahead', predict.predict_images),
            ):
                rate = count / seconds(f'{name}_{turn}', function)
                rates[name] = max(rate, rates.get(name, 0.0))
        rates['times'] = rates['batches_read_ahead'] / rates['one_at_a_time']
        return rates


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--images', type=int, default=200, help='that are predicted')
    parser.add_argument('--turns', type=int, default=3, help='of which the best counts')
    parser.add_argument('--output', default='benchmark_predicting.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    measuring.report(measure(arguments.model, arguments.images, arguments.turns), arguments.output)


if __name__ == '__main__':
    main()
