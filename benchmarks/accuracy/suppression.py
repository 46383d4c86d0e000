"""Comparison of our suppression with a loop over classes of `tf.image.non_max_suppression`.

    python -m benchmarks.accuracy.suppression [--runs=10]

Cases are an SSD's 1917 anchors in batches of 8 and a RetinaNet's 100 000 with one image, of 90
classes, each with the scores of a network before training (all much the same) and after it (few
are high). Detections of both sides must be equal. Milliseconds are medians; CPU time is that of
all threads.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import measuring
from model_fns.detection.boxes import overlaps
from model_fns.detection.detections import suppression

tf1 = tf.compat.v1

NUM_CLASSES = 90
_OBJECTS = 7
_RULES = suppression.Rules(score_threshold=1e-8, iou_threshold=0.6)


@dataclasses.dataclass(frozen=True)
class Case:
    """Boxes and scores to suppress.

    Attributes:
        name: of the detector.
        batch: images.
        anchors: of an image.
        trained: whether few scores are high.
    """

    name: str
    batch: int
    anchors: int
    trained: bool

    def __str__(self) -> str:
        state = 'trained' if self.trained else 'untrained'
        return f'{self.name}, {self.batch} x {self.anchors} anchors, {state}'


CASES = tuple(
    Case(*detector, trained)
    for detector in (('SSD', 8, 1917), ('RetinaNet', 1, 100_000))
    for trained in (False, True)
)


def random_predictions(case: Case, seed: int) -> Tuple[np.ndarray, np.ndarray]:
    """Return random boxes float32 [B, A, 4] and distinct scores float32 [B, A, C]."""
    random = np.random.RandomState(seed)
    sides = np.exp(random.uniform(np.log(0.03), np.log(0.6), [case.batch, case.anchors, 2]))
    low = random.rand(case.batch, case.anchors, 2) * (1.0 - sides)
    boxes = np.concatenate([low, low + sides], axis=-1).astype(np.float32)
    logits = random.randn(case.batch, case.anchors, NUM_CLASSES)
    if not case.trained:
        return boxes, _scores(logits - 4.6)
    logits = logits - 9.0
    for image in range(case.batch):
        for anchor in random.randint(0, case.anchors, _OBJECTS):
            overlap = overlaps.iou(boxes[image, anchor : anchor + 1], boxes[image])[0]
            logits[image, :, random.randint(NUM_CLASSES)] += 12.0 * overlap
    return boxes, _scores(logits)


def _scores(logits: np.ndarray) -> np.ndarray:
    return (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)


def suppress_by_loop(boxes: tf.Tensor, scores: tf.Tensor) -> Tuple[tf.Tensor, ...]:
    """Return boxes [B, N, 4], scores, classes [B, N]: each image and class by itself."""

    def suppress_image(inputs: Tuple[tf.Tensor, tf.Tensor]) -> Tuple[tf.Tensor, ...]:
        of_boxes, of_classes = inputs
        rows, labels = [], []
        for label, of_class in enumerate(tf.unstack(of_classes, axis=1)):
            kept = tf.image.non_max_suppression(
                of_boxes,
                of_class,
                _RULES.max_per_class,
                _RULES.iou_threshold,
                _RULES.score_threshold,
            )
            rows.append(kept)
            labels.append(tf.fill(tf.shape(kept), label))
        rows, labels = tf.concat(rows, 0), tf.concat(labels, 0)
        kept_scores = tf.gather_nd(of_classes, tf.stack([rows, labels], 1))
        short = tf.maximum(0, _RULES.max_total - tf.size(rows))
        best, places = tf.math.top_k(tf.pad(kept_scores, [[0, short]]), _RULES.max_total)
        rows, labels = (tf.gather(tf.pad(one, [[0, short]]), places) for one in (rows, labels))
        return tf.gather(of_boxes, rows), best, labels

    size = _RULES.max_total
    signature = (
        tf.TensorSpec([size, 4], tf.float32),
        tf.TensorSpec([size], tf.float32),
        tf.TensorSpec([size], tf.int32),
    )
    return tf.map_fn(suppress_image, (boxes, scores), fn_output_signature=signature)


def suppress_at_once(boxes: tf.Tensor, scores: tf.Tensor) -> Tuple[tf.Tensor, ...]:
    """Return the same as `suppress_by_loop`, by our suppression."""
    found = suppression.suppress(
        boxes[:, :, tf.newaxis], scores, _RULES, tf.constant([[0.0, 0, 1, 1]])
    )
    return found.boxes, found.scores, found.classes


def measure(case: Case, runs: int, seed: int) -> Dict[str, Any]:
    """Return milliseconds and nodes of both sides, measured alternately, and whether they agree."""
    boxes, scores = random_predictions(case, seed)
    times: Dict[str, List[Tuple[float, float]]] = {}
    found, nodes = {}, {}
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        fed = tf1.placeholder(tf.float32, boxes.shape), tf1.placeholder(tf.float32, scores.shape)
        feeds = dict(zip(fed, (boxes, scores)))
        sides = {}
        for name, side in (('ours', suppress_at_once), ('loop', suppress_by_loop)):
            before = count_nodes(graph)
            sides[name] = side(*fed)
            nodes[name] = count_nodes(graph) - before
        for name, side in itertools.chain(sides.items(), list(sides.items()) * runs):
            begun = measuring.clocks()
            found[name] = session.run(side, feeds)
            done = measuring.clocks()
            # The first run of each is the one that prepares the graph.
            times.setdefault(name, []).append((done.wall - begun.wall, done.cpu - begun.cpu))
    results: Dict[str, Any] = {'case': str(case)}
    for name, of_side in times.items():
        wall, cpu = (statistics.median(one) * 1e3 for one in zip(*of_side[1:]))
        results[name] = {'ms': wall, 'cpu_ms': cpu, 'nodes': nodes[name]}
    results['equal_to_loop'] = _are_equal(found['ours'], found['loop'])
    return results


def count_nodes(graph: tf.Graph) -> int:
    """Count the nodes of a graph and of the functions (bodies of loops) that it calls."""
    definition = graph.as_graph_def()
    of_functions = [len(function.node_def) for function in definition.library.function]
    return len(definition.node) + sum(of_functions)


def _are_equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other))


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--runs', type=int, default=10, help='of each side')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default='benchmark_suppression.json', help='where it goes')
    arguments = parser.parse_args()
    measuring.quiet()
    results = []
    print('(each side: milliseconds, CPU milliseconds, nodes)')
    for case in CASES:
        one = measure(case, arguments.runs, arguments.seed)
        results.append(one)
        sides = '  '.join(
            f'{name} {one[name]["ms"]:8.1f} {one[name]["cpu_ms"]:8.1f} {one[name]["nodes"]:5d}'
            for name in ('ours', 'loop')
        )
        print(
            f'{one["case"]:42s} {sides}  CPU ratio '
            f'{one["loop"]["cpu_ms"] / one["ours"]["cpu_ms"]:5.1f}  '
            f'equal to loop {one["equal_to_loop"]}',
            flush=True,
        )
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
