"""Accuracy of `run-train-eval --data` in some minutes, beside that of the old quick start.

    python -m benchmarks.accuracy.data_command --work=FOLDER [--minutes=5] [--seeds=1,2,3]
        [--data=bccd,raccoon,nuclei] [--ways=data,quick]

`data` is the command as a user gives it. `quick` is the quick start that it replaced: the config
`bccd_ssd` with the paths and the number of classes of the data, for as many steps as these minutes
hold. A set is a folder of ../shared/data, or a path of your own. Each run is a process of the front
door, in a folder of its own below `--work`; one that has ended is only read, so that a campaign
continues where it stopped. Steps are timed: nothing else may run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from typing import List, Sequence

from benchmarks import measuring
from benchmarks.accuracy import recipe_gains

METRICS = ('DetectionBoxes_Precision/mAP@.50IOU', 'DetectionBoxes_Precision/mAP')
_PROGRAM = os.path.join(measuring.ROOT, 'run_train_eval.py')
_IMAGES = os.path.join(os.path.dirname(measuring.ROOT), 'shared', 'data')


def main(argv: Sequence[str]) -> int:
    """Run the campaign, and print a table for each set."""
    parser = argparse.ArgumentParser(description='Accuracy of --data in some minutes.')
    parser.add_argument('--work', required=True, help='folder of the runs')
    parser.add_argument('--minutes', type=float, default=5.0)
    parser.add_argument('--seeds', default='1,2,3')
    parser.add_argument('--data', default='bccd,raccoon,nuclei')
    parser.add_argument('--ways', default='data,quick')
    flags = parser.parse_args(argv)
    work = os.path.abspath(flags.work)
    for name in flags.data.split(','):
        path = os.path.join(_IMAGES, name) if os.sep not in name else os.path.abspath(name)
        if not os.path.exists(path):
            raise SystemExit(f'{path} is not there: expected a folder of ../shared/data or a path.')
        print(
            f'| {os.path.basename(path)} | {" | ".join(METRICS)} | mean of the first |', flush=True
        )
        print('| --- | --- | --- | ---: |', flush=True)
        for way in flags.ways.split(','):
            runs = [
                run(way, path, int(seed), flags.minutes, os.path.join(work, f'{seed}'))
                for seed in flags.seeds.split(',')
            ]
            print(format_row(way, runs), flush=True)
    return 0


def run(way: str, path: str, seed: int, minutes: float, work: str) -> List[float]:
    """Make a run, or read one that has ended.

    Args:
        way: `data` or `quick`.
        path: of the data set.
        seed: `train_config.random_seed`.
        minutes: of training.
        work: folder of the runs of this seed.

    Returns:
        The metrics of its last evaluation.
    """
    name = f'{os.path.basename(path)}-{minutes:g}'
    folder = os.path.join(work, f'{name}-{way}')
    log = f'{folder}.log'
    begin = [f'--data={path}', f'--minutes={minutes}', '--task=detection']
    setting = f'--set=train_config.random_seed={seed}'
    os.makedirs(work, exist_ok=True)
    if way == 'quick':
        config = write_quick_start(begin, os.path.join(work, f'{name}-quick-config'), minutes)
        begin = [f'--pipeline_config_path={config}']
    _call([*begin, setting, f'--model_dir={folder}'], log)
    return recipe_gains.read_scores(os.path.join(folder, 'results.csv'), METRICS)


def write_quick_start(begin: Sequence[str], folder: str, minutes: float) -> str:
    """Write the config of the old quick start for a data set, unless it is there.

    Args:
        begin: flags of the data set, of which the readers and the classes are taken.
        folder: for the config of these flags.
        minutes: of training.
    """
    from estimator_lib import config as config_lib
    from estimator_lib.commands import step_times
    from model_fns import build_task

    path = f'{folder}.config'
    if os.path.exists(path):
        return path
    _call([*begin, '--mode=create_config', f'--model_dir={folder}'], f'{folder}.log')
    decided = config_lib.load_pipeline_config(os.path.join(folder, 'pipeline.config'))
    base = os.path.join(measuring.ROOT, 'configs', 'bccd_ssd.config')
    config = config_lib.load_pipeline_config(base)
    config.model.ssd.num_classes = decided.model.ssd.num_classes
    config.train_input_reader.CopyFrom(decided.train_input_reader)
    del config.eval_input_reader[:]
    config.eval_input_reader.extend(decided.eval_input_reader)
    seconds = step_times.measure(build_task(config, 'train'), config)
    config.train_config.num_steps = max(1, int(60 * minutes / seconds))
    config.train_config.checkpoints.save_every_n_steps = -(-config.train_config.num_steps // 2)
    os.rename(config_lib.save_pipeline_config(config, f'{folder}-made'), path)
    return path


def _call(flags: Sequence[str], log: str) -> None:
    with open(log, 'a', encoding='utf-8') as file:
        subprocess.run(
            [sys.executable, _PROGRAM, *flags], check=True, stdout=file, stderr=subprocess.STDOUT
        )


def format_row(way: str, runs: Sequence[Sequence[float]]) -> str:
    """Return the row of a way: each metric of each seed, and the mean of the first metric."""
    cells = [', '.join(f'{value:.3f}' for value in values) for values in zip(*runs)]
    mean = statistics.fmean(values[0] for values in runs)
    return f'| {way} | {" | ".join(cells)} | {mean:.3f} |'


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
