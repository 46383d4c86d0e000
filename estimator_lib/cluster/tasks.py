"""The tasks of a cluster on a launcher's command line, and their `TF_CONFIG`."""

from __future__ import annotations

import argparse
import json
from typing import Dict, List, Mapping, NamedTuple, Sequence

Addresses = Mapping[str, Sequence[str]]

SERVER = 'ps'
# A task that ends with this status or a higher one was killed, told to end, or has lost a peer: a
# scheduler starts it again. A lower one is an error that would occur again.
LEAST_RETRIED_STATUS = 128


class LaunchParser(argparse.ArgumentParser):
    """Parser of a launcher's command line: its own arguments, `--`, the arguments of every task.

    Args:
        prog: the command.
        description: what it does.
    """

    def __init__(self, prog: str, description: str):
        super().__init__(
            prog=prog,
            description=description,
            epilog='The command line of every task follows after --: -- --model_dir=DIR ...',
        )
        self.add_argument(
            '--num_workers',
            '--workers',
            type=parse_count,
            default=1,
            help='workers besides the chief (1)',
        )
        self.add_argument(
            '--num_ps', '--ps', type=parse_count, default=0, help='parameter servers (0)'
        )
        self.add_argument(
            '--chief',
            action=argparse.BooleanOptionalAction,
            default=True,
            help='with --no-chief, worker 0 is the chief (all-reduce only)',
        )
        self.add_argument('--evaluator', action='store_true', help='a task that evaluates')

    def parse(self, arguments: Sequence[str]) -> Launch:
        """Parse a command line; exit with status 2 and a sentence if it describes no cluster."""
        own, rest = list(arguments), []
        if '--' in own:
            place = own.index('--')
            own, rest = own[:place], own[place + 1 :]
        values = self.parse_args(own)
        if values.num_ps and not values.chief:
            self.error('parameter servers need a chief; expected --num_ps=0 with --no-chief.')
        if not values.chief and not values.num_workers:
            self.error('no chief and no workers: nobody trains.')
        if not rest:
            self.error('expected the command line of the tasks after --, at least --model_dir=DIR.')
        counts = count_tasks(
            num_workers=values.num_workers,
            num_ps=values.num_ps,
            chief=values.chief,
            evaluator=values.evaluator,
        )
        return Launch(values, counts, rest)


class Launch(NamedTuple):
    """Parsed command line of a launcher.

    Attributes:
        values: values of the launcher's arguments.
        counts: number of tasks by role.
        arguments: arguments of every task.
    """

    values: argparse.Namespace
    counts: Mapping[str, int]
    arguments: List[str]


def parse_count(text: str) -> int:
    """Parse a number of tasks or the like, for `type` of an argument.

    Raises:
        argparse.ArgumentTypeError: the text has something besides the digits 0 to 9.
    """
    # `isdigit` alone accepts digits of other scripts and superscripts, of which `int` refuses some.
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f'{text!r} is not a number of 0 or more')
    return int(text)


def count_tasks(
    *, num_workers: int, num_ps: int, chief: bool = True, evaluator: bool = False
) -> Dict[str, int]:
    """Return the number of tasks by role, without roles that have none.

    Args:
        num_workers: number of workers without the chief.
        num_ps: number of parameter servers.
        chief: False for a cluster whose chief is worker 0.
        evaluator: whether the cluster has an evaluator.
    """
    counts = {
        'chief': int(chief),
        'worker': num_workers,
        SERVER: num_ps,
        'evaluator': int(evaluator),
    }
    return {role: count for role, count in counts.items() if count}


def tf_config(addresses: Addresses, role: str, index: int) -> str:
    """Build the `TF_CONFIG` of one task."""
    cluster = {name: list(tasks) for name, tasks in addresses.items()}
    return json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})
