"""Recoveries of files of other programs: `python -m benchmarks.recovery ../shared/foreign`.

Prints a row for each file: outcome, largest difference of an output, seconds, peak memory. Two
MetaGraphs of that folder are frozen with seeded weights first.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Iterator, NamedTuple, Sequence

from benchmarks import measuring

_DIFFERENCE = re.compile(r'^\* [\w/]+: (\S+) \(', re.MULTILINE)
_ENDINGS = ('.pb', '.tflite', '.index')
_WIDTHS = (26, 12, 9, 8, 8)


class Row(NamedTuple):
    """Recovery of a file.

    Attributes:
        file: its name.
        outcome: `recovered`, or the sentence that refuses it.
        difference: the largest difference of an output, as the report has it; empty: none.
        seconds: of the process.
        megabytes: the largest memory of a process.
    """

    file: str
    outcome: str
    difference: str
    seconds: float
    megabytes: float


def recover(path: pathlib.Path) -> Row:
    """Recover a config from a file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, '-m', 'vision_extras.recover.command', f'--from={path}']
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, f'--output_dir={folder}'],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=measuring.ROOT,
        )
        messages = process.stderr.read() if process.stderr else ''
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        report = pathlib.Path(folder) / 'recovery.md'
        text = report.read_text(encoding='utf-8') if report.exists() else ''
    outcome = 'recovered' if text else messages.partition('error: ')[2].partition('\n')[0]
    largest = max(map(float, _DIFFERENCE.findall(text)), default=None)
    difference = '' if largest is None else f'{largest:.1e}'
    return Row(path.name, outcome or messages, difference, seconds, used.ru_maxrss / 1024)


def files(
    folder: pathlib.Path, target: pathlib.Path, names: Sequence[str]
) -> Iterator[pathlib.Path]:
    """Yield the files of a folder, and its MetaGraphs, frozen by its own script.

    Args:
        folder: the folder.
        target: folder for the frozen graphs.
        names: names of the files, such as `ssd_oldest.pb` for a MetaGraph; empty: all.
    """
    for path in sorted(folder.iterdir()):
        if path.name.endswith(_ENDINGS) and (not names or path.name in names):
            yield path
    for meta in sorted(folder.glob('meta_graphs/*.meta.gz')):
        path = target / f'{meta.name.partition(".")[0]}.pb'
        if not names or path.name in names:  # a graph takes seconds
            script = folder / 'freeze_meta_graph.py'
            subprocess.run([sys.executable, str(script), str(meta), str(path)], check=True)
            yield path


def main(arguments: Sequence[str]) -> None:
    """Print the table of a folder's files.

    Args:
        arguments: the folder, and names of files; without names all of them.
    """
    folder, names = pathlib.Path(arguments[0]).resolve(), arguments[1:]
    print('  '.join(map(str.ljust, ('file', 'difference', 'seconds', 'MB', 'outcome'), _WIDTHS)))
    with tempfile.TemporaryDirectory() as target:
        for path in files(folder, pathlib.Path(target), names):
            row = recover(path)
            cells = row.file, row.difference, f'{row.seconds:.1f}', f'{row.megabytes:.0f}'
            line = '  '.join(map(str.ljust, (*cells, ''), _WIDTHS)).rstrip()
            print(f'{line}  {row.outcome}', flush=True)


if __name__ == '__main__':
    main(sys.argv[1:])
