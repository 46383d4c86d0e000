"""Accuracy of `run-train-eval --data` in some minutes.

    python -m benchmarks.accuracy.data_command --work=FOLDER [--minutes=5] [--seeds=1,2,3]
        [--data=bccd,raccoon,nuclei]

A set is a folder of ../shared/data, or a path of your own. Each run is a process of the front door,
in a folder of its own below `--work`. Steps are timed: nothing else may run.
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import Optional, Sequence

from benchmarks import measuring
from benchmarks.accuracy import runs

METRICS = ('DetectionBoxes_Precision/mAP@.50IOU', 'DetectionBoxes_Precision/mAP')


def format_row(name: str, scores: Sequence[Sequence[float]]) -> Sequence[str]:
    """Return the row of a set: each metric of each seed, and the mean of the first metric."""
    cells = [', '.join(f'{value:.3f}' for value in values) for values in zip(*scores)]
    return [name, *cells, f'{statistics.fmean(values[0] for values in scores):.3f}']


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the campaign, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--work', required=True, help='folder of the runs')
    parser.add_argument('--minutes', type=float, default=5.0, help='of each training')
    parser.add_argument('--seeds', default='1,2,3', help='of the trainings, by comma')
    parser.add_argument('--data', default='bccd,raccoon,nuclei', help='sets, by comma')
    flags = parser.parse_args(argv)
    rows = []
    for data in flags.data.split(','):
        path = os.path.abspath(data) if os.sep in data else runs.find_data(data)
        name = os.path.basename(path)
        scores = []
        for seed in flags.seeds.split(','):
            folder = os.path.join(flags.work, seed, f'{name}-{flags.minutes:g}')
            wanted = [f'--data={path}', f'--minutes={flags.minutes}', '--task=detection']
            runs.run(folder, *wanted, f'--set=train_config.random_seed={seed}')
            scores.append(runs.read_scores(folder, METRICS))
        rows.append(format_row(name, scores))
    print(measuring.format_table(('data', *METRICS, 'mean of the first'), rows))


if __name__ == '__main__':
    main()
