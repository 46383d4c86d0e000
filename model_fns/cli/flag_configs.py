"""The pipeline config that the flags of the front door describe."""

from __future__ import annotations

import logging
import os
from typing import Any, List, Sequence

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from model_fns.cli import builtin_configs
from model_fns.datasets import demo
from model_fns.structures import label_map_files
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

_TRAINED = ('evaluate', 'export', 'predict')  # modes that need a model, not its training


def load_config(flags: Any) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Loads the pipeline config of a run: file, then overrides, then single fields, then flags.

    What has been trained needs no path of its training: see `label_map_files.localize`.

    Raises:
        errors.UserError: a run that is there is asked for, and there is no config of it. The
            embedded demo is for new runs only.
    """
    settings = list(flags.set)
    if flags.num_train_steps is not None:
        settings.append(f'train_config.num_steps={flags.num_train_steps}')
    folders = _folders_of_run(flags)
    saved = filter(None, map(config_lib.saved_pipeline_config, folders))
    path = flags.pipeline_config_path or next(saved, '')
    if path:
        config = load_file(flags, path, settings)
    elif _is_trained(flags) or _is_of_run(flags):
        raise errors.UserError(
            f'there is no pipeline.config in {" or ".join(folders)}{_hint(folders)}; expected the '
            'folder of a run, or --pipeline_config_path.'
        )
    else:
        log.warning(
            'no --pipeline_config_path%s: this is the embedded demo',
            f', and no run in {folders[0]}{_hint(folders)}' if folders else '',
        )
        config = config_lib.parse_pipeline_config(
            demo.demo_pipeline_text(), 'the embedded demo', flags.config_override, settings
        )
    return _thinned(flags, config)


def _is_trained(flags: Any) -> bool:
    """Returns whether the flags ask for a model that is trained already."""
    return bool(flags.checkpoint_dir) or flags.mode in _TRAINED


def _is_of_run(flags: Any) -> bool:
    """Returns whether the flags name a run that is there already, or that is to be checked."""
    folder = flags.model_dir
    if not folder:
        return False
    return flags.mode == 'check' or checkpoint_files.latest_checkpoint(folder) is not None


def _hint(folders: Sequence[str]) -> str:
    """Returns which of the folders are not there, and the runs of almost the same name."""
    missing = [folder for folder in folders if not tf.io.gfile.isdir(folder)]
    near = [_sibling(folder) for folder in missing]
    hint = f'; did you mean {" or ".join(filter(None, near))}?' if any(near) else ''
    return f' ({", ".join(missing)}: no such folder{hint})' if missing else ''


def _sibling(folder: str) -> str:
    """Returns the run beside a folder whose name is almost the same; '' where there is none."""
    parent, name = os.path.split(folder.rstrip('/'))
    if not tf.io.gfile.isdir(parent or '.'):
        return ''
    names = [each.rstrip('/') for each in tf.io.gfile.listdir(parent or '.')]
    runs = [each for each in names if config_lib.saved_pipeline_config(os.path.join(parent, each))]
    near = errors.nearest(name, runs)
    return os.path.join(parent, near) if near else ''


def _folders_of_run(flags: Any) -> List[str]:
    """Returns where a config may be saved: a published checkpoint may lie beside a foreign one."""
    folders = [flags.checkpoint_dir, flags.model_dir]
    if _is_trained(flags) and flags.checkpoint_path:
        folders += [flags.checkpoint_path, os.path.dirname(flags.checkpoint_path)]
    return list(dict.fromkeys(filter(None, folders)))


def load_file(
    flags: Any, path: str, settings: Sequence[str] = (), folders: Sequence[str] = ()
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """A config file with the overrides and single fields of the flags.

    Args:
        flags: of the front door.
        path: of the file, or the name of a config of the package.
        settings: single fields in place of those of the flags.
        folders: where label maps may lie too.
    """
    path = builtin_configs.resolve(path)
    config = config_lib.load_pipeline_config(path)
    if _is_trained(flags):
        checkpoint = flags.checkpoint_path or flags.checkpoint_dir or ''
        beside = [flags.model_dir, os.path.dirname(path), checkpoint, os.path.dirname(checkpoint)]
        folders = [*folders, *beside]
        label_map_files.localize(config, folders, only_names=flags.mode in ('export', 'predict'))
    config = config_lib.apply_overrides(config, flags.config_override)
    config = config_lib.apply_settings(config, settings or flags.set)
    return _thinned(flags, config)


def _thinned(
    flags: Any, config: pipeline_pb2.TrainEvalPipelineConfig
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """The config, with as many examples of evaluations as the flags say."""
    if flags.sample_1_of_n_eval_examples > 1:
        for reader in config.eval_input_reader:
            reader.sample_1_of_n_examples = flags.sample_1_of_n_eval_examples
    return config
