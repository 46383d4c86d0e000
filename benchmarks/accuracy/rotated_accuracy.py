"""Rotated average precision of exported detectors, with rotated or axis-aligned boxes.

    python -m benchmarks.accuracy.rotated_accuracy
        --records='data/demo/scenes/val-*.tfrecord' MODEL ...

Every model, a folder of an export, is run on the images of records with `image/object/rbbox/*`, and
its boxes are compared with the rotated ones of the records; an axis-aligned box has the angle 0.
"""

from __future__ import annotations

import argparse
import json
from typing import Dict, List, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from benchmarks import measuring
from estimator_lib.export import exported_model
from model_fns.datasets.rotated import boxes as rotated
from model_fns.detection import fields
from model_fns.detection.metrics.evaluator import Detections, Groundtruth
from model_fns.detection.metrics.rotated import RotatedEvaluator
from model_fns.structures import images, rotated_overlaps

_CLASSES = 'image/object/class/label'


class Picture(NamedTuple):
    """An image and its objects."""

    name: str
    pixels: np.ndarray
    groundtruth: Groundtruth


def read(pattern: str) -> List[Picture]:
    """Return the pictures of records."""
    pictures = []
    for path in sorted(tf.io.gfile.glob(pattern)):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            pixels = images.decode_image(feature['image/encoded'].bytes_list.value[0]).numpy()
            numbers = np.array([feature[key].float_list.value for key in rotated.KEYS]).T
            classes = np.array(feature[_CLASSES].int64_list.value, np.int64)
            none = np.zeros(len(classes), bool)
            groundtruth = Groundtruth(
                boxes=rotated_overlaps.outlines(numbers.reshape([-1, 5]), pixels.shape[:2]),
                classes=classes,
                is_crowd=none,
                difficult=none,
                group_of=none,
                areas=np.zeros(len(classes), np.float32),
                image_classes=np.zeros(0, np.int64),
            )
            pictures.append(Picture(f'{path} {len(pictures)}', pixels, groundtruth))
    if not pictures:
        raise SystemExit(f'--records: no record is in files of the pattern {pattern!r}.')
    return pictures


def evaluate(model: str, pictures: Sequence[Picture], classes: int) -> Dict[str, float]:
    """Return the metrics of an exported model."""
    evaluator = RotatedEvaluator({one: str(one) for one in range(1, classes + 1)})
    predictor = exported_model.Predictor(model)
    for picture in pictures:
        outputs = predictor.predict(picture.pixels[np.newaxis])
        count = int(outputs[fields.NUM_DETECTIONS][0])
        boxes = outputs[fields.DETECTION_BOXES][0][:count]
        found = Detections(
            boxes=rotated_overlaps.outlines(boxes, picture.pixels.shape[:2]),
            scores=outputs[fields.DETECTION_SCORES][0][:count],
            classes=outputs[fields.DETECTION_CLASSES][0][:count].astype(np.int64),
        )
        evaluator.add_image(picture.name, picture.groundtruth, found)
    return evaluator.evaluate()


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('models', nargs='+', help='folders of exported models')
    parser.add_argument('--records', required=True, help='pattern of TFRecords')
    parser.add_argument('--output', default='benchmark_rotated_accuracy.json')
    arguments = parser.parse_args()
    measuring.quiet()
    pictures = read(arguments.records)
    classes = max(int(one.groundtruth.classes.max(initial=1)) for one in pictures)
    results = {}
    for model in arguments.models:
        results[model] = evaluate(model, pictures, classes)
        print(model)
        for name, value in results[model].items():
            if 'PerformanceByCategory' not in name:
                print(f'  {name:40s} {value:.3f}')
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
