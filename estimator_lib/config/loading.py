"""Pipeline configs: read, overridden, validated and saved.

    config = load_pipeline_config('pipeline.config', settings=['train_config.batch_size=8'])
    for warning in validate(config):
        ...
    save_pipeline_config(config, model_dir)

Nothing here builds a graph.
"""

from __future__ import annotations

import logging
import os
import uuid
from typing import List, Optional, Sequence

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import field_settings, parsing, renaming
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# The file in a model_dir that holds the config of its run.
PIPELINE_CONFIG_NAME = 'pipeline.config'

# How many of the files with similar names are looked at for "did you mean".
_CANDIDATES = 5

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig


def load_pipeline_config(
    path: str, overrides: Sequence[str] = (), settings: Sequence[str] = ()
) -> PipelineConfig:
    """Reads a pipeline config and applies what overrides it.

    Args:
        path: a file of protobuf text, anywhere that `tf.io.gfile` reads.
        overrides: protobuf texts, merged after the file in this order: single values replace,
            repeated fields are appended to.
        settings: `train_config.batch_size=8` each, applied last, in this order; see
            `field_settings.apply_setting`.

    Returns:
        The config. It is parsed, not validated: see `validate`.

    Raises:
        errors.ConfigError: the file, an override or a setting cannot be used; the message says
            where and why.
    """
    config = parse_pipeline_config(_read(path), path)
    if not config.ListFields():
        raise errors.ConfigError(f'{path}: the config is empty: it sets no field.')
    return apply_settings(apply_overrides(config, overrides), settings)


def parse_pipeline_config(
    text: str, name: str, overrides: Sequence[str] = (), settings: Sequence[str] = ()
) -> PipelineConfig:
    """Parses the text of a pipeline config and applies what overrides it.

    Args:
        text: protobuf text.
        name: what error messages call it: a file name.
        overrides: see `load_pipeline_config`.
        settings: see `load_pipeline_config`.

    Raises:
        errors.ConfigError: it does not parse; the message has `name:line:column`, the line, a
            caret, the message path, what was expected and the nearest valid names.
    """
    config = PipelineConfig()
    try:
        parsing.parse(text, config, name)
    except errors.ConfigError:
        # Names of other versions do not parse, so a text that does has none.
        renamed, notes = renaming.apply(text, name)
        if not notes:
            raise
        for note in notes:
            log.warning('%s', note)
        config = PipelineConfig()
        parsing.parse(renamed, config, name)
    return apply_settings(apply_overrides(config, overrides), settings)


def apply_overrides(config: PipelineConfig, overrides: Sequence[str]) -> PipelineConfig:
    """The config with protobuf texts merged over it, in order."""
    parsed = [
        parse_pipeline_config(text, f'config override {number}')
        for number, text in enumerate(overrides, start=1)
    ]
    return merge_pipeline_configs(config, *parsed)


def merge_pipeline_configs(*configs: PipelineConfig) -> PipelineConfig:
    """One config: later single values replace earlier ones, repeated fields are appended to.

    A member of a oneof takes the place of another member.
    """
    merged = PipelineConfig()
    for config in configs:
        merged.MergeFrom(config)
    return merged


def apply_settings(config: PipelineConfig, settings: Sequence[str]) -> PipelineConfig:
    """The config with single fields set by dotted paths, in order."""
    changed = merge_pipeline_configs(config)
    for setting in settings:
        field_settings.apply_setting(changed, setting)
    return changed


def saved_pipeline_config(model_dir: str) -> str:
    """The path of the config that was saved in a `model_dir`; empty where there is none."""
    path = os.path.join(model_dir, PIPELINE_CONFIG_NAME) if model_dir else ''
    return path if path and tf.io.gfile.exists(path) else ''


def save_pipeline_config(config: PipelineConfig, model_dir: str) -> str:
    """Writes a config to `model_dir/pipeline.config`, whole or not at all.

    Args:
        config: the config after overrides.
        model_dir: made when it is not there; anywhere that `tf.io.gfile` writes.

    Returns:
        The path of the file.

    Raises:
        errors.ConfigError: it cannot be written there.
    """
    path = os.path.join(model_dir, PIPELINE_CONFIG_NAME)
    # Another name first: who reads meanwhile, or after a crash, sees the old file or the new one.
    temporary = f'{path}.{uuid.uuid4().hex}.tmp'
    text = text_format.MessageToString(config, as_utf8=True)
    try:
        tf.io.gfile.makedirs(model_dir)
        with tf.io.gfile.GFile(temporary, 'w') as file:
            file.write(text)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError as error:
        raise errors.ConfigError(f'{path}: cannot be written: {error.message}.') from None
    return path


def _read(path: str) -> str:
    """The text of a config file.

    Raises:
        errors.ConfigError: there is none, or it is not text.
    """
    if not path:
        raise errors.ConfigError('the path of the pipeline config is empty.')
    try:
        if tf.io.gfile.isdir(path):
            raise errors.ConfigError(_is_a_folder(path))
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = file.read()
    except tf.errors.NotFoundError:
        raise errors.ConfigError(_not_found(path)) from None
    except tf.errors.OpError as error:
        raise errors.ConfigError(f'{path}: cannot be read: {error.message}.') from None
    return _decode(content, path)


def _decode(content: bytes, path: str) -> str:
    """The text in a file's bytes, with the line ends of this system and without a byte order mark.

    Raises:
        errors.ConfigError: there is no text in it.
    """
    if not content.strip():
        raise errors.ConfigError(f'{path}: the file is empty.')
    if content[:2] in (b'\xff\xfe', b'\xfe\xff'):
        raise errors.ConfigError(f'{path}: the text is UTF-16; save it as UTF-8.')
    if b'\0' in content:
        raise errors.ConfigError(f'{path}: this is a binary file; expected protobuf text.')
    try:
        text = content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise errors.ConfigError(
            f'{path}:{line}: the byte 0x{content[error.start]:02x} is not UTF-8 text; '
            'the file is binary, or was saved in another encoding.'
        ) from None
    return text.replace('\r\n', '\n').replace('\r', '\n')


def _not_found(path: str) -> str:
    """One sentence about a file that is not there, with the nearest one that is."""
    folder, name = os.path.split(path)
    names = _list_folder(folder or '.')
    if names is None:
        return f'{path}: there is no such file: the folder {folder} does not exist.'
    files = [
        each
        for each in errors.nearest_first(name, names)[:_CANDIDATES]
        if not tf.io.gfile.isdir(os.path.join(folder, each))
    ]
    near = errors.nearest(name, files)
    hint = f'; did you mean {os.path.join(folder, near)}?' if near else '.'
    return f'{path}: there is no such file{hint}'


def _is_a_folder(path: str) -> str:
    """One sentence about a folder that was given as the file, with the configs that are in it."""
    inside = [name for name in _list_folder(path) or () if name.endswith('.config')]
    hint = f'; did you mean {os.path.join(path, sorted(inside)[0])}?' if inside else '.'
    return f'{path}: this is a folder; expected the file of a pipeline config{hint}'


def _list_folder(folder: str) -> Optional[List[str]]:
    """The names in a folder; None where there is no such folder."""
    try:
        return [name.rstrip('/') for name in tf.io.gfile.listdir(folder)]
    except tf.errors.OpError:
        return None
