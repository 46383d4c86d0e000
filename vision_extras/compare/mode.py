"""`--mode=compare`, as a function of the options of a run."""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Sequence

from estimator_lib import errors
from model_fns import build_task
from model_fns.cli import builtin_configs, flag_configs, seed_folders
from model_fns.cli.run_options import RunOptions
from vision_extras.compare import compare, runs, seeds
from vision_extras.compare.reference import migration


def run(options: RunOptions) -> None:
    """Compare runs, or a config with the user's own program, and print the differences.

    Raises:
        errors.UserError: an option is missing or not usable, or nothing can be compared.
    """
    lines = _compare_with_reference(options) if options.reference else _compare_runs(options)
    print('\n'.join(lines))


def _compare_runs(options: RunOptions) -> Sequence[str]:
    paths = options.model_dirs
    for name in ('pipeline_config_path', 'config_override', 'set', 'num_train_steps'):
        if not options.has_default(name):
            raise errors.UserError(f'--{name} is not read by --mode=compare; leave it out.')
    members = [seed_folders.list_folders(path) or [path] for path in paths]
    folders = list(itertools.chain(*members))
    if len(set(map(os.path.realpath, folders))) < max(2, len(folders)):
        raise errors.UserError(
            f'--mode=compare needs --model_dir of two or more different runs, or of one with '
            'several --seeds; got '
            f'{errors.shortened(paths) or "none"}.'
        )
    configs = [
        flag_configs.load_config(dataclasses.replace(options, model_dir=path)) for path in folders
    ]
    tasks = [build_task(config, options.mode) for config in configs]
    known = runs.read_runs(folders, configs, tasks)
    compared = compare.compare(known, options.output_dir or os.curdir)
    if len(folders) == len(paths):
        return [*compared.lines, compared.page]
    rest = iter(known)
    groups = [
        seeds.Group(name, list(itertools.islice(rest, len(own))))
        for name, own in zip(runs.short_names(paths), members)
    ]
    return [*seeds.describe(groups), *(f'  {note}' for note in compared.notes), compared.page]


def _compare_with_reference(options: RunOptions) -> Sequence[str]:
    for name in ('model_dir', 'config_override', 'set'):
        if not options.has_default(name):
            raise errors.UserError(
                f'--{name} is not read with --reference, whose program reads the file of '
                '--pipeline_config_path itself; leave it out.'
            )
    options.require('pipeline_config_path')
    path = options.pipeline_config_path
    if path.startswith(builtin_configs.PREFIX):
        raise errors.UserError(
            f'--pipeline_config_path={path}: --reference compares a config of yours, with the '
            'paths of its records; expected a file.'
        )
    # The steps are those of this comparison: the schedules stay those of the config.
    run_of_config = dataclasses.replace(options, mode='train_and_evaluate', num_train_steps=None)
    config = flag_configs.load_config(run_of_config)
    migration.prepare(config)
    return migration.compare(
        build_task(config, run_of_config.mode),
        config,
        path,
        options.reference,
        options.output_dir or os.curdir,
        options.num_train_steps or migration.DEFAULT_STEPS,
    )
