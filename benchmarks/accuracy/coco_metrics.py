"""Comparison of our COCO metrics with faster-coco-eval and pycocotools on random detections.

    python -m benchmarks.accuracy.coco_metrics [--images=1000,5000] [--turns=1]

Each side computes the twelve numbers of a summary in a process of its own, from arrays that are
there. CPU time is that of all threads: "prepare" is what a side makes of the arrays first (the
other two want dictionaries and an index), and "evaluate" the rest. Memory is what a side takes on
top of the arrays and its imports, at its peak.
Needs the packages of the extra `test`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from benchmarks import measuring

NUM_CLASSES = 80
_SIDES_OF_IMAGE = np.array([480.0, 640.0])
_OBJECTS = 7.3  # of an image of COCO, in the mean
_DETECTIONS = 100

# Makes what a side evaluates, and evaluates it: the twelve numbers.
Side = Tuple[Callable[[Mapping[str, np.ndarray]], Any], Callable[[Any], List[float]]]


def random_scenes(num_images: int, seed: int) -> Dict[str, np.ndarray]:
    """Return groundtruth and detections like those of COCO, in arrays over all images.

    Half of the detections are near to an object, most of these of its class. Three in a hundred
    objects are crowds.

    Returns:
        Of objects and of detections: `{objects,found}_{image,boxes,classes}`, boxes float32 [n, 4]
        in pixels, classes from 1, sorted by image; `objects_crowd` bool, `found_scores` float32.
    """
    random = np.random.RandomState(seed)
    counts = random.poisson(_OBJECTS, num_images)
    image = np.repeat(np.arange(num_images), counts)
    boxes, classes = _boxes(random, len(image)), random.randint(1, NUM_CLASSES + 1, len(image))
    found_image = np.repeat(np.arange(num_images), _DETECTIONS)
    found = _boxes(random, len(found_image))
    found_classes = random.randint(1, NUM_CLASSES + 1, len(found_image))
    near = (random.rand(len(found_image)) < 0.5) & (counts[found_image] > 0)
    # In turn to the objects of their image.
    first = np.cumsum(counts) - counts
    of = first[found_image[near]] + np.flatnonzero(near) % counts[found_image[near]]
    size = np.tile(boxes[of, 2:] - boxes[of, :2], 2)
    noise = random.choice([0.02, 0.1, 0.3], [len(of), 1])
    found[near] = boxes[of] + random.randn(len(of), 4) * size * noise
    found[:, 2:] = np.maximum(found[:, 2:], found[:, :2] + 1)
    right = random.rand(len(of)) < 0.8
    found_classes[near] = np.where(right, classes[of], found_classes[near])
    scores = random.rand(len(found_image)) * (0.5 + 0.5 * near)
    return {
        'num_images': np.array(num_images),
        'objects_image': image,
        'objects_boxes': boxes.astype(np.float32),
        'objects_classes': classes,
        'objects_crowd': random.rand(len(image)) < 0.03,
        'found_image': found_image,
        'found_boxes': found.astype(np.float32),
        'found_classes': found_classes,
        'found_scores': scores.astype(np.float32),
    }


def _boxes(random: np.random.RandomState, count: int) -> np.ndarray:
    sides = _SIDES_OF_IMAGE * np.exp(random.uniform(np.log(0.015), np.log(0.9), [count, 2]))
    low = random.rand(count, 2) * (_SIDES_OF_IMAGE - sides)
    return np.concatenate([low, low + sides], axis=1)


def _our_images(scenes: Mapping[str, np.ndarray]) -> List[Tuple[str, Any, Any]]:
    """Return the images as the engine gives them: views of the arrays."""
    from model_fns.detection.metrics.evaluator import Detections, Groundtruth

    images = range(int(scenes['num_images']) + 1)
    ends = [np.searchsorted(scenes[f'{kind}_image'], images) for kind in ('objects', 'found')]
    made = []
    for index in images[:-1]:
        objects, found = (slice(end[index], end[index + 1]) for end in ends)
        count = objects.stop - objects.start
        flags, nothing = np.zeros([count], bool), np.zeros([0], np.int64)
        truth = Groundtruth(
            boxes=scenes['objects_boxes'][objects],
            classes=scenes['objects_classes'][objects],
            is_crowd=scenes['objects_crowd'][objects],
            difficult=flags,
            group_of=flags,
            areas=np.zeros([count], np.float32),
            image_classes=nothing,
        )
        names = ('boxes', 'scores', 'classes')
        detections = Detections(**{name: scenes[f'found_{name}'][found] for name in names})
        made.append((str(index), truth, detections))
    return made


def _our_numbers(images: List[Tuple[str, Any, Any]]) -> List[float]:
    from model_fns.detection.metrics.coco import CocoEvaluator

    names = {class_id: str(class_id) for class_id in range(1, NUM_CLASSES + 1)}
    evaluator = CocoEvaluator(names)
    for image in images:
        evaluator.add_image(*image)
    return list(evaluator.evaluate().values())


def _prepared(coco_type: Any, scenes: Mapping[str, np.ndarray]) -> Tuple[Any, Any]:
    """Return groundtruth and detections as the packages want them."""
    boxes = _corner_and_size(scenes['objects_boxes'])
    annotations = [
        {
            'id': index + 1,
            'image_id': image + 1,
            'category_id': class_id,
            'bbox': box,
            'area': box[2] * box[3],
            'iscrowd': int(crowd),
        }
        for index, (image, class_id, box, crowd) in enumerate(
            zip(
                scenes['objects_image'].tolist(),
                scenes['objects_classes'].tolist(),
                boxes.tolist(),
                scenes['objects_crowd'].tolist(),
            )
        )
    ]
    known = coco_type()
    known.dataset = {
        'info': {},
        'images': [{'id': index + 1} for index in range(int(scenes['num_images']))],
        'annotations': annotations,
        'categories': [{'id': index + 1, 'name': str(index)} for index in range(NUM_CLASSES)],
    }
    known.createIndex()
    columns = [scenes['found_image'] + 1, scenes['found_scores'], scenes['found_classes']]
    found = np.insert(
        np.stack(columns, axis=1).astype(np.float64),
        [1],
        _corner_and_size(scenes['found_boxes']),
        axis=1,
    )
    return known, known.loadRes(found)


def _corner_and_size(boxes: np.ndarray) -> np.ndarray:
    wide = boxes.astype(np.float64)
    return np.concatenate([wide[:, 1::-1], wide[:, :1:-1] - wide[:, 1::-1]], axis=1)


def _twelve_numbers(evaluation_type: Any) -> Callable[[Tuple[Any, Any]], List[float]]:
    def numbers(prepared: Tuple[Any, Any]) -> List[float]:
        evaluation = evaluation_type(*prepared, iouType='bbox')
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        return [float(number) for number in evaluation.stats[:12]]

    return numbers


def _ours() -> Side:
    from model_fns.detection.metrics import coco  # noqa: F401 (its import is not measured)

    return _our_images, _our_numbers


def _faster_coco_eval() -> Side:
    from faster_coco_eval import COCO, COCOeval_faster

    return lambda scenes: _prepared(COCO, scenes), _twelve_numbers(COCOeval_faster)


def _pycocotools() -> Side:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    return lambda scenes: _prepared(COCO, scenes), _twelve_numbers(COCOeval)


SIDES: Dict[str, Callable[[], Side]] = {
    'ours': _ours,
    'faster-coco-eval': _faster_coco_eval,
    'pycocotools': _pycocotools,
}


def measure_here(side: str, path: str) -> Dict[str, Any]:
    """Return one side's numbers, seconds and memory."""
    prepare, evaluate = SIDES[side]()
    with np.load(path) as file:
        scenes = dict(file)
    measuring.forget_peak_memory()
    before = measuring.peak_memory_mib()
    # They print as they go.
    with contextlib.redirect_stdout(io.StringIO()):
        started = measuring.clocks()
        prepared = prepare(scenes)
        ready = measuring.clocks()
        numbers = evaluate(prepared)
        done = measuring.clocks()
    return {
        'numbers': numbers,
        'seconds': done.wall - started.wall,
        'prepare_cpu': ready.cpu - started.cpu,
        'evaluate_cpu': done.cpu - ready.cpu,
        'memory_mib': measuring.peak_memory_mib() - before,
    }


def measure(
    sides: Sequence[str], num_images: int, turns: int, seed: int
) -> Dict[str, Dict[str, Any]]:
    """Measure the sides alternately, each in new processes; return medians by side."""
    results: Dict[str, List[Dict[str, Any]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'scenes.npz')
        np.savez(path, **random_scenes(num_images, seed))
        for _ in range(turns):
            for side in sides:
                results[side].append(
                    measuring.run_apart('accuracy.coco_metrics', ['--one', side, path])
                )
    return {
        side: {
            'numbers': of_side[0]['numbers'],
            **{
                name: statistics.median(one[name] for one in of_side)
                for name in ('seconds', 'prepare_cpu', 'evaluate_cpu', 'memory_mib')
            },
        }
        for side, of_side in results.items()
    }


def _print(num_images: int, results: Mapping[str, Mapping[str, Any]]) -> None:
    print(
        f'{num_images} images, {_DETECTIONS} detections each, {NUM_CLASSES} classes; '
        f'mAP {results["ours"]["numbers"][0]:.4f}'
    )
    print(f'{"":18s} seconds  CPU: prepare  evaluate  MiB at peak  largest difference from ours')
    for side, one in results.items():
        difference = np.abs(np.subtract(one['numbers'], results['ours']['numbers'])).max()
        print(
            f'{side:18s} {one["seconds"]:7.2f} {one["prepare_cpu"]:13.2f} '
            f'{one["evaluate_cpu"]:9.2f} {one["memory_mib"]:12.0f}  {difference:.1e}',
            flush=True,
        )


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--images', default='1000,5000', help='with commas between')
    parser.add_argument('--others', default='faster-coco-eval,pycocotools', help='to compare with')
    parser.add_argument('--turns', type=int, default=1, help='how often each side is measured')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default='benchmark_coco.json', help='where the JSON goes')
    parser.add_argument('--one', nargs=2, metavar=('SIDE', 'FILE'), help='measure it here')
    arguments = parser.parse_args()
    measuring.quiet()
    if arguments.one:
        print(json.dumps(measure_here(*arguments.one)))
        return
    results = {}
    sides = ['ours', *arguments.others.split(',')]
    for count in map(int, arguments.images.split(',')):
        results[count] = measure(sides, count, arguments.turns, arguments.seed)
        _print(count, results[count])
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
