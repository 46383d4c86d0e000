"""Measurement of evaluation, serving and the input pipeline of single-shot detection.

    python -m benchmarks.serving.inference [--model=ssd_mobilenet_v1_coco] [--images=200]

The images are synthetic, 320 x 240 JPEG. Evaluation is timed with 3 and with 90 classes, whole
(building, restoring, pictures and metrics included) and for each image beyond the first batch;
serving, with 90 classes, as the latency of one image, of raw pixels and of PNG; the input pipeline
with the augmentations of the published config, alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any, Dict, List

import numpy as np

from benchmarks import measuring, scenes


def evaluation_seconds(config: Any, model_dir: str) -> float:
    """Return the seconds of a whole evaluation."""
    from estimator_lib import training
    from model_fns import build_task

    started = time.perf_counter()
    training.evaluate(build_task(config), config, model_dir)
    return time.perf_counter() - started


def measure_evaluation(
    config: Any, model_dir: str, num_images: int, turns: int
) -> Dict[str, float]:
    """Return seconds of an evaluation, and of each further image."""
    whole: List[float] = []
    small: List[float] = []
    for _ in range(turns):
        config.eval_config.num_examples = scenes.BATCH_SIZE
        small.append(evaluation_seconds(config, model_dir))
        config.eval_config.num_examples = num_images
        whole.append(evaluation_seconds(config, model_dir))
    of_one = [(many - few) / (num_images - scenes.BATCH_SIZE) for many, few in zip(whole, small)]
    return {'seconds': statistics.median(whole), 'seconds_an_image': statistics.median(of_one)}


def measure_serving(config: Any, model_dir: str, runs: int) -> Dict[str, float]:
    """Return milliseconds from one image to its detections."""
    from estimator_lib.export import exported_model, exporting, saved_model, serving
    from model_fns import build_task

    image = np.random.default_rng(1).integers(0, 256, [1, scenes.HEIGHT, scenes.WIDTH, 3], np.uint8)
    kinds = {
        'image_tensor': serving.IMAGE_TENSOR,
        'encoded_image': serving.ENCODED_IMAGE_STRING_TENSOR,
    }
    latencies = {}
    for name, kind in kinds.items():
        checkpoint = os.path.join(model_dir, 'model.ckpt-1')
        writer = saved_model.SavedModelWriter(kind)
        path = exporting.export(build_task(config), config, checkpoint, model_dir, writer)
        predictor = exported_model.Predictor(path)
        seconds = []
        for _ in range(runs):
            started = time.perf_counter()
            predictor.predict(image)
            seconds.append(time.perf_counter() - started)
        latencies[f'serving_{name}_ms'] = 1000 * statistics.median(seconds[runs // 4 :])
    return latencies


def measure(model: str, num_images: int, turns: int) -> Dict[str, float]:
    """Measure evaluation, serving and input of a model; return the numbers by name."""
    from estimator_lib import config as config_lib

    results: Dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = scenes.write_records(folder, num_images)
        for num_classes in (3, 90):
            config = scenes.load_config(model, paths, num_classes)
            model_dir = os.path.join(folder, f'{num_classes}_classes')
            scenes.train_one_step(config, model_dir)
            of_evaluation = measure_evaluation(config, model_dir, num_images, turns)
            for name, value in of_evaluation.items():
                results[f'evaluation_{num_classes}_classes_{name}'] = value
        results.update(measure_serving(config, model_dir, 100))
        config_path = config_lib.save_pipeline_config(scenes.load_config(model, paths, 3), folder)
        results.update(measuring.measure_input(config_path, batches=100))
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--images', type=int, default=200, help='of the evaluation')
    parser.add_argument('--turns', type=int, default=3, help='how often evaluation is measured')
    parser.add_argument('--output', default='benchmark_inference.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    results = measure(arguments.model, arguments.images, arguments.turns)
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
