"""Launcher of a whole cluster of the front door as processes of this machine.

    python -m estimator_lib.launch_local --num_workers=2 --num_ps=1 --evaluator -- --model_dir=DIR

The arguments after `--` are the command line of every task. Each line that a task writes is shown
after the task's name; of progress lines, only the chief's are shown.
"""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from estimator_lib.cluster import local_network, tasks
from estimator_lib.cluster.local_console import run
from estimator_lib.cluster.local_processes import assign_ports
from estimator_lib.processes import child_processes, programs


def create_parser() -> tasks.LaunchParser:
    """Create the parser of the launcher's own command line."""
    parser = tasks.LaunchParser(
        prog='python -m estimator_lib.launch_local',
        description='Starts a whole cluster of the front door as processes of this machine.',
    )
    parser.add_argument(
        '--restart',
        type=tasks.parse_count,
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


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the cluster, and exit with its status; 2 for an invalid command line."""
    with programs.guard():
        _launch(sys.argv[1:] if arguments is None else arguments)


def _launch(arguments: Sequence[str]) -> None:
    parser = create_parser()
    launch = parser.parse(arguments)
    if launch.values.network == 'isolated':
        remote = local_network.remote_path(launch.arguments)
        if remote:
            parser.error(f'{remote} is not on this machine; expected --network=host to reach it.')
        _isolate()
    command = child_processes.command('run_train_eval', *launch.arguments)
    status = run(
        assign_ports(launch.counts),
        command,
        restart=launch.values.restart,
        arguments=launch.arguments,
    )
    sys.exit(status)


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
