"""Launcher of a whole cluster of the front door as processes of this machine.

    python -m estimator_lib.launch_local --num_workers=2 --num_ps=1 --evaluator -- --model_dir=DIR

The arguments after `--` are the command line of every task. Each line that a task writes is shown
after the task's name; of progress lines, only the chief's are shown.
"""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from estimator_lib.cluster import local_network
from estimator_lib.cluster.local_console import run
from estimator_lib.cluster.local_processes import build_addresses


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the launcher's own command line."""
    parser = argparse.ArgumentParser(
        prog='python -m estimator_lib.launch_local',
        description='Starts a whole cluster of the front door as processes of this machine.',
        epilog='The command line of every task follows after --: -- --model_dir=DIR ...',
    )
    parser.add_argument(
        '--num_workers', type=_count, default=1, help='workers besides the chief (1)'
    )
    parser.add_argument('--num_ps', type=_count, default=0, help='parameter servers (0)')
    parser.add_argument(
        '--chief',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='with --no-chief, worker 0 is the chief (all-reduce only)',
    )
    parser.add_argument('--evaluator', action='store_true', help='a task that evaluates')
    parser.add_argument(
        '--restart',
        type=_count,
        default=0,
        metavar='N',
        help='restart a task that was killed or told to end up to N times, as a scheduler does (0)',
    )
    parser.add_argument(
        '--network',
        choices=('isolated', 'host'),
        default='isolated',
        help='isolated: the tasks reach only each other, and nobody else reaches them (Linux; a '
        'warning where the kernel does not allow it). host: the network of this machine, which '
        'paths like gs://... need; whoever reaches a port can run code in its task (isolated)',
    )
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f'{text!r} is not a number of 0 or more')
    return int(text)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the cluster, and exit with its status; 2 for an invalid command line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    own, rest = arguments, []
    if '--' in arguments:
        place = arguments.index('--')
        own, rest = arguments[:place], arguments[place + 1 :]
    parser = create_parser()
    values = parser.parse_args(own)
    if values.num_ps and not values.chief:
        parser.error('parameter servers need a chief; expected --num_ps=0 with --no-chief.')
    if not values.chief and not values.num_workers:
        parser.error('no chief and no workers: nobody trains.')
    if not rest:
        parser.error('expected the command line of the tasks after --, at least --model_dir=DIR.')
    if values.network == 'isolated':
        remote = local_network.remote_path(rest)
        if remote:
            parser.error(f'{remote} is not on this machine; expected --network=host to reach it.')
        _isolate()
    addresses = build_addresses(
        num_workers=values.num_workers,
        num_ps=values.num_ps,
        chief=values.chief,
        evaluator=values.evaluator,
    )
    command = [sys.executable, '-m', 'run_train_eval', *rest]
    sys.exit(run(addresses, command, restart=values.restart))


def _isolate() -> None:
    try:
        local_network.isolate()
    except OSError as error:
        print(
            'warning: whoever reaches this machine can run code in the tasks (no network of their '
            f'own: {error.strerror}); docs/clusters.md, "Who can reach your job", has more.',
            file=sys.stderr,
        )


if __name__ == '__main__':
    main()
