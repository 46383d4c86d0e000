"""Command line of `python -m model_fns.convert_checkpoint`."""

from __future__ import annotations

import argparse
import logging
import os
from typing import Optional, Sequence

from estimator_lib import config as config_lib
from estimator_lib import errors, logs
from estimator_lib.commands import command_line, convert_checkpoint
from model_fns import build_task
from model_fns.cli import builtin_configs
from model_fns.structures import label_map_files


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the flags."""
    parser = command_line.Parser(
        prog='python -m model_fns.convert_checkpoint',
        description='Converts a checkpoint between objects (TensorFlow 2) and scopes (ours), or '
        'weights of timm to a checkpoint.',
    )
    parser.add_argument(
        '--pipeline_config_path',
        help='the model: a file, or builtin:NAME; left out: the one saved beside the checkpoint',
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--checkpoint_path', help='a checkpoint, or its folder')
    source.add_argument(
        '--from',
        dest='weights',
        metavar='WEIGHTS',
        help='a .safetensors file, or hub:timm/MODEL; needs no config',
    )
    parser.add_argument(
        '--output_dir', required=True, help='where ckpt-0 or model.ckpt-<step> is written'
    )
    parser.add_argument(
        '--set', action='append', default=[], help='one field of the config by its path; may repeat'
    )
    return parser


def run(arguments: Optional[Sequence[str]] = None) -> str:
    """Convert a checkpoint as a command line asks; return the prefix of the written files.

    Raises:
        errors.UserError: a flag, the config or the checkpoint is wrong.
    """
    flags = create_parser().parse_args(arguments)
    for name in ('pipeline_config_path', 'checkpoint_path', 'output_dir'):
        errors.refuse_placeholder(f'--{name}', getattr(flags, name))
    if flags.weights is not None:
        return _convert_weights(flags)
    path = flags.pipeline_config_path
    if not path:
        is_folder = os.path.isdir(flags.checkpoint_path)
        folder = flags.checkpoint_path if is_folder else os.path.dirname(flags.checkpoint_path)
        path = config_lib.saved_pipeline_config(folder)
    if not path:
        raise errors.UserError(
            f'--pipeline_config_path: there is no pipeline.config beside {flags.checkpoint_path}; '
            'expected the config of the model.'
        )
    config = config_lib.load_pipeline_config(builtin_configs.resolve(path))
    label_map_files.localize(config, [os.path.dirname(path)], only_names=True)
    config = config_lib.apply_settings(config, flags.set)
    task = build_task(config, 'export')
    return convert_checkpoint.convert(task, config, flags.checkpoint_path, flags.output_dir)


def _convert_weights(flags: argparse.Namespace) -> str:
    if flags.pipeline_config_path or flags.set:
        raise errors.UserError(
            f'--from={flags.weights}: the file tells the network of such weights; expected no '
            '--pipeline_config_path and no --set.'
        )
    return convert_checkpoint.convert_weights(flags.weights, flags.output_dir)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command, and print the prefix of the files."""
    logs.configure(logging.INFO)
    print(run(arguments))
