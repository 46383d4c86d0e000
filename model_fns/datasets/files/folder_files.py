"""Listings of folders and contents of files, with one sentence for each error."""

from __future__ import annotations

import os
from typing import BinaryIO, Callable, Iterator, List, Set, Tuple

import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.processes import path_names
from model_fns.datasets import image_files


def list_names(folder: str) -> List[str]:
    """Return the names of the files and folders in a folder, sorted.

    Raises:
        errors.DataError: there is no such folder, it cannot be read, or a name in it is no text.
    """
    if not tf.io.gfile.isdir(folder):
        raise errors.DataError(f'{folder}: there is no such folder{errors.relative_to(folder)}.')
    try:
        names = tf.io.gfile.listdir(folder) if is_remote(folder) else os.listdir(folder)
    except (OSError, tf.errors.OpError) as error:
        reason = errors.first_line(error)
        raise errors.DataError(f'{folder}: the folder cannot be read: {reason}.') from None
    names = sorted(name.rstrip('/') for name in names)
    for name in names:
        if not path_names.is_text(name):
            raise errors.DataError(
                f'{folder}: the file name {texts.encodable(name)!r} is not UTF-8; rename the file.'
            )
    return names


def is_image(name: str) -> bool:
    """Return whether a file is an image by its name; hidden ones (`._a.jpg` of macOS) are not."""
    return name.lower().endswith(image_files.ENDINGS) and not name.startswith('.')


def walk(folder: str) -> Iterator[Tuple[str, List[str]]]:
    """Yield each folder below a folder, itself included, with the names of its files.

    Symbolic links are followed. A folder comes once, even where several paths lead to it, so a
    link to a folder above ends the walk there.
    """
    if is_remote(folder):
        for path, _, names in tf.io.gfile.walk(folder):
            yield path, names
        return
    waiting: List[str] = [folder]
    seen: Set[str] = set()
    while waiting:
        following = waiting.pop(0)
        if os.path.realpath(following) not in seen:
            seen.add(os.path.realpath(following))
            yield from _walk_folders(following, seen, waiting.append)


def _walk_folders(
    folder: str, seen: Set[str], postpone: Callable[[str], None]
) -> Iterator[Tuple[str, List[str]]]:
    """Yield the folders that no link leads to; postpone the others, so that they come last."""
    for path, inner, names in os.walk(folder):
        inner.sort()
        for name in list(inner):
            below = os.path.join(path, name)
            if os.path.islink(below):
                inner.remove(name)
                postpone(below)
            elif os.path.realpath(below) in seen:
                inner.remove(name)
            else:
                seen.add(os.path.realpath(below))
        yield path, sorted(names)


def read_bytes(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        errors.DataError: it is not there, is a folder, or may not be read.
    """
    try:
        with open_binary(path) as file:
            return file.read()
    except (FileNotFoundError, tf.errors.NotFoundError):
        missing = f'there is no such file{errors.relative_to(path)}'
        raise errors.DataError(f'{path}: {missing}.') from None
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = 'it is a folder' if _is_folder(path) else errors.first_line(error)
        raise errors.DataError(f'{texts.encodable(path)}: it cannot be read: {reason}.') from None


def missing(flag: str, kind: str, path: str) -> errors.DataError:
    """Return the error of a flag whose path is not there.

    Args:
        flag: of the converter.
        kind: `file` or `folder`.
        path: of what is not there.
    """
    return errors.DataError(f'{flag}: there is no {kind} {path}{errors.relative_to(path)}.')


def open_binary(path: str) -> BinaryIO:
    """Open a file for reading; errors are those of Python or TensorFlow."""
    if not is_remote(path):  # also a name that is not UTF-8, which TensorFlow does not take
        return open(path, 'rb')
    return tf.io.gfile.GFile(path, 'rb')


def read_text(path: str) -> str:
    """Return the text of a file of UTF-8, without its byte order mark.

    Raises:
        errors.DataError: see `read_bytes`; or it is not UTF-8.
    """
    content = read_bytes(path)
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise errors.DataError(f'{path} is not text of UTF-8: {error}.') from None


def is_remote(path: str) -> bool:
    """Return whether a path is one of another file system, like `gs://bucket/folder`."""
    return '://' in path


def _is_folder(path: str) -> bool:
    return path_names.is_text(path) and '\0' not in path and tf.io.gfile.isdir(path)
