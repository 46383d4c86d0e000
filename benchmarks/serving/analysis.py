"""Measurement of what an analysis adds to an evaluation: seconds and memory.

    python -m benchmarks.serving.analysis [--task=detection] [--images=300]

A model is evaluated with and without `--analyze`, alternating, each time in a new process: a
published detector (`--model`), MobileNet V1 at 224 pixels (`--task=classification`), or DeepLab
with MobileNet V2 at 513 pixels (`--task=segmentation`). Reported are the median seconds of both: of
the whole process, of the evaluation alone, and of the processor in each; what the analysis adds;
and the peak memory of both (MiB). Of a detector also the bytes that the analyzer keeps of an image
with 100 detections, measured by tracemalloc, and what that is for 100,000 images (MiB).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import tracemalloc
from typing import Any, Dict, List

from benchmarks import measuring, scenes

_CHILD = '--child'
_DETECTIONS = 100
_OBJECTS = 7

_DETECTION = 'detection'
# By task: the side of the images, and the model.
_MODELS = {
    'classification': (
        320,
        """classification {
             num_classes: 8 labels_offset: 1 image_height: 224 image_width: 224
             backbone { name: "mobilenet_v1" } }""",
    ),
    'segmentation': (
        480,
        """segmentation {
             num_classes: 9 crop_height: 513 crop_width: 513
             backbone { name: "mobilenet_v2" output_stride: 16 } aspp {} }""",
    ),
}
_TRAINING = """
    train_config {
      batch_size: 2
      optimizer {
        adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.001 } } }
        use_moving_average: false
      }
    }
    eval_config { batch_size: 8 }
"""


def evaluate(config_path: str, model_dir: str, analyze: bool) -> Dict[str, float]:
    """Evaluate the latest checkpoint of a folder in this process."""
    from estimator_lib import config as config_lib
    from estimator_lib import training
    from model_fns import build_task

    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)
    wall, cpu = time.monotonic(), time.process_time()
    training.evaluate(task, config, model_dir, analyze=analyze)
    return {
        'seconds': time.monotonic() - wall,
        'cpu_seconds': time.process_time() - cpu,
        'command_cpu_seconds': time.process_time(),
        'peak_mebibytes': measuring.peak_memory_mib(),
    }


def kept_bytes(images: int = 500) -> float:
    """Return the bytes that the analyzer keeps of an image."""
    import numpy as np

    from model_fns.detection import fields
    from model_fns.detection.analysis.analyzer import DetectionAnalyzer
    from model_fns.detection.metrics.coco import CocoEvaluator

    rng = np.random.RandomState(0)

    def boxes(count: int) -> Any:
        low = rng.rand(count, 2) * 0.7
        return np.concatenate([low, low + 0.05 + rng.rand(count, 2) * 0.25], axis=1)

    def image(number: int) -> Dict[str, Any]:
        none = np.zeros([_OBJECTS], bool)
        return {
            fields.SOURCE_ID: f'images/{number:012d}.jpg'.encode(),
            fields.ORIGINAL_SHAPE: np.array([480, 640], np.int32),
            fields.BOXES: boxes(_OBJECTS).astype(np.float32),
            fields.CLASSES: rng.randint(0, 80, _OBJECTS),
            **dict.fromkeys((fields.IS_CROWD, fields.DIFFICULT, fields.GROUP_OF), none),
            fields.AREA: np.zeros([_OBJECTS], np.float32),
            fields.NUM_BOXES: np.int32(_OBJECTS),
            fields.DETECTION_BOXES: boxes(_DETECTIONS).astype(np.float32),
            fields.DETECTION_CLASSES: rng.randint(1, 81, _DETECTIONS).astype(np.float32),
            fields.DETECTION_SCORES: rng.rand(_DETECTIONS).astype(np.float32),
            fields.NUM_DETECTIONS: np.float32(_DETECTIONS),
        }

    names = {number: str(number) for number in range(1, 81)}
    made = DetectionAnalyzer(CocoEvaluator(names), lambda metrics: 0.5, lambda labels: labels)
    made.add(image(-1))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(images):
        made.add(image(number))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / images


def create_config(task: str, model: str, images: int, folder: str) -> Any:
    """Write records of synthetic scenes; return the config of a model that reads them."""
    if task == _DETECTION:
        return scenes.load_config(model, scenes.write_records(folder, images), 3)
    import numpy as np

    from estimator_lib import config as config_lib
    from model_fns.datasets import demo

    size, text = _MODELS[task]
    data = demo.DemoDataset(pathlib.Path(folder))
    os.makedirs(os.path.join(folder, task))
    counts = {'train': 1, 'val': images}
    subset = demo.Subset(size, 6, (0.16, 0.38), np.pi, counts, {'train': 1, 'val': 1})
    demo.write(data, {task: subset})
    readers = [
        f'{reader} {{ label_map_path: "{data.label_map}" '
        f'tf_record_input_reader {{ input_path: "{data.pattern(task, split)}" }} }}'
        for reader, split in (('train_input_reader', 'train'), ('eval_input_reader', 'val'))
    ]
    return config_lib.parse_pipeline_config(
        f'model {{ {text} }} {_TRAINING} {" ".join(readers)}', task
    )


def measure(config_path: str, model_dir: str, repeats: int) -> Dict[str, float]:
    """Measure evaluations with and without analysis, in processes of their own."""
    runs: Dict[bool, List[Dict[str, float]]] = {False: [], True: []}
    for _ in range(repeats):
        for analyze, measured in runs.items():
            arguments = [_CHILD, config_path, model_dir, str(int(analyze))]
            started = time.monotonic()
            values = measuring.run_apart('serving.analysis', arguments)
            measured.append({'command_seconds': time.monotonic() - started, **values})
    results: Dict[str, float] = {}
    for key in runs[True][0]:
        plain, analyzed = (
            statistics.median(each[key] for each in runs[analyze]) for analyze in (False, True)
        )
        results.update({key: plain, f'{key}_analyzed': analyzed})
        is_memory = key == 'peak_mebibytes'
        added = analyzed - plain if is_memory else analyzed / plain - 1
        results[f'{key}_added' if is_memory else f'{key}_added_fraction'] = added
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    if sys.argv[1:2] == [_CHILD]:
        measuring.quiet()
        config_path, model_dir, analyze = sys.argv[2:]
        print(json.dumps(evaluate(config_path, model_dir, analyze == '1')))
        return
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--task', choices=[_DETECTION, *_MODELS], default=_DETECTION)
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a published detector')
    parser.add_argument('--images', type=int, default=300, help='of an evaluation')
    parser.add_argument('--repeats', type=int, default=3, help='of each evaluation')
    parser.add_argument('--output', default='benchmark_analysis.json', help='the JSON')
    arguments = parser.parse_args()
    measuring.quiet()
    with tempfile.TemporaryDirectory() as folder:
        config = create_config(arguments.task, arguments.model, arguments.images, folder)
        model_dir = os.path.join(folder, 'run')
        scenes.train_one_step(config, model_dir)
        config_path = os.path.join(model_dir, 'pipeline.config')
        results = measure(config_path, model_dir, arguments.repeats)
    if arguments.task == _DETECTION:
        kept = kept_bytes()
        results['kept_bytes_per_image'] = kept
        results['mebibytes_of_100000_images'] = 100_000 * kept / 2**20
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
