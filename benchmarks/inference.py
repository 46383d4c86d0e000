"""Measures evaluation, serving and the input pipeline of single-shot detection.

    python -m benchmarks.inference [--model=ssd_mobilenet_v1_coco] [--images=200]

The images are drawn, 320 x 240 JPEG. Evaluation is timed with 3 and with 90 classes, whole
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

from benchmarks import measuring, pipelines

HEIGHT, WIDTH = 240, 320
BATCH_SIZE = 8
CLASSES = ('one', 'two', 'three')  # as many as the recorded figures are of
_SIZE = 320  # of the drawn squares that images are cut from


def write_records(folder: str, num_images: int) -> Dict[str, str]:
    """Draws scenes; returns the glob of the records and the path of the label map."""
    from model_fns.datasets import codecs, demo, records
    from model_fns.structures import images, label_map

    subset = demo.Subset(_SIZE, 6, (0.16, 0.38), np.pi, {'train': num_images}, {'train': 1})
    classes = label_map.LabelMap.from_names(CLASSES)
    paths = {'label_map': os.path.join(folder, 'label_map.pbtxt')}
    classes.write(paths['label_map'])
    prefix = os.path.join(folder, 'scenes')
    paths['records'] = records.shard_pattern(prefix)
    with codecs.ImageCodec() as codec, records.ShardWriter(prefix, 1) as writer:
        for index, scene in enumerate(demo.draw('benchmark', subset, 'train')):
            encoded = codec.encode_jpeg(scene.image[:HEIGHT])
            inside = [item for item in scene.objects if item.box[0] < HEIGHT - 8]
            boxes = np.array([item.box for item in inside], np.float32).reshape([-1, 4])
            boxes = np.minimum(boxes, [HEIGHT, WIDTH, HEIGHT, WIDTH])
            boxes /= [HEIGHT, WIDTH, HEIGHT, WIDTH]
            name = f'{index:05d}.jpg'
            features = {
                **records.image_features(encoded, images.image_header(encoded), name, name),
                'image/object/class/label': np.array(
                    [1 + len(item.name) % len(CLASSES) for item in inside], np.int64
                ),
            }
            for side, values in zip(('ymin', 'xmin', 'ymax', 'xmax'), boxes.T):
                features[f'image/object/bbox/{side}'] = values.astype(np.float32)
            writer.write(records.serialize(features))
    return paths


def load_config(model: str, paths: Dict[str, str], num_classes: int) -> Any:
    """The published config on the drawn images."""
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(
        os.path.join(pipelines.PUBLISHED, 'tf1', f'{model}.config')
    )
    pipelines.on_one_machine(config)
    pipelines.read_by(config, paths['records'], paths['label_map'])
    config.ClearField('graph_rewriter')
    config.model.ssd.num_classes = num_classes
    config.train_config.batch_size = BATCH_SIZE
    config.eval_config.batch_size = BATCH_SIZE
    config.eval_config.metrics_set[:] = ['coco_detection_metrics']
    config.eval_config.ClearField('num_examples')
    return config


def train_one_step(config: Any, model_dir: str) -> None:
    """Leaves a checkpoint of the network."""
    from estimator_lib import training
    from model_fns import build_task

    config.train_config.num_steps = 1
    training.train_and_evaluate(build_task(config), config, model_dir, evaluate=False)


def evaluation_seconds(config: Any, model_dir: str) -> float:
    """A whole evaluation."""
    from estimator_lib import training
    from model_fns import build_task

    started = time.perf_counter()
    training.evaluate(build_task(config), config, model_dir)
    return time.perf_counter() - started


def measure_evaluation(
    config: Any, model_dir: str, num_images: int, turns: int
) -> Dict[str, float]:
    """Seconds of an evaluation, and of each further image."""
    whole: List[float] = []
    small: List[float] = []
    for _ in range(turns):
        config.eval_config.num_examples = BATCH_SIZE
        small.append(evaluation_seconds(config, model_dir))
        config.eval_config.num_examples = num_images
        whole.append(evaluation_seconds(config, model_dir))
    of_one = [(many - few) / (num_images - BATCH_SIZE) for many, few in zip(whole, small)]
    return {'seconds': statistics.median(whole), 'seconds_an_image': statistics.median(of_one)}


def measure_serving(config: Any, model_dir: str, runs: int) -> Dict[str, float]:
    """Milliseconds from one image to its detections."""
    from estimator_lib.export import exported_model, exporting, saved_model, serving
    from model_fns import build_task

    image = np.random.default_rng(1).integers(0, 256, [1, HEIGHT, WIDTH, 3], np.uint8)
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
    """All measurements."""
    from benchmarks import run
    from estimator_lib import config as config_lib

    results: Dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = write_records(folder, num_images)
        for num_classes in (3, 90):
            config = load_config(model, paths, num_classes)
            model_dir = os.path.join(folder, f'{num_classes}_classes')
            train_one_step(config, model_dir)
            of_evaluation = measure_evaluation(config, model_dir, num_images, turns)
            for name, value in of_evaluation.items():
                results[f'evaluation_{num_classes}_classes_{name}'] = value
        results.update(measure_serving(config, model_dir, 100))
        config_path = config_lib.save_pipeline_config(load_config(model, paths, 3), folder)
        results.update(run.measure_input(config_path, batches=100))
    return results


def main() -> None:
    """The command."""
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
