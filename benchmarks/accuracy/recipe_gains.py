"""What each training recipe gains on real data, over several seeds.

    python -m benchmarks.accuracy.recipe_gains --work=FOLDER [--sets=bccd,signs,nuclei]
        [--recipes=mosaic] [--seeds=1,2] [--steps=600]

The images are those of ../shared/data. Each run is a process of the front door, in a folder of its
own below `--work`, with the config of the package and the fragment of the recipe. A run that is
there already is only read, so that a campaign continues where it stopped. All runs of a set have
the same number of steps. The scores of runs do not depend on other work on the machine; the
processor time does, a little.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from benchmarks import measuring

BASELINE = 'as published here'


class DataSet(NamedTuple):
    """A set of images, the config that learns from it, and what is tried with it.

    Attributes:
        config: name of a config of the package.
        metrics: names in `results.csv`, without the name of the evaluation, the decisive one first.
        conversions: arguments of the converter, with {data} for the folder of the images.
        recipes: text that is merged into the config, by name.
    """

    config: str
    metrics: Tuple[str, ...]
    conversions: Tuple[str, ...]
    recipes: Mapping[str, str]


def _step(text: str) -> str:
    return f'train_config {{ data_augmentation_options {{ {text} }} }}'


_AVERAGES = """
train_config { optimizer { use_moving_average: true moving_average_decay: 0.99 } }
eval_config { use_moving_averages: true }
"""

_ADAMW = """train_config {{ optimizer {{
  adamw_optimizer {{
    weight_decay: {decay}
    learning_rate {{ cosine_decay_learning_rate {{
      learning_rate_base: {rate} warmup_learning_rate: {warmup} warmup_steps: 100
    }} }}
  }}
}} }}"""

SETS: Mapping[str, DataSet] = {
    'bccd': DataSet(
        'bccd_ssd',
        ('DetectionBoxes_Precision/mAP@.50IOU', 'DetectionBoxes_Precision/mAP'),
        tuple(
            f'--from=voc --images={{data}}/bccd/JPEGImages --annotations={{data}}/bccd/Annotations '
            f'--list={{data}}/bccd/ImageSets/Main/{split}.txt '
            f'--label_map=data/bccd/label_map.pbtxt --output_prefix=data/bccd/{split}'
            for split in ('trainval', 'test')
        ),
        {
            BASELINE: '',
            '`mosaic`': _step('mosaic { output_size: 384 }'),
            '`keep_sizes`': _step('mosaic { keep_sizes: true } until { percent: 75 }'),
            '`mixup`': _step('mixup { }'),
            '`random_rotation90`': _step('random_rotation90 { }'),
            'moving average, decay 0.99': _AVERAGES,
            '`adamw_optimizer`': _ADAMW.format(decay=0.01, rate=0.002, warmup=0.0002),
            '`repeat_factor_threshold: 0.9`': 'train_config { repeat_factor_threshold: 0.9 }',
            '`test_time_augmentation { flip_horizontally: true }`': (
                'eval_config { test_time_augmentation { flip_horizontally: true } }'
            ),
        },
    ),
    'signs': DataSet(
        'signs_mobilenet_v1',
        ('accuracy',),
        tuple(
            f'--from=folders --images={{data}}/sign_digits/{split} '
            f'--label_map=data/signs/label_map.pbtxt --output_prefix=data/signs/{split}'
            for split in ('train', 'test')
        ),
        {
            BASELINE: '',
            '`preprocessing: "inception"`': (
                'model { classification { preprocessing: "inception" } }'
            ),
            '`mirror_images: true`': 'model { classification { mirror_images: true } }',
            '`mixup`': _step('mixup { }'),
            '`cutmix`': _step('cutmix { }'),
            '`random_erasing`': _step('random_erasing { }'),
            '`rand_augment`': _step('rand_augment { }'),
            'moving average, decay 0.99': _AVERAGES,
            '`adamw_optimizer`': _ADAMW.format(decay=0.05, rate=0.002, warmup=0.0002),
        },
    ),
    'nuclei': DataSet(
        'nuclei_deeplab_mobilenet_v2',
        ('miou_1.0_class_1', 'panoptic_quality_class_1'),
        tuple(
            f'--from=instances --images={{data}}/nuclei/{split}/images '
            f'--annotations={{data}}/nuclei/{split}/instance_masks --class_name=nucleus '
            f'--label_map=data/nuclei/label_map.pbtxt --output_prefix=data/nuclei/{split}'
            for split in ('train', 'val')
        ),
        {
            BASELINE: '',
            'moving average, decay 0.99': _AVERAGES,
            '`class_weighting: INVERSE_FREQUENCY`': (
                'model { segmentation { loss { class_weighting: INVERSE_FREQUENCY } } }'
            ),
            '`adamw_optimizer`': _ADAMW.format(decay=0.01, rate=0.003, warmup=0.0003),
        },
    ),
}


class Score(NamedTuple):
    """Scores of a run, in the order of the set's metrics, its processor minutes and its folder."""

    values: Tuple[float, ...]
    minutes: float
    folder: str = ''


def main(argv: Sequence[str]) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--work', required=True, help='folder of the data and the runs')
    parser.add_argument('--sets', default=','.join(SETS))
    parser.add_argument('--recipes', default='', help='part of a name; empty: all')
    parser.add_argument('--seeds', default='1,2')
    parser.add_argument('--steps', type=int, default=0, help='0: those of the config')
    flags = parser.parse_args(argv)
    unknown = sorted(set(flags.sets.split(',')) - set(SETS))
    if unknown:
        parser.error(f'--sets: {", ".join(unknown)}; expected some of {", ".join(SETS)}')
    work = os.path.abspath(flags.work)  # processes run in it
    images = find_images()
    for name in flags.sets.split(','):
        data_set = SETS[name]
        convert(data_set, images, work)
        scores: Dict[str, List[Score]] = {}
        for recipe, fragment in data_set.recipes.items():
            if flags.recipes not in recipe and recipe != BASELINE:
                continue
            scores[recipe] = [
                train(data_set, fragment, int(seed), flags.steps, work)
                for seed in flags.seeds.split(',')
            ]
            print(f'{name}, {recipe}: {scores[recipe]}', file=sys.stderr, flush=True)
        print(format_table(name, data_set.metrics, scores), flush=True)
    return 0


def find_images() -> str:
    """Return the folder of the images."""
    images = os.path.join(os.path.dirname(measuring.ROOT), 'shared', 'data')
    if not os.path.isdir(images):
        raise SystemExit('../shared/data is not there: this benchmark learns from its images.')
    return images


def convert(data_set: DataSet, images: str, work: str) -> None:
    """Convert the images of a set, where that was not done before."""
    os.makedirs(work, exist_ok=True)
    for arguments in data_set.conversions:
        words = [word.format(data=images) for word in arguments.split()]
        prefix = next(word.partition('=')[2] for word in words if 'output_prefix' in word)
        folder = os.path.join(work, os.path.dirname(prefix))
        first = os.path.basename(prefix) + '-00000'
        if os.path.isdir(folder) and any(name.startswith(first) for name in os.listdir(folder)):
            continue
        command = [sys.executable, '-m', 'model_fns.datasets.convert', *words]
        environment = {**os.environ, 'PYTHONPATH': measuring.ROOT}
        subprocess.run(command, check=True, cwd=work, env=environment)


def train(data_set: DataSet, fragment: str, seed: int, steps: int, work: str) -> Score:
    """Train, evaluate and export with a recipe, and return the scores of the last evaluation.

    Args:
        data_set: where its records lie in `work`.
        fragment: text that is merged into the config.
        seed: `train_config.random_seed`.
        steps: 0: those of the config.
        work: folder of the runs; an absolute path.
    """
    import hashlib

    from google.protobuf import text_format

    from estimator_lib import config as config_lib

    path = os.path.join(measuring.ROOT, 'configs', f'{data_set.config}.config')
    config = config_lib.load_pipeline_config(path)
    text_format.Merge(fragment, config)
    config.train_config.random_seed = seed
    config.train_config.num_steps = steps or config.train_config.num_steps
    text = text_format.MessageToString(config)
    name = f'{data_set.config}-{hashlib.sha256(text.encode()).hexdigest()[:12]}'
    folder = os.path.join(work, 'runs', name)
    os.makedirs(folder, exist_ok=True)
    score = os.path.join(folder, 'score.json')
    if not os.path.exists(score):
        with open(f'{folder}.config', 'w', encoding='utf-8') as file:
            file.write(text)
        program = os.path.join(measuring.ROOT, 'run_train_eval.py')
        command = [sys.executable, program, f'--pipeline_config_path={folder}.config']
        before = os.times()
        with open(f'{folder}.log', 'w', encoding='utf-8') as log:
            subprocess.run(
                [*command, f'--model_dir={folder}'], check=True, cwd=work, stdout=log, stderr=log
            )
        after = os.times()
        spent = (after.children_user - before.children_user) + (
            after.children_system - before.children_system
        )
        values = read_scores(os.path.join(folder, 'results.csv'), data_set.metrics)
        with open(f'{score}.part', 'w', encoding='utf-8') as file:
            json.dump({'values': values, 'minutes': spent / 60}, file)
        os.replace(f'{score}.part', score)  # a campaign that is killed leaves no half of it
    with open(score, encoding='utf-8') as file:
        read = json.load(file)
    return Score(tuple(read['values']), read['minutes'], folder)


def read_scores(path: str, metrics: Sequence[str]) -> List[float]:
    """Return metrics of the last evaluation of a run.

    Args:
        path: of `results.csv`.
        metrics: names without the name of the evaluation.
    """
    with open(path, encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    columns = [f'eval_0/{metric}' for metric in metrics]
    last = [row for row in rows if row.get(columns[0])][-1]
    return [float(last[column]) for column in columns]


def format_table(name: str, metrics: Sequence[str], scores: Mapping[str, Sequence[Score]]) -> str:
    """Return a Markdown table: each recipe's scores, and its mean gain over the first one.

    Args:
        name: of the set.
        metrics: names of the columns.
        scores: of each seed, by recipe.
    """
    heads = [f'{metric} | gain' for metric in metrics]
    lines = [f'| {name} | {" | ".join(heads)} | processor minutes |']
    lines.append('| --- |' + ' ---: |' * (2 * len(metrics) + 1))
    baseline = next(iter(scores))
    for recipe, runs in scores.items():
        cells = []
        for place in range(len(metrics)):
            values = [run.values[place] for run in runs]
            cells.append(', '.join(f'{value:.3f}' for value in values))
            gain = statistics.fmean(values) - statistics.fmean(
                run.values[place] for run in scores[baseline]
            )
            cells.append('' if recipe == baseline else f'{gain:+.3f}')
        minutes = statistics.fmean(run.minutes for run in runs)
        lines.append(f'| {recipe} | {" | ".join(cells)} | {minutes:.1f} |')
    return '\n'.join(lines)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
