"""The pipeline config that the flags of the front door describe."""

from __future__ import annotations

import logging
import os
from typing import Any, Sequence

from estimator_lib import config as config_lib
from model_fns import builtin_configs, label_map_files
from model_fns.datasets import demo
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

_TRAINED = ('evaluate', 'export', 'predict')  # modes that need a model, not its training


def load_config(flags: Any) -> pipeline_pb2.TrainEvalPipelineConfig:
    """The pipeline config of a run: file, then overrides, then single fields, then flags.

    What has been trained needs no path of its training: see `label_map_files.localize`.
    """
    settings = list(flags.set)
    if flags.num_train_steps is not None:
        settings.append(f'train_config.num_steps={flags.num_train_steps}')
    path = flags.pipeline_config_path or config_lib.saved_pipeline_config(flags.model_dir)
    if not path and flags.mode in _TRAINED and flags.checkpoint_path:
        path = config_lib.saved_pipeline_config(os.path.dirname(flags.checkpoint_path))
    if path:
        config = load_file(flags, path, settings)
    else:
        log.info('no --pipeline_config_path: running the embedded demo')
        config = config_lib.parse_pipeline_config(
            demo.demo_pipeline_text(), 'the embedded demo', flags.config_override, settings
        )
    return _thinned(flags, config)


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
    if flags.checkpoint_dir or flags.mode in _TRAINED:
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
