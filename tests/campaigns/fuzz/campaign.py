"""Campaign of malformed configs, records and files: `python -m tests.campaigns.fuzz`.

Each input is accepted, or refused with one sentence (`errors.UserError`). Anything else is a fault:
another error, a process that ends by a signal, a minute of computing, 4 GB. Each fault is printed
with the command that repeats it, and the exit status is then 1. A case depends on the seed, its
number and the list of targets alone.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Counter, Iterator, List, Mapping, Optional, Sequence, Tuple

# Thousands of cases make TensorFlow's runtime write many lines that nobody reads.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

ACCEPTED, REFUSED, OTHER = 'accepted', 'refused', 'other'
OUTCOMES = (ACCEPTED, REFUSED, OTHER)
MODULE = 'tests.campaigns.fuzz'
MOST_SECONDS = 60.0
MOST_MEGABYTES = 4096
# A process that is silent for longer hangs in its case.
HANGING_SECONDS = 5 * MOST_SECONDS

Say = Callable[[str], None]


class Report:
    """Counts of outcomes by target.

    Attributes:
        faults: a text for each.
        slowest: the most seconds that a case computed.
        largest: the most megabytes of memory that the process had.
    """

    def __init__(self) -> None:
        self.counts: Counter[Tuple[str, str]] = collections.Counter()
        self.faults: List[str] = []
        self.slowest = 0.0
        self.largest = 0.0

    def count(self, outcome: str) -> int:
        """Return the number of cases with an outcome."""
        return sum(n for (_, ended), n in self.counts.items() if ended == outcome)

    def lines(self) -> List[str]:
        """Return a table and the totals."""
        names = sorted({name for name, _ in self.counts})
        rows = [
            f'{name:<16}' + ''.join(f'{self.counts[name, ended]:>10}' for ended in OUTCOMES)
            for name in names
        ]
        totals = ', '.join(f'{ended} {self.count(ended)}' for ended in OUTCOMES)
        head = f'{"":<16}' + ''.join(f'{ended:>10}' for ended in OUTCOMES)
        return [head, *rows, f'tried {sum(self.counts.values())}, {totals}']


class Journal:
    """File of begun and ended cases, which outlives the process that runs them."""

    def __init__(self, path: pathlib.Path):
        self._path = path

    def begin(self, number: int, name: str) -> None:
        """Note that a case begins."""
        self._write(f'begin {number} {name}')

    def end(self, outcome: str, seconds: float, megabytes: float) -> None:
        """Note how the case has ended."""
        self._write(f'end {outcome} {seconds:.1f} {megabytes:.0f}')

    def _write(self, line: str) -> None:
        with self._path.open('a') as file:
            file.write(f'{line}\n')

    def read(self, report: Report) -> Optional[Tuple[int, str]]:
        """Add all cases to a report, and empty the journal.

        Returns:
            Number and target of a case that has not ended.
        """
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self._path.write_text('')
        number, name = -1, ''
        for line in lines:
            kind, *words = line.split()
            if kind == 'begin':
                number, name = int(words[0]), words[1]
                continue
            report.counts[name, words[0]] += 1
            report.slowest = max(report.slowest, float(words[1]))
            report.largest = max(report.largest, float(words[2]))
            number = -1
        return None if number < 0 else (number, name)


def run_cases(
    numbers: Sequence[int],
    seed: int,
    targets: Mapping[str, Callable[[random.Random], None]],
    say: Say = lambda text: None,
    journal: Optional[Journal] = None,
) -> Report:
    """Run cases in this process.

    Args:
        numbers: of the cases.
        seed: of all.
        targets: functions by name; they raise `errors.UserError` for what they refuse.
        say: called with the text of each fault at once.
        journal: written to as cases begin and end.
    """
    from estimator_lib import errors

    report, names = Report(), list(targets)
    for number in numbers:
        name = names[number % len(names)]
        if journal is not None:
            journal.begin(number, name)
        outcome, fault = ACCEPTED, ''
        started = _computed()
        with _peak_memory() as megabytes:
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    targets[name](random.Random(f'{seed}/{number}/{name}'))
            except errors.UserError:
                outcome = REFUSED
            except Exception as error:
                trace = traceback.format_exception(type(error), error, error.__traceback__)
                fault = ''.join(trace)
        seconds = _computed() - started
        fault = fault or _excess(seconds, megabytes[0])
        if fault:
            outcome = OTHER
            report.faults.append(f'{_repeating(number, seed, names)}\n{fault}')
            say(report.faults[-1])
        report.counts[name, outcome] += 1
        if journal is not None:
            journal.end(outcome, seconds, megabytes[0])
    return report


def _computed() -> float:
    """Return the seconds that this process and its children have computed.

    A clock would measure how busy the machine is.
    """
    return sum(os.times()[:4])


def _excess(seconds: float, megabytes: float) -> str:
    """Return the fault of a case that took too much; empty where it did not."""
    if seconds > MOST_SECONDS:
        return f'{seconds:.0f} s of computing; expected at most {MOST_SECONDS:.0f} s'
    if megabytes > MOST_MEGABYTES:
        return f'{megabytes:.0f} MB of memory; expected at most {MOST_MEGABYTES} MB'
    return ''


@contextlib.contextmanager
def _peak_memory() -> Iterator[List[float]]:
    """Measure the peak of this process's memory inside, in megabytes; 0 where it is not known.

    Yields:
        A list that holds the peak afterwards.
    """
    megabytes = [0.0]
    with contextlib.suppress(OSError):
        pathlib.Path('/proc/self/clear_refs').write_text('5')  # the peak begins from here
    yield megabytes
    with contextlib.suppress(OSError):
        for line in pathlib.Path('/proc/self/status').read_text().splitlines():
            if line.startswith('VmHWM:'):
                megabytes[0] = float(line.split()[1]) / 1024


def _repeating(number: int, seed: int, names: Sequence[str]) -> str:
    return (
        f'case {number}: python -m {MODULE} --seed={seed} --first={number} --cases=1 '
        f'--targets={",".join(names)}'
    )


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cases', type=int, default=5000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='number of the first case')
    parser.add_argument('--targets', default='', help='separated by commas; left out: all')
    parser.add_argument('--journal', type=pathlib.Path, help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    if flags.journal is None:
        report = supervise(flags.first, flags.cases, flags.seed, flags.targets)
        print('\n'.join(report.lines()))
        print(f'the slowest case: {report.slowest:.1f} s; most memory: {report.largest:.0f} MB')
        sys.exit(1 if report.faults else 0)
    logging.disable(logging.CRITICAL)
    from tests.campaigns.fuzz import targets

    with tempfile.TemporaryDirectory(prefix='fuzz-') as folder:
        chosen = targets.create(pathlib.Path(folder), _names(flags.targets))
        numbers = range(flags.first, flags.first + flags.cases)
        run_cases(numbers, flags.seed, chosen, _print, Journal(flags.journal))


def _names(text: str) -> List[str]:
    return [name for name in text.split(',') if name]


def _print(text: str) -> None:
    print(text, flush=True)


def supervise(first: int, count: int, seed: int, targets: str, say: Say = _print) -> Report:
    """Run cases in processes of their own: the next one continues where one dies.

    Args:
        first: number of the first case.
        count: of the cases.
        seed: of all.
        targets: names, separated by commas; empty: all.
        say: called with the text of each fault of a process that dies.

    Raises:
        RuntimeError: a process ends before its first case.
    """
    report, end = Report(), first + count
    with tempfile.TemporaryDirectory(prefix='fuzz-journal-') as folder:
        path = pathlib.Path(folder) / 'journal'
        journal = Journal(path)
        while first < end:
            path.write_text('')
            flags = [f'--first={first}', f'--cases={end - first}', f'--seed={seed}']
            flags += [f'--targets={targets}', f'--journal={path}']
            status = _run_until_silent([sys.executable, '-m', MODULE, *flags], path)
            died = journal.read(report)
            if status == 0:
                break
            if died is None:
                raise RuntimeError(f'the process of the cases has ended with status {status}')
            number, name = died
            report.counts[name, OTHER] += 1
            report.faults.append(
                f'case {number} ({name}) has ended the process with status {status}: python -m '
                f'{MODULE} --seed={seed} --first={number} --cases=1 --targets={targets}'
            )
            say(report.faults[-1])
            first = number + 1
    report.faults += ['printed above'] * (report.count(OTHER) - len(report.faults))
    return report


def _run_until_silent(command: Sequence[str], journal: pathlib.Path) -> Any:
    """Run a command, and end it where its journal has not grown for minutes."""
    with subprocess.Popen(command) as process:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=1.0)
            if time.time() - journal.stat().st_mtime > HANGING_SECONDS:
                process.kill()
