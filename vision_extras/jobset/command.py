r"""Launcher of a whole cluster of the front door on Kubernetes: it prints a JobSet.

    launch-jobset --name=cells --image=registry.example.com/vision:1 \
        --workers=4 --ps=2 --evaluator --volume=models:/models \
        -- --model_dir=/models/cells --pipeline_config_path=/models/cells.config > cells.yaml
    kubectl apply -f cells.yaml

The arguments after `--` are the command line of every task.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Dict, List, Optional, Sequence, Tuple

import yaml

from estimator_lib.cluster import tasks
from estimator_lib.processes import programs
from vision_extras.jobset import manifests


def create_parser() -> tasks.LaunchParser:
    """Create the parser of the launcher's own command line."""
    parser = tasks.LaunchParser(
        prog='launch-jobset',
        description='Prints a JobSet of Kubernetes for a whole cluster of the front door.',
    )
    parser.add_argument('--name', required=True, help='name of the JobSet')
    parser.add_argument(
        '--image', required=True, help='container image that has this project installed'
    )
    parser.add_argument(
        '--restart',
        type=tasks.parse_count,
        default=100,
        metavar='N',
        help='replace up to N pods of each role that were killed or told to end (100)',
    )
    parser.add_argument(
        '--volume',
        type=_volume,
        action='append',
        default=[],
        metavar='CLAIM:PATH',
        help='mount the volume of a claim in every pod; several times for several volumes',
    )
    parser.add_argument(
        '--resource',
        type=_resource,
        action='append',
        default=[],
        metavar='NAME=QUANTITY',
        help='request a resource for every pod, as cpu=4, memory=8Gi or nvidia.com/gpu=1',
    )
    return parser


def _volume(text: str) -> Tuple[str, str]:
    claim, _, path = text.partition(':')
    if not manifests.is_label(claim) or not path.startswith('/') or ':' in path:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no claim with a path; expected CLAIM:PATH, as models:/models'
        )
    return claim, path


def _resource(text: str) -> Tuple[str, str]:
    name, _, quantity = text.partition('=')
    if not name or not re.fullmatch(r'[0-9]+(\.[0-9]+)?([mkMGTP]|[KMGTP]i)?', quantity):
        raise argparse.ArgumentTypeError(
            f'{text!r} is no quantity of a resource; expected NAME=QUANTITY, as memory=8Gi'
        )
    return name, quantity


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Print the manifests of a job; exit with status 2 for an invalid command line."""
    with programs.guard():
        _print_manifests(sys.argv[1:] if arguments is None else arguments)


def _print_manifests(arguments: Sequence[str]) -> None:
    parser = create_parser()
    launch = parser.parse(arguments)
    values = launch.values
    problem = manifests.find_problem_of_name(values.name, launch.counts)
    if problem:
        parser.error(f'argument --name: {problem}')
    if not values.image.strip() or re.search(r'\s', values.image):
        parser.error(f'argument --image: {values.image!r} is no image; expected NAME:TAG.')
    options = manifests.JobOptions(
        name=values.name,
        image=values.image,
        arguments=launch.arguments,
        restart=values.restart,
        volumes=_distinct(parser, '--volume', values.volume),
        resources=_distinct(parser, '--resource', values.resource),
    )
    documents = manifests.build_manifests(options, launch.counts)
    yaml.dump_all(documents, sys.stdout, Dumper=_Dumper, sort_keys=False, width=100)


def _distinct(
    parser: tasks.LaunchParser, flag: str, pairs: List[Tuple[str, str]]
) -> Dict[str, str]:
    """Return pairs as a dictionary; two values of one name are an error."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            parser.error(f'argument {flag}: {name} is given twice; expected it once.')
    return dict(pairs)


class _Dumper(yaml.SafeDumper):
    """Writer of YAML that repeats a value in place of a reference to it."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True for all values."""
        return True


if __name__ == '__main__':
    main()
