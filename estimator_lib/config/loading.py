"""Functions that read, override and save pipeline configs.

    config = load_pipeline_config('pipeline.config', settings=['train_config.batch_size=8'])
    for warning in validate(config):
        ...
    save_pipeline_config(config, model_dir)

Nothing in this module builds a graph.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import types
from typing import Optional, Sequence

from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import field_settings
from estimator_lib.config.text import parsing, renaming
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# The file in a model_dir that holds the config of its run.
PIPELINE_CONFIG_NAME = 'pipeline.config'

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig


def load_pipeline_config(
    path: str, overrides: Sequence[str] = (), settings: Sequence[str] = ()
) -> PipelineConfig:
    """Read a pipeline config and apply its overrides and settings.

    Args:
        path: a file of protobuf text, anywhere that `tf.io.gfile` reads.
        overrides: protobuf texts, merged after the file in this order: single values replace,
            repeated fields are appended to.
        settings: `train_config.batch_size=8` each, applied last, in this order; see
            `field_settings.apply_setting`.

    Returns:
        The parsed config. It is not validated: see `validate`.

    Raises:
        errors.ConfigError: the file, an override or a setting cannot be used; the message says
            where and why.
    """
    config = parse_pipeline_config(_config_files().read_text(path), path)
    if not config.ListFields():
        raise errors.ConfigError(f'{path}: the config is empty: it sets no field.')
    return apply_settings(apply_overrides(config, overrides), settings)


def parse_pipeline_config(
    text: str, name: str, overrides: Sequence[str] = (), settings: Sequence[str] = ()
) -> PipelineConfig:
    """Parse the text of a pipeline config and apply its overrides and settings.

    Args:
        text: protobuf text.
        name: the name of the text in error messages: a file name.
        overrides: protobuf texts, merged in this order: single values replace, repeated fields
            grow.
        settings: `train_config.batch_size=8` each, applied last, in this order.

    Raises:
        errors.ConfigError: it does not parse; the message has `name:line:column`, the line, a
            caret, the message path, what was expected and the nearest valid names.
    """
    config = PipelineConfig()
    try:
        parsing.parse(text, config, name)
    except errors.ConfigError:
        # Field names of other versions do not parse. So only a text that fails to parse has any.
        renamed, notes = renaming.apply(text, name)
        if not notes:
            raise
        for note in notes:
            log.warning('%s', note)
        config = PipelineConfig()
        parsing.parse(renamed, config, name)
    return apply_settings(apply_overrides(config, overrides), settings)


def apply_overrides(config: PipelineConfig, overrides: Sequence[str]) -> PipelineConfig:
    """Return the config with protobuf texts merged over it, in order."""
    parsed = [
        parse_pipeline_config(text, f'config override {number}')
        for number, text in enumerate(overrides, start=1)
    ]
    return merge_pipeline_configs(config, *parsed)


def merge_pipeline_configs(*configs: PipelineConfig) -> PipelineConfig:
    """Return one config: later single values replace earlier ones, repeated fields are appended to.

    A member of a oneof takes the place of another member.
    """
    merged = PipelineConfig()
    for config in configs:
        merged.MergeFrom(config)
    return merged


def apply_settings(config: PipelineConfig, settings: Sequence[str]) -> PipelineConfig:
    """Return the config with single fields set by dotted paths, in order."""
    changed = merge_pipeline_configs(config)
    for setting in settings:
        field_settings.apply_setting(changed, setting)
    return changed


def saved_pipeline_config(model_dir: str) -> str:
    """Return the path of the config saved in a `model_dir`; empty if there is none."""
    path = os.path.join(model_dir, PIPELINE_CONFIG_NAME) if model_dir else ''
    return path if path and _config_files().exists(path) else ''


def load_saved_config(model_dir: str) -> Optional[PipelineConfig]:
    """Return the config saved in a `model_dir`; None without one, or where it cannot be read.

    The config of another version may be such a one.
    """
    path = saved_pipeline_config(model_dir)
    with contextlib.suppress(errors.ConfigError):
        return load_pipeline_config(path) if path else None
    return None


def save_pipeline_config(config: PipelineConfig, model_dir: str) -> str:
    """Write a config to `model_dir/pipeline.config`, whole or not at all.

    A file that says the same stays as it is, with its comments.

    Args:
        config: the config after overrides.
        model_dir: created if it does not exist; anywhere that `tf.io.gfile` writes.

    Returns:
        The path of the file.

    Raises:
        errors.ConfigError: it cannot be written there.
    """
    path = os.path.join(model_dir, PIPELINE_CONFIG_NAME)
    if load_saved_config(model_dir) == config:
        return path
    text = text_format.MessageToString(config, as_utf8=True)
    _config_files().write_text(text, path)
    return path


def hash_config(config: PipelineConfig) -> hashlib._Hash:
    """Return the SHA-256 of a config, to which more can be added."""
    # Maps have no order otherwise, and equal configs would have other hashes.
    return hashlib.sha256(config.SerializeToString(deterministic=True))


def _config_files() -> types.ModuleType:
    """Import `config_files` on first use: it needs TensorFlow, which `--help` does not."""
    from estimator_lib.config import config_files

    return config_files
