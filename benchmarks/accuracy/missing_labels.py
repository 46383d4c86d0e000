"""Accuracy of training images that have labels of some classes only.

    python -m benchmarks.accuracy.missing_labels --work=FOLDER [--seeds=1] [--steps=400]

The images are the blood cells of ../shared/data. Two tables of the precision of each class on the
test images, which have all labels: in every second training image only red cells were looked for;
and a class more, with half of the steps, for a detector that learned the red and white cells of
these images. A run that is there already is only read.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import List, Sequence, Tuple
from xml.etree import ElementTree

from benchmarks.accuracy import recipe_gains

_ALL, _TWO, _RED = 'RBC,WBC,Platelets', 'RBC,WBC', 'RBC'
_AP = 'PascalBoxes_PerformanceByCategory/AP@0.5IOU'
METRICS = ('DetectionBoxes_Precision/mAP@.50IOU', *(f'{_AP}/{name}' for name in _ALL.split(',')))
_COMMON = """
model { ssd {
  image_resizer { fixed_shape_resizer { height: 192 width: 256 } }
  anchor_generator { multiscale_anchor_generator { anchor_scale: 4.0 scales_per_octave: 1 } }
  matcher { atss_matcher { } }
  loss { classification_loss { quality_focal { } } localization_loss { weighted_giou { } } }
} }
train_config {
  batch_size: 8 use_bfloat16: false checkpoints { save_every_n_steps: 100000 }
  optimizer { adam_optimizer { learning_rate { cosine_decay_learning_rate { warmup_steps: 50 } } } }
}
eval_config { metrics_set: ["coco_detection_metrics", "pascal_voc_detection_metrics"] }
eval_config { analyze: false } export_config { final { enabled: false } }
"""
_PART = """train_input_reader {{
  tf_record_input_reader {{ input_path: "data/bccd/{name}-?????-of-?????.tfrecord" }}
  {labeled}
}}"""
_RESTORE = """train_config {{
  fine_tune_checkpoint: "{path}"
  fine_tune_checkpoint_type: "detection"
  load_all_detection_checkpoint_vars: true
}}"""
# Lists of images, names of their records and the classes that keep their labels. The config reads
# `trainval`, to which `_PART` adds another half.
_HALVES = (('new', 'trainval', _ALL), ('old', 'red', _RED), ('old', 'two', _TWO))
_THREE_CLASSES = (*_HALVES, ('test', 'test', _ALL))
_TWO_CLASSES = (('old', 'trainval', _TWO), ('test', 'test', _TWO))


def main(argv: Sequence[str]) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--work', required=True, help='folder of the data and the runs')
    parser.add_argument('--seeds', default='1')
    parser.add_argument('--steps', type=int, default=400)
    flags = parser.parse_args(argv)
    data = recipe_gains.find_images()
    work = os.path.abspath(flags.work)
    three = _prepare(data, work, _THREE_CLASSES)
    two = _prepare(data, os.path.join(work, 'two'), _TWO_CLASSES)._replace(metrics=METRICS[:3])
    seeds = [int(seed) for seed in flags.seeds.split(',')]

    def scores(steps: int, *fragments: str) -> List[recipe_gains.Score]:
        text = '\n'.join((_COMMON, *fragments))
        return [recipe_gains.train(three, text, seed, steps, work) for seed in seeds]

    known = 'labeled_classes: ["", "{}"]'.format
    rows = {
        'missing objects are background': scores(flags.steps, _PART.format(name='red', labeled='')),
        '`labeled_classes`': scores(flags.steps, _PART.format(name='red', labeled=known(_RED))),
    }
    print(recipe_gains.format_table('half of red cells', METRICS, rows), flush=True)
    start = f'{_COMMON} model {{ ssd {{ num_classes: 2 }} }}'
    first = recipe_gains.train(two, start, seeds[0], flags.steps, os.path.join(work, 'two'))
    part = _PART.format(name='two', labeled=known(_TWO))
    restored = _RESTORE.format(path=first.folder)
    rows = {
        'from scratch': scores(flags.steps // 2, part),
        'from the checkpoint': scores(flags.steps // 2, part, restored),
    }
    print(recipe_gains.format_table('a class more', METRICS, rows), flush=True)
    return 0


def _prepare(data: str, work: str, records: Sequence[Tuple[str, str, str]]) -> recipe_gains.DataSet:
    """Write lists of the halves, annotations with fewer classes, and the records."""
    source = os.path.join(data, 'bccd')
    lists = {}
    for name in ('trainval', 'test'):
        with open(os.path.join(source, 'ImageSets', 'Main', f'{name}.txt')) as file:
            lists[name] = file.read().split()
    lists.update(old=lists['trainval'][::2], new=lists['trainval'][1::2])
    conversions = []
    for images, name, classes in records:
        folder = os.path.join(work, 'labels', name)
        os.makedirs(folder, exist_ok=True)
        with open(f'{folder}.txt', 'w') as file:
            file.write('\n'.join(lists[images]))
        for stem in lists[images]:
            tree = ElementTree.parse(os.path.join(source, 'Annotations', f'{stem}.xml'))
            for item in tree.getroot().findall('object'):
                if item.findtext('name') not in classes.split(','):
                    tree.getroot().remove(item)
            tree.write(os.path.join(folder, f'{stem}.xml'))
        conversions.append(
            f'--from=voc --images={{data}}/bccd/JPEGImages --annotations=labels/{name} '
            f'--list=labels/{name}.txt --label_map=data/bccd/label_map.pbtxt '
            f'--output_prefix=data/bccd/{name}'
        )
    data_set = recipe_gains.DataSet('bccd_ssd', METRICS, tuple(conversions), {})
    recipe_gains.convert(data_set, data, work)
    return data_set


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
