"""Pipeline config that the options of a run describe."""

from __future__ import annotations

import logging
import os
from typing import List, Optional, Sequence

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.processes import path_names
from model_fns import durations_in_steps
from model_fns.cli import builtin_configs, platforms
from model_fns.cli.run_options import RunOptions
from model_fns.datasets import demo
from model_fns.structures import label_map_files
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# Modes that need a model, not its training.
_TRAINED = ('evaluate', 'export', 'predict', 'benchmark', 'compare', 'replay')


def load_config(options: RunOptions) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Load the pipeline config of a run: file, overrides, single fields, then other options.

    Paths of the training are not needed for a trained model, see `label_map_files.localize`.

    Raises:
        errors.UserError: the options name an existing run without a config. The embedded demo is
            for new runs only.
    """
    settings = list(options.set)
    if options.num_train_steps is not None:
        settings.append(f'train_config.num_steps={options.num_train_steps}')
    folders = _config_folders(options)
    saved = filter(None, map(config_lib.saved_pipeline_config, folders))
    path = options.pipeline_config_path or next(saved, '')
    if path:
        return load_file(options, path, settings)
    if _is_trained(options) or _is_existing_run(options):
        raise errors.UserError(
            f'there is no pipeline.config in {" or ".join(folders)}{_hint(folders)}; expected the '
            'folder of a run, or --pipeline_config_path.'
        )
    log.warning(
        'no --pipeline_config_path%s: this is the embedded demo',
        f', and no run in {folders[0]}{_hint(folders)}' if folders else '',
    )
    config = config_lib.parse_pipeline_config(
        demo.demo_pipeline_text(), 'the embedded demo', options.config_override, settings
    )
    return _complete(options, config)


def _is_trained(options: RunOptions) -> bool:
    """Return whether the options name a trained model."""
    return bool(options.checkpoint_dir) or options.mode in _TRAINED


def _is_existing_run(options: RunOptions) -> bool:
    """Return whether the options name an existing run, or a run to check."""
    folder = options.model_dir
    if not folder:
        return False
    return options.mode == 'check' or checkpoint_files.latest_checkpoint(folder) is not None


def _hint(folders: Sequence[str]) -> str:
    """Return a hint on missing folders, with runs of similar names."""
    missing = [folder for folder in folders if not tf.io.gfile.isdir(folder)]
    near = [_sibling(folder) for folder in missing]
    hint = f'; did you mean {" or ".join(filter(None, near))}?' if any(near) else ''
    return f' ({", ".join(missing)}: no such folder{hint})' if missing else ''


def _sibling(folder: str) -> str:
    """Return a run with a similar name in the same parent folder; '' where there is none."""
    parent, name = os.path.split(folder.rstrip('/'))
    names = path_names.list_names(parent)
    runs = [each for each in names if config_lib.saved_pipeline_config(os.path.join(parent, each))]
    near = errors.nearest(name, runs)
    return os.path.join(parent, near) if near else ''


def _config_folders(options: RunOptions) -> List[str]:
    """Return the folders to search for a saved config.

    The folder of a checkpoint counts for a trained model only: beside a published checkpoint, the
    config may be another one's.
    """
    folders = [options.checkpoint_dir, options.model_dir]
    if _is_trained(options) and options.checkpoint_path:
        # The path is a folder or the prefix of files in one.
        folders += [options.checkpoint_path, os.path.dirname(options.checkpoint_path)]
    return list(dict.fromkeys(filter(None, folders)))


def load_file(
    options: RunOptions,
    path: Optional[str],
    settings: Sequence[str] = (),
    folders: Sequence[str] = (),
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Load a config file with the overrides and single fields of the options.

    Args:
        options: of the run.
        path: of the file, or the name of a config of the package; None: the config is empty.
        settings: single fields that replace those of the options.
        folders: further folders to search for label maps.
    """
    if path is None:
        config = config_lib.apply_overrides(
            pipeline_pb2.TrainEvalPipelineConfig(), options.config_override
        )
        return _complete(options, config_lib.apply_settings(config, settings or options.set))
    is_builtin = path.startswith(builtin_configs.PREFIX)
    path = builtin_configs.resolve(path)
    config = config_lib.load_pipeline_config(path)
    if is_builtin:
        demo.locate_data(config)
    platforms.fill_channels(config, os.environ)
    if _is_trained(options):
        checkpoint = options.checkpoint_path or options.checkpoint_dir or ''
        beside = [options.model_dir, os.path.dirname(path), checkpoint, os.path.dirname(checkpoint)]
        folders = [*folders, *beside]
        label_map_files.localize(
            config, folders, only_names=options.mode in ('export', 'predict', 'compare')
        )
    config = config_lib.apply_overrides(config, options.config_override)
    config = config_lib.apply_settings(config, settings or options.set)
    return _complete(options, config)


def _complete(
    options: RunOptions, config: pipeline_pb2.TrainEvalPipelineConfig
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Set the sampling of evaluation examples of the options, and convert durations to steps.

    A trained model does not need the training examples, which epochs are counted in.
    """
    if options.sample_1_of_n_eval_examples > 1:
        for reader in config.eval_input_reader:
            reader.sample_1_of_n_examples = options.sample_1_of_n_eval_examples
    try:
        return durations_in_steps(config)
    except errors.DataError as error:
        if not _is_trained(options):
            raise
        log.warning('durations in epochs are not known here: %s', error)
        return config
