"""Run of the embedded demo as a new user does it, compared with its documented limits.

    python -m benchmarks.accuracy.demo [--picture=docs/demo_detections.jpg]

The front door generates the demo's images, trains, evaluates and exports, in a new process and an
empty folder. Its export then detects the shapes in the images of the `val` split with default
thresholds, and `predictions.json` is compared with the records. The exit status is 1 where a limit
is missed. With `--picture` the first images are drawn side by side, for docs/results.md.

CPU seconds are those of all threads: two minutes on two cores are 240.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

from benchmarks import measuring

_MAP = 'DetectionBoxes_Precision/mAP@.50IOU'
_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
_COLUMNS, _ROWS, _SIDE = 4, 2, 300  # of the picture, and pixels of an image in it


class Limit(NamedTuple):
    """Documented limit of the demo: `value` at least, or at most."""

    value: float
    at_least: bool = True

    def holds(self, measured: float) -> bool:
        """Return whether a measured value keeps the promise."""
        return measured >= self.value if self.at_least else measured <= self.value


LIMITS: Mapping[str, Limit] = {
    'cpu_seconds': Limit(240.0, at_least=False),
    'map_at_50': Limit(0.93),
    'found': Limit(0.85),
    'right_of_shown': Limit(0.90),
}


class Objects(NamedTuple):
    """Named boxes of one image.

    Attributes:
        names: of the classes.
        boxes: [n, 4], ymin, xmin, ymax, xmax in pixels.
    """

    names: Sequence[str]
    boxes: Sequence[Sequence[float]]


def count_right(shown: Objects, truth: Objects) -> int:
    """Count objects that are shown with the right name, by boxes that overlap them by half.

    Args:
        shown: what a model shows, the best first; each finds one object at most, and each object
            is found once.
        truth: what there is.
    """
    free = list(range(len(truth.names)))
    for name, box in zip(shown.names, shown.boxes):
        overlaps = {place: _overlap(box, truth.boxes[place]) for place in free}
        same = [place for place in free if truth.names[place] == name and overlaps[place] >= 0.5]
        if same:
            free.remove(max(same, key=overlaps.__getitem__))
    return len(truth.names) - len(free)


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Return intersection over union."""
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return height * width / (sum(areas) - height * width)


def run(flags: Sequence[str], cache: str) -> measuring.Clocks:
    """Run the front door as a process; return the time that it took."""
    environment = {**os.environ, 'DEMO_CACHE_DIR': cache}
    command = measuring.front_door(*flags)
    return measuring.run_process(command, env=environment, stdout=subprocess.DEVNULL)


def truths(pattern: str) -> List[Objects]:
    """Return the objects of each record, in the order of the records."""
    import tensorflow as tf

    paths = sorted(tf.io.gfile.glob(pattern))
    made = []
    for content in tf.data.TFRecordDataset(paths).as_numpy_iterator():
        feature = tf.train.Example.FromString(content).features.feature
        names = [name.decode() for name in feature['image/object/class/text'].bytes_list.value]
        size = [feature[f'image/{side}'].int64_list.value[0] for side in ('height', 'width')]
        boxes = [feature[f'image/object/bbox/{side}'].float_list.value for side in _SIDES]
        made.append(Objects(names, np.transpose(boxes) * [*size, *size]))
    return made


def shown_objects(output_dir: str) -> List[Objects]:
    """Read what `predictions.json` shows of each image, in the order of their names."""
    with open(os.path.join(output_dir, 'predictions.json')) as file:
        entries = json.load(file)
    return [
        Objects(
            [row['class'] for row in entries[name]['detections']],
            [[row[side] for side in _SIDES] for row in entries[name]['detections']],
        )
        for name in sorted(entries)
    ]


def measure(folder: str) -> Dict[str, float]:
    """Run the demo in a folder; see `LIMITS` for what is measured."""
    from model_fns.datasets import demo

    cache, model_dir = os.path.join(folder, 'cache'), os.path.join(folder, 'run')
    output_dir = os.path.join(folder, 'predictions')
    seconds, cpu_seconds = run([f'--model_dir={model_dir}'], cache)
    records = demo.demo_dataset(cache).pattern('scenes', 'val')
    run(
        [
            '--mode=predict',
            f'--saved_model_dir={os.path.join(model_dir, "export", "best")}',
            f'--images={records}',
            f'--output_dir={output_dir}',
        ],
        cache,
    )
    (path,) = glob.glob(os.path.join(model_dir, 'export/best/*/assets.extra/metrics.json'))
    with open(path) as file:
        metrics = next(one for one in json.load(file).values() if isinstance(one, dict))
    pairs = list(zip(shown_objects(output_dir), truths(records)))
    right = sum(count_right(shown, truth) for shown, truth in pairs)
    return {
        'seconds': seconds,
        'cpu_seconds': cpu_seconds,
        'map_at_50': metrics[_MAP],
        'score_threshold': metrics['BestF1@.50IOU/score_threshold'],
        'objects': float(sum(len(truth.names) for _, truth in pairs)),
        'found': right / sum(len(truth.names) for _, truth in pairs),
        'right_of_shown': right / max(1, sum(len(shown.names) for shown, _ in pairs)),
    }


def draw(folder: str, path: str) -> None:
    """Draw a grid of the predicted pictures of the first images."""
    from PIL import Image

    from estimator_lib.drawing import visualization

    output_dir = os.path.join(folder, 'predictions')
    names = sorted(name for name in os.listdir(output_dir) if name.endswith('.png'))
    pictures: List[Any] = []
    for name in names[: _COLUMNS * _ROWS]:
        picture = np.asarray(Image.open(os.path.join(output_dir, name)).convert('RGB'))
        pictures.append(visualization.resized(picture, _SIDE, _SIDE))
    Image.fromarray(visualization.grid(pictures, _COLUMNS)).save(path, quality=85)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = measuring.create_parser(__doc__, 'demo')
    parser.add_argument('--picture', help='where to draw the first images')
    arguments = parser.parse_args()
    measuring.quiet()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(folder)
        if arguments.picture:
            draw(folder, arguments.picture)
    measuring.report(results, arguments.output)
    missed = [name for name, limit in LIMITS.items() if not limit.holds(results[name])]
    for name in missed:
        word = 'at least' if LIMITS[name].at_least else 'at most'
        print(f'missed: {name} is {results[name]:.3f}; promised: {word} {LIMITS[name].value:g}')
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
