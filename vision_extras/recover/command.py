"""Command line of `recover-config`."""

from __future__ import annotations

import argparse
import logging
from typing import Optional, Sequence

from estimator_lib import errors, logs
from estimator_lib.commands import command_line
from estimator_lib.processes import programs


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the flags."""
    parser = command_line.Parser(
        prog='recover-config',
        description='Recovers the config and the checkpoint of a model from an artifact, and keeps '
        'them only if they compute the same scores.',
    )
    parser.add_argument(
        '--from',
        dest='source',
        metavar='ARTIFACT',
        required=True,
        help='a frozen graph (.pb), the folder of a SavedModel, a TFLite file, or a checkpoint',
    )
    parser.add_argument(
        '--output_dir',
        required=True,
        help='where pipeline.config, label_map.pbtxt, model.ckpt-0 and recovery.md are written',
    )
    return parser


def parse(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parse a command line, without TensorFlow.

    Raises:
        errors.UserError: a flag is wrong.
    """
    flags = create_parser().parse_args(arguments)
    errors.refuse_placeholder('--from', flags.source)
    errors.refuse_placeholder('--output_dir', flags.output_dir)
    return flags


def run(arguments: Optional[Sequence[str]] = None) -> None:
    """Recover a config as a command line asks, and print the paths of the files.

    Raises:
        errors.UserError: a flag or the artifact is wrong.
    """
    flags = parse(arguments)
    logs.silence_tensorflow()
    logs.configure(logging.INFO)
    from vision_extras.recover import recovering  # imports TensorFlow

    recovered = recovering.recover(flags.source, flags.output_dir)
    print(f'{recovered.network}: {recovered.config}, {recovered.checkpoint}, {recovered.report}')


if __name__ == '__main__':  # in the process of its own
    with programs.guard():
        run()
