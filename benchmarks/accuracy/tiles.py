"""Accuracy on large images: by tiles, and resized to an input of as many pixels.

    python -m benchmarks.accuracy.tiles --work=FOLDER [--steps=500] [--seed=1]

Canvases of 2 x 2 micrographs of ../shared/data/nuclei, mirrored and rotated at random. Those of
training and of evaluation have different micrographs. Two detectors of one architecture learn from
them, for as many steps of as many pixels: 16 tiles of 128 x 128, or 4 canvases at 256 x 256. The
metric is Pascal's: COCO's counts the best 100 detections of an image, however large it is.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from benchmarks import measuring
from benchmarks.accuracy import runs

METRIC = 'PascalBoxes_Precision/mAP@0.5IOU'
_SIDE, _ROWS = 256, 2  # pixels of a micrograph, to which larger ones are cut, and rows of a canvas
_CANVASES = {'train': 40, 'val': 10}
_HEAD = ('trained on', 'evaluated on', METRIC)
_BASE = os.path.join(measuring.ROOT, 'model_fns', 'datasets', 'demo_detection.config')
_CONFIG = """
model {{ ssd {{
  num_classes: 1
  image_resizer {{ fixed_shape_resizer {{ height: {side} width: {side} }} }}
  feature_extractor {{ fpn {{ min_level: 2 additional_layer_depth: 32 }} }}
  box_predictor {{ weight_shared_convolutional_box_predictor {{ depth: 32 }} }}
  anchor_generator {{ multiscale_anchor_generator {{ min_level: 2 }} }}
  post_processing {{ batch_non_max_suppression {{
    max_detections_per_class: 1000 max_total_detections: 1000
  }} }}
}} }}
train_config {{
  batch_size: {batch_size} num_steps: {steps} random_seed: {seed} max_number_of_boxes: {most}
  use_bfloat16: false checkpoints {{ save_every_n_steps: 100000 }}
  optimizer {{ adam_optimizer {{ learning_rate {{
    cosine_decay_learning_rate {{ learning_rate_base: 0.005 }}
  }} }} }}
}}
train_input_reader {{
  label_map_path: "{work}/label_map.pbtxt" max_number_of_boxes: {most} cache: RECORDS {tiles}
  instance_input_reader {{
    image_path: "{work}/train/images" annotation_path: "{work}/train/objects"
    class_name: "nucleus"
  }}
}}
eval_config {{ batch_size: 1 metrics_set: "pascal_voc_detection_metrics" analyze: false }}
eval_input_reader {{
  label_map_path: "{work}/label_map.pbtxt" max_number_of_boxes: 600
  instance_input_reader {{
    image_path: "{work}/val/images" annotation_path: "{work}/val/objects"
    class_name: "nucleus"
  }}
}}
export_config {{ best {{ metric: "PascalBoxes_Precision/mAP@0.5IOU" }} final {{ enabled: false }} }}
"""
_TILES = {'side': 128, 'batch_size': 16, 'most': 100, 'tiles': 'tiles { size: 128 overlap: 32 }'}
_RESIZED = {'side': 256, 'batch_size': 4, 'most': 400, 'tiles': ''}
_FIELD = 'model.ssd.image_resizer.fixed_shape_resizer'


def read_squares(folder: str, random: np.random.Generator) -> Iterator[Tuple[Any, Any]]:
    """Yield micrographs without an end, all equally often, each in one of eight positions.

    Args:
        folder: of the micrographs of a split.
        random: source of their order and positions.

    Yields:
        Pixels, uint8 [256, 256, 3], and ids of objects, from 1, [256, 256].
    """
    from PIL import Image

    names = sorted(os.listdir(os.path.join(folder, 'images')))
    while True:
        for name in random.permutation(names):
            turns, step = random.integers(4), random.choice([1, -1])
            with Image.open(os.path.join(folder, 'images', name)) as file:
                image = np.asarray(file.convert('RGB'))
            with Image.open(os.path.join(folder, 'instance_masks', name)) as file:
                objects = np.asarray(file, np.int32)
            yield (
                np.rot90(image[:_SIDE, :_SIDE][:, ::step], turns),
                np.rot90(objects[:_SIDE, :_SIDE][:, ::step], turns),
            )


def draw_canvas(squares: Iterator[Tuple[Any, Any]]) -> Tuple[Any, Any]:
    """Return pixels, uint8 [512, 512, 3], and ids of objects, uint16 [512, 512]."""
    side = _ROWS * _SIDE
    canvas, ids = np.zeros([side, side, 3], np.uint8), np.zeros([side, side], np.uint16)
    for top in range(0, side, _SIDE):
        for left in range(0, side, _SIDE):
            image, objects = next(squares)
            place = slice(top, top + _SIDE), slice(left, left + _SIDE)
            canvas[place] = image
            ids[place] = np.where(objects, objects + ids.max(), 0)
    return canvas, ids


def write_canvases(source: str, work: str) -> None:
    """Write canvases, ids of their objects and a label map, unless they are there."""
    from PIL import Image

    path = os.path.join(work, 'label_map.pbtxt')
    if os.path.exists(path):
        return
    for seed, (split, count) in enumerate(_CANVASES.items()):
        squares = read_squares(os.path.join(source, split), np.random.default_rng(seed))
        for number in range(count):
            for kind, values in zip(('images', 'objects'), draw_canvas(squares)):
                folder = os.path.join(work, split, kind)
                os.makedirs(folder, exist_ok=True)
                Image.fromarray(values).save(os.path.join(folder, f'{number:02d}.png'))
    with open(path, 'w') as file:
        file.write('item { id: 1 name: "nucleus" }\n')


def measure(work: str, steps: int, seed: int) -> List[Sequence[str]]:
    """Train both detectors, and return the rows of the table."""
    whole = [f'--set={_FIELD}.{field}={_ROWS * _SIDE}' for field in ('height', 'width')]
    evaluations = {
        'tiles': {
            'tiles of 128 x 128': ['--tile=128', '--overlap=32'],
            'canvases resized to 128 x 128, the input of a tile': [],
            'canvases as they are, 512 x 512': whole,
        },
        'resized canvases': {'canvases resized to 256 x 256': []},
    }
    rows = []
    for (name, each), settings in zip(evaluations.items(), (_TILES, _RESIZED)):
        text = _CONFIG.format(**settings, work=work, steps=steps, seed=seed)
        folder = os.path.join(work, f'{name.split()[0]}-{steps}-{seed}')
        flags = [f'--pipeline_config_path={_BASE}', f'--config_override={text}']
        runs.run(folder, *flags)
        for evaluated, more in each.items():
            score = runs.evaluate(folder, METRIC, *more)
            rows.append((name, evaluated, f'{score:.3f}'))
    return rows


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--work', required=True, help='folder of the canvases and the runs')
    parser.add_argument('--steps', type=int, default=500, help='of each training')
    parser.add_argument('--seed', type=int, default=1, help='of the trainings')
    flags = parser.parse_args(arguments)
    work = os.path.abspath(flags.work)
    write_canvases(runs.find_data('nuclei'), work)
    print(measuring.format_table(_HEAD, measure(work, flags.steps, flags.seed)))


if __name__ == '__main__':
    main()
