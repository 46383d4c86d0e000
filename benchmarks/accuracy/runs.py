"""Whole runs of the front door on real data, and the metrics that they leave."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from typing import List, Sequence

from benchmarks import measuring


def find_data(name: str = '') -> str:
    """Return a folder of ../shared/data.

    Args:
        name: of the folder; empty: the folder of all.

    Raises:
        SystemExit: it is not there.
    """
    path = os.path.join(os.path.dirname(measuring.ROOT), 'shared', 'data', name)
    if not os.path.isdir(path):
        raise SystemExit(f'{path} is not there: expected a folder of ../shared/data.')
    return path


def run(folder: str, *flags: str) -> None:
    """Run the front door in a folder, with its messages in a file beside that.

    A run that has ended is only read, so a campaign continues where it stopped.

    Args:
        folder: `--model_dir`.
        flags: all others.

    Raises:
        SystemExit: the run failed.
    """
    os.makedirs(folder, exist_ok=True)
    with open(f'{folder}.log', 'a', encoding='utf-8') as log:
        command = measuring.front_door(f'--model_dir={folder}', *flags)
        try:
            measuring.run_process(command, stdout=log, stderr=subprocess.STDOUT)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f'status {error.returncode}: {log.name} has the messages.') from None


def read_scores(folder: str, metrics: Sequence[str]) -> List[float]:
    """Return metrics of the last evaluation of a run, by their names in `results.csv`."""
    with open(os.path.join(folder, 'results.csv'), encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    columns = [f'eval_0/{metric}' for metric in metrics]
    last = [row for row in rows if row.get(columns[0])][-1]
    return [float(last[column]) for column in columns]


def evaluate(folder: str, metric: str, *flags: str) -> float:
    """Evaluate the last checkpoint of a run; return a metric.

    Args:
        folder: of the run.
        metric: its name.
        flags: of `--mode=evaluate`.
    """
    run(folder, '--mode=evaluate', *flags)
    with open(os.path.join(folder, 'metrics.json'), encoding='utf-8') as file:
        return next(part for part in json.load(file).values() if isinstance(part, dict))[metric]
