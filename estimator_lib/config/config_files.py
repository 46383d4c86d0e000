"""Readers and writers of config files, on any file system that TensorFlow supports."""

from __future__ import annotations

import os
import uuid
from typing import List, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.processes import path_names

# Number of files with similar names that "did you mean" chooses from.
_CANDIDATES = 5


def exists(path: str) -> bool:
    """Return True if the file exists."""
    return tf.io.gfile.exists(path)


def write_text(text: str, path: str) -> None:
    """Write a file atomically, and create its folder if needed.

    Raises:
        errors.ConfigError: the file cannot be written.
    """
    # Write to a temporary name first. A concurrent reader, or one after a crash, then sees either
    # the old file or the new one, never a part of it.
    temporary = f'{path}.{uuid.uuid4().hex}.tmp'
    try:
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(temporary, 'w') as file:
            file.write(text)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError as error:
        raise errors.ConfigError(f'{path}: cannot be written: {error.message}.') from None


def read_text(path: str) -> str:
    """Return the text of a config file.

    Args:
        path: anywhere that `tf.io.gfile` reads.

    Raises:
        errors.ConfigError: the file does not exist, or is not text.
    """
    if not path:
        raise errors.ConfigError(f'the path of the pipeline config is {path!r}; expected a file.')
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
    """Decode a file's bytes to text with plain line ends and without a byte order mark.

    Raises:
        errors.ConfigError: the bytes are empty or not UTF-8 text.
    """
    if not content.strip():
        raise errors.ConfigError(f'{path}: the file is empty.')
    # Before the search for zeros, which UTF-16 has for each Latin letter.
    if content[:2] in (b'\xff\xfe', b'\xfe\xff'):
        raise errors.ConfigError(f'{path}: the text is UTF-16; save it as UTF-8.')
    if b'\0' in content:
        raise errors.ConfigError(f'{path}: this is a binary file; expected protobuf text.')
    try:
        # Some editors begin UTF-8 with a byte order mark, which the protobuf parser refuses.
        text = content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise errors.ConfigError(
            f'{path}:{line}: the byte 0x{content[error.start]:02x} is not UTF-8 text; '
            'the file is binary, or was saved in another encoding.'
        ) from None
    return text.replace('\r\n', '\n').replace('\r', '\n')


def _not_found(path: str) -> str:
    """Describe a missing file in one sentence that suggests the nearest existing file."""
    folder, name = os.path.split(path)
    names, missing = _list_folder(folder or '.'), f'there is no such file{errors.relative_to(path)}'
    if names is None:
        return f'{path}: {missing}: the folder {folder} does not exist.'
    files = [
        each
        for each in errors.nearest_first(name, names)[:_CANDIDATES]
        if not tf.io.gfile.isdir(os.path.join(folder, each))
    ]
    near = errors.nearest(name, files)
    hint = f'; did you mean {os.path.join(folder, near)}?' if near else '.'
    return f'{path}: {missing}{hint}'


def _is_a_folder(path: str) -> str:
    """Describe a folder passed as a config file, in one sentence that suggests a config in it."""
    inside = [name for name in _list_folder(path) or () if name.endswith('.config')]
    hint = f'; did you mean {os.path.join(path, sorted(inside)[0])}?' if inside else '.'
    return f'{path}: this is a folder; expected the file of a pipeline config{hint}'


def _list_folder(folder: str) -> Optional[List[str]]:
    """Return the names in a folder; None if it does not exist."""
    try:
        return path_names.list_names(folder) if tf.io.gfile.isdir(folder) else None
    except tf.errors.OpError:
        return None
