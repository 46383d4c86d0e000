"""Campaign of corrupt configs, records and files for their readers: `python -m benchmarks.fuzz`.

A reader accepts an input or refuses it with one sentence (`errors.UserError`). Anything else is a
fault. It is printed with the command that repeats it, and the exit status is 1. A case depends only
on the seed and on its number.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import io
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import traceback
from typing import Callable, Counter, List, Optional, Sequence

# Thousands of cases make TensorFlow's runtime print messages that nobody needs.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

ACCEPTED, REFUSED, OTHER = 'accepted', 'refused', 'other'


class Report:
    """Counts of outcomes by target."""

    def __init__(self) -> None:
        self.counts: Counter[tuple] = collections.Counter()
        self.faults: List[str] = []

    def count(self, outcome: str) -> int:
        """Return the number of cases with that outcome."""
        return sum(n for (_, ended), n in self.counts.items() if ended == outcome)

    def lines(self) -> List[str]:
        """Return a table of the outcomes of each target, and the totals."""
        names = sorted({name for name, _ in self.counts})
        rows = [
            f'{name:<12}' + ''.join(f'{self.counts[name, ended]:>10}' for ended in _OUTCOMES)
            for name in names
        ]
        totals = ', '.join(f'{ended} {self.count(ended)}' for ended in _OUTCOMES)
        head = f'{"":<12}' + ''.join(f'{ended:>10}' for ended in _OUTCOMES)
        return [head, *rows, f'tried {sum(self.counts.values())}, {totals}']


_OUTCOMES = (ACCEPTED, REFUSED, OTHER)


def run_cases(
    first: int,
    count: int,
    seed: int,
    folder: pathlib.Path,
    names: Sequence[str] = (),
    place: Optional[pathlib.Path] = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run cases in this process.

    Args:
        first: number of the first.
        count: how many.
        seed: of all.
        folder: an empty folder.
        names: of the targets; empty: all.
        place: a file that names the running case, should it end the process; None: there is none.
        say: called with each fault at once.
    """
    from benchmarks import fuzz_targets
    from estimator_lib import errors

    targets = fuzz_targets.Targets(folder)
    names = list(names or targets.all)
    report = Report()
    for number in range(first, first + count):
        name = names[number % len(names)]
        if place is not None:
            place.write_text(f'{number} {name}')
        outcome = ACCEPTED
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                targets.all[name](random.Random(f'{seed}/{number}/{name}'))
        except errors.UserError:
            outcome = REFUSED
        except Exception as error:
            outcome = OTHER
            trace = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
            report.faults.append(f'{_repeating(number, seed, names)}\n{trace}')
            say(report.faults[-1])
        report.counts[name, outcome] += 1
    return report


def _repeating(number: int, seed: int, names: Sequence[str]) -> str:
    return (
        f'case {number}: python -m benchmarks.fuzz --seed={seed} --first={number} --cases=1 '
        f'--targets={",".join(names)}'
    )


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cases', type=int, default=5000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='number of the first case')
    parser.add_argument('--targets', default='', help='with commas between; left out: all')
    parser.add_argument('--in_process', action='store_true', help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    if not flags.in_process:
        sys.exit(_supervise(flags))
    logging.disable(logging.CRITICAL)
    names = [name for name in flags.targets.split(',') if name]
    with tempfile.TemporaryDirectory(prefix='fuzz-') as folder:
        place = os.environ.get(_PLACE)
        report = run_cases(
            flags.first,
            flags.cases,
            flags.seed,
            pathlib.Path(folder),
            names,
            pathlib.Path(place) if place else None,
            functools.partial(print, flush=True),
        )
    print('\n'.join(report.lines()))
    sys.exit(1 if report.faults else 0)


_PLACE = 'FUZZ_PLACE'  # names the file that says which case runs


def _supervise(flags: argparse.Namespace) -> int:
    """Run the campaign in its own process, and print which case ended it, if one did."""
    with tempfile.TemporaryDirectory(prefix='fuzz-place-') as folder:
        place = os.path.join(folder, 'place')
        command = [sys.executable, '-m', 'benchmarks.fuzz', '--in_process', *sys.argv[1:]]
        ended = subprocess.run(command, env={**os.environ, _PLACE: place}, check=False)
        if ended.returncode in (0, 1):
            return ended.returncode
        with contextlib.suppress(OSError), open(place) as file:
            number, name = file.read().split()
            print(
                f'the process died (status {ended.returncode}) of case {number} ({name}): python '
                f'-m benchmarks.fuzz --seed={flags.seed} --first={number} --cases=1'
            )
    return 1


if __name__ == '__main__':
    main()
