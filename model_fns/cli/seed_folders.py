"""Runs of one config with several seeds, each in a folder of its own."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import List

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, errors
from model_fns.cli import data_command
from model_fns.cli.run_options import RunOptions

_FOLDER = re.compile(r'seed-[0-9]+/?')
_SEED = 'train_config.random_seed'


def list_folders(model_dir: str) -> List[str]:
    """Return the folders of the runs of `--seeds` in a folder, by seed; empty if there are none."""
    names = tf.io.gfile.listdir(model_dir) if tf.io.gfile.isdir(model_dir) else []
    seeds = sorted(int(name.strip('/')[5:]) for name in names if _FOLDER.fullmatch(name))
    return [os.path.join(model_dir, f'seed-{seed}') for seed in seeds]


def options_of_runs(options: RunOptions) -> List[RunOptions]:
    """Return the options of each run of `--seeds`: its folder and its seed.

    A config that `--data` has written is the same for all.

    Raises:
        errors.UserError: the number is below 1, the folder has a run without seeds, or the process
            is one of a cluster.
    """
    options.require('model_dir')
    folder, count = options.model_dir, options.seeds
    if count < 1:
        raise errors.UserError(f'--seeds={count}: expected at least 1.')
    if distribution.read_tf_config() is not None:
        raise errors.UserError(
            f'--seeds={count} trains one run after the other, on one machine; unset TF_CONFIG.'
        )
    if tf.io.gfile.exists(os.path.join(folder, 'checkpoint')):
        raise errors.UserError(
            f'--seeds: {folder} has the checkpoints of one run; expected another --model_dir.'
        )
    common = {name: getattr(RunOptions, name) for name in data_command.OPTIONS}
    if options.data:
        common['pipeline_config_path'] = config_lib.saved_pipeline_config(folder)
    return [
        dataclasses.replace(
            options,
            **common,
            seeds=None,
            model_dir=os.path.join(folder, f'seed-{seed}'),
            set=(*options.set, f'{_SEED}={seed}'),
        )
        for seed in range(1, count + 1)
    ]
