"""Checkpoint files: search, and maintenance of the folder that holds them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import uuid
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import plain_paths
from estimator_lib.processes import path_names
from estimator_lib.task_interfaces import weight_files

log = logging.getLogger('estimator_lib')

_PARTS = re.compile(r'(\.index|\.meta|\.data-\d{5}-of-\d{5}|-\d{5}-of-\d{5})$')
_GRAPHS = ('.pb', '.pbtxt', '.tflite', '.lite')
_SHARD = re.compile(r'-(\d{5})-of-(\d{5})$')
_STEP = re.compile(r'-(\d+)$')
# The name of a checkpoint of TensorFlow 2 programs, before its number.
_COUNTED = 'ckpt-'
# The key of the step in such checkpoints.
OBJECT_STEP = 'step/.ATTRIBUTES/VARIABLE_VALUE'
# The scope of the reader positions in checkpoints of this package.
READER_SCOPE = 'input_reader'
# Files that a save leaves behind when its process is killed: a folder for a sharded save, single
# files for another save, and the temporary list of checkpoints.
_LEFTOVERS = re.compile(
    r'(model\.ckpt-\d+_temp'
    r'|model\.ckpt-\d+\.(index|data-\d{5}-of-\d{5})\.tempstate\d+'
    r'|model\.ckpt-\d+\.meta\.tmp[0-9a-f]{32}'
    r'|checkpoint\.tmp[0-9a-f]{32}'
    r'|run\.lock\.[0-9a-f]{32}(\.partial)?)$'
)

# Errors of missing data and of wrong checksums; a reader also raises a bare `OpError`.
_OF_CORRUPT_DATA = (tf.errors.DataLossError, tf.errors.OutOfRangeError, IndexError)
# Errors that a session also raises when it has lost a parameter server.
_NOT_OF_FILES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_ERRNOS = (*_FULL, errno.EACCES, errno.EIO)


def resolve_checkpoint(path: str, where: str = '') -> str:
    """Return the prefix of the checkpoint at a path.

    Args:
        path: a prefix (`model.ckpt-100`), a folder (its latest checkpoint), or one of the files of
            a checkpoint. Also a checkpoint of the older one-file format.
        where: the flag or config field of the path, for the message.

    Raises:
        errors.CheckpointError: there is no checkpoint, or a part of it is missing. The message
            suggests similar names.
    """
    place = f'{where}: ' if where else ''
    if weight_files.is_weight_file(path):
        raise errors.CheckpointError(
            f'{place}{path} is no checkpoint; make one of it: convert-checkpoint --from={path}.'
        )
    path = plain_paths.plain_path(path)
    _refuse_graph(path, place)
    if tf.io.gfile.isdir(path):
        prefix = latest_checkpoint(path) or next(reversed(list_prefixes(path)), None)
        if prefix is None:
            raise errors.CheckpointError(f'{place}the folder {path} holds no checkpoint.')
    else:
        prefix = path if _exists(path) else _PARTS.sub('', path)
        if not path or not _exists(prefix):
            raise errors.CheckpointError(f'{place}there is no checkpoint {path!r}{_near(path)}')
    _check_shards(prefix, place)
    return prefix


def _refuse_graph(path: str, place: str) -> None:
    """Refuse a graph, which has weights but not their names: a checkpoint can be made of it."""
    is_file = path.endswith(_GRAPHS) and tf.io.gfile.exists(path)
    is_model = tf.io.gfile.exists(os.path.join(path, tf.saved_model.SAVED_MODEL_FILENAME_PB))
    if is_file or (is_model and latest_checkpoint(path) is None):
        raise errors.CheckpointError(
            f'{place}{path} is a graph, no checkpoint; make a config and a checkpoint of it: '
            f'recover-config --from={path} --output_dir=recovered'
        )


def latest_checkpoint(folder: str) -> Optional[str]:
    """Return the prefix of the latest checkpoint in `folder/checkpoint`; None without a list.

    Raises:
        errors.CheckpointError: the latest listed checkpoint does not exist.
    """
    state = _read_list(folder)
    if state is None:
        return None
    prefix = state.model_checkpoint_path
    if not _exists(prefix):
        newest = next(reversed(list_prefixes(folder)), None)
        near = f'; the newest one that is there is {newest}.' if newest else '; none is there.'
        raise errors.CheckpointError(
            f'{os.path.join(folder, "checkpoint")} lists {prefix}, which is not there{near} '
            'Correct or delete that file.'
        )
    return prefix


def list_by_name(folder: str) -> None:
    """Correct the list of checkpoints in a moved or copied folder, which has the old paths.

    `latest_checkpoint` works without the correction, but TensorFlow's sessions read the list
    themselves. Only the process that saves may call this.
    """
    before, state = _read_list(folder, as_written=True), _read_list(folder)
    if state == before or not _exists(state.model_checkpoint_path):
        return
    latest = state.model_checkpoint_path
    # Leave out checkpoints of the old folder: a run deletes the oldest listed ones.
    own = [
        os.path.join(folder, os.path.basename(path)) for path in before.all_model_checkpoint_paths
    ]
    write_list(folder, [*(path for path in own if path != latest and _exists(path)), latest])
    log.info(
        '%s listed %s; the folder was moved or copied, and the list has the checkpoints beside it '
        'now, the latest %s',
        os.path.join(folder, 'checkpoint'),
        before.model_checkpoint_path,
        latest,
    )


def checkpoint_step(prefix: str) -> int:
    """Return the global step of a checkpoint, from its name or else from its content.

    The number in the name of an object-based checkpoint is not its step: it counts the saves.

    Raises:
        errors.CheckpointError: the checkpoint cannot be read, or its step is no number.
    """
    match = _STEP.search(prefix)
    if match and not os.path.basename(prefix).startswith(_COUNTED):
        return int(match.group(1))
    reader = open_checkpoint(prefix)
    for name in filter(reader.has_tensor, ('global_step', OBJECT_STEP)):
        with explained_read(prefix):
            value = reader.get_tensor(name)
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            raise errors.CheckpointError(
                f'{prefix} is corrupt: {name} in it is {value!r:.80}; expected a number of steps.'
            ) from None
    return int(match.group(1)) if match else 0


def latest_step(model_dir: str) -> int:
    """Return the global step of the latest checkpoint of a folder; 0 if there is none."""
    prefix = latest_checkpoint(model_dir)
    return 0 if prefix is None else checkpoint_step(prefix)


def resolve_start(path: str, where: str) -> str:
    """Return the checkpoint, or the file of weights, that a run starts from.

    Args:
        path: a checkpoint's prefix, folder or file, or a file of weights of another library.
        where: the config field of the path.

    Raises:
        errors.CheckpointError: it does not exist.
    """
    return weight_files.find(path, where) or resolve_checkpoint(path, where)


def open_checkpoint(prefix: str) -> weight_files.WeightReader:
    """Open a checkpoint, or a file of weights, for reading.

    Raises:
        errors.CheckpointError: the file is not a checkpoint, or is corrupt.
    """
    weights = weight_files.open_weights(prefix)
    if weights is not None:
        return weights
    try:
        return tf.train.load_checkpoint(prefix)
    # The reader converts some statuses of TensorFlow to Python errors: out of range, not found.
    except (tf.errors.OpError, ValueError, RuntimeError, LookupError) as error:
        reason = errors.first_line(error)
        if tf.io.gfile.exists(f'{prefix}.index'):
            reason = f'{reason.rstrip(".")}; {_advice(prefix)}'
        raise errors.CheckpointError(
            f'{prefix} cannot be read as a checkpoint: {reason}'
        ) from error


def checkpoint_shapes(prefix: str) -> Dict[str, List[int]]:
    """Return the shapes of all tensors of a checkpoint by name."""
    return open_checkpoint(prefix).get_variable_to_shape_map()


@contextlib.contextmanager
def explained_read(prefix: str) -> Iterator[None]:
    """Convert the error of an unreadable checkpoint to one plain sentence.

    Raises:
        errors.CheckpointError: the checkpoint is corrupt. The message names the newest other
            checkpoint, and how to resume from it.
    """
    try:
        yield
    except (tf.errors.OpError, IndexError) as error:
        if not isinstance(error, _OF_CORRUPT_DATA) and type(error) is not tf.errors.OpError:
            raise
        is_op_error = isinstance(error, tf.errors.OpError)
        reason = (errors.plain_message if is_op_error else errors.first_line)(error)
        raise errors.CheckpointError(f'{prefix} is corrupt: {reason}; {_advice(prefix)}') from error


def _advice(prefix: str) -> str:
    """Return the end of a message about an unreadable checkpoint: how to resume from another."""
    others = filter(_is_whole, reversed(list_prefixes(os.path.dirname(prefix))))
    newest = next((path for path in others if path != prefix), None)
    if newest is None:
        return 'there is no other checkpoint beside it.'
    files = f'{os.path.basename(prefix)}.* and the file named checkpoint'
    return f'the newest other one is {newest}; to resume from it, delete {files}.'


@contextlib.contextmanager
def explained_write(model_dir: str) -> Iterator[None]:
    """Convert the error of a failed write of a checkpoint to one plain sentence.

    Args:
        model_dir: the folder of the checkpoint.

    Raises:
        errors.CheckpointError: the disk is full, the folder is not writable any more, or the like.
            The message names the last good checkpoint, which stays.
    """
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = _file_system_reason(error)
        if reason is None and isinstance(error, _NOT_OF_FILES):
            raise
        raise errors.CheckpointError(
            f'a checkpoint cannot be written to model_dir {model_dir}: '
            f'{reason or errors.first_line(error)}; {_last_good(model_dir)}'
        ) from error


@contextlib.contextmanager
def explained_full_disk(model_dir: str) -> Iterator[None]:
    """Convert the error of a full disk to one plain sentence.

    This is for all other files of a run: events, metrics, exports.

    Args:
        model_dir: the folder of the run.

    Raises:
        errors.UserError: the disk is full or read-only.
    """
    try:
        yield
    except (tf.errors.OpError, OSError, IndexError) as error:  # IndexError: of a writer of events
        reason = _file_system_reason(error, _FULL)
        if reason is None:
            raise
        raise errors.UserError(
            f'model_dir {model_dir} cannot be written to: {reason}; {_last_good(model_dir)}'
        ) from error


def _file_system_reason(error: Exception, numbers: Sequence[int] = _ERRNOS) -> Optional[str]:
    """Return the file system's reason in an error message of TensorFlow; None without one."""
    return next((text for text in map(os.strerror, numbers) if text in str(error)), None)


def _last_good(model_dir: str) -> str:
    try:
        last = latest_checkpoint(model_dir)
    except errors.CheckpointError:
        last = None
    if last is None:
        return 'there is no earlier checkpoint.'
    return f'the last good one is {last}, from which the run resumes when it is started again.'


def clean_temporary(model_dir: str) -> List[str]:
    """Remove the files that killed saves left behind, and repair the list of checkpoints.

    A complete checkpoint that is not listed yet is listed. If the list is missing or unreadable,
    all complete checkpoints are listed. Only the process that saves may call this, before it saves.

    Returns:
        The names of the removed files.
    """
    if not tf.io.gfile.isdir(model_dir):
        return []
    names = path_names.list_names(model_dir)
    leftovers = sorted(name for name in names if _LEFTOVERS.match(name))
    for name in leftovers:
        path = os.path.join(model_dir, name)
        (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)
    if leftovers:
        log.info('removed unfinished saves of an earlier run: %s', ', '.join(leftovers))
    _list_newest(model_dir)
    list_by_name(model_dir)
    return leftovers


def _list_newest(model_dir: str) -> None:
    """List the newest complete checkpoint as the latest one if a killed save did not.

    There are two cases. Its save was killed before the list was written: the index is then newer
    than the list. (If the list is newer, a user may have edited it to return to an earlier
    checkpoint: it stays.) Or the list is missing or unreadable: a run would silently start from
    scratch.
    """
    whole = _whole_prefixes(model_dir)
    if not whole:
        return
    list_file = os.path.join(model_dir, 'checkpoint')
    state = _read_list(model_dir)
    if state is None:
        write_list(model_dir, whole)
        log.warning(
            '%s is missing or cannot be read; %s is the newest whole checkpoint: resuming from it',
            list_file,
            whole[-1],
        )
        return
    newest = whole[-1]
    if checkpoint_step(newest) <= checkpoint_step(latest_checkpoint(model_dir)):
        return
    if tf.io.gfile.stat(newest + '.index').mtime_nsec < tf.io.gfile.stat(list_file).mtime_nsec:
        return
    write_list(model_dir, [*state.all_model_checkpoint_paths, newest])
    log.info('%s is whole, and is listed now: its save was killed before', newest)


def return_to(folder: str, step: int) -> Optional[str]:
    """List the last whole checkpoint up to a step as the latest one, and return its prefix.

    None: there is none, and the list stays. Later checkpoints leave the list. Those that are kept
    for good were not in it, and a run would delete them if they were.
    """
    earlier = [path for path in _whole_prefixes(folder) if checkpoint_step(path) <= step]
    state = _read_list(folder)
    if not earlier or state is None:
        return None
    listed = [path for path in state.all_model_checkpoint_paths if path in earlier[:-1]]
    write_list(folder, [*listed, earlier[-1]])
    return earlier[-1]


def _whole_prefixes(folder: str) -> List[str]:
    return [path for path in list_prefixes(folder) if _STEP.search(path) and _is_whole(path)]


def _read_list(folder: str, as_written: bool = False) -> Optional[Any]:
    """Return the `CheckpointState` in `folder/checkpoint`; None if it is missing or empty.

    Args:
        folder: the folder.
        as_written: whether to keep paths of other folders. Else a checkpoint of the same name in
            this folder replaces them: moved and published folders list paths of another machine,
            and a copied run must not resume from the original.
    """
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:  # An empty or binary file. TensorFlow itself warns of other malformed ones.
        return None
    if state is not None and not as_written:
        paths = state.all_model_checkpoint_paths
        paths[:] = [_prefer_own(folder, path) for path in paths]
        state.model_checkpoint_path = _prefer_own(folder, state.model_checkpoint_path)
    return state


def _prefer_own(folder: str, prefix: str) -> str:
    own = os.path.join(folder, os.path.basename(prefix))
    return own if prefix != own and _exists(own) else prefix


def write_list(folder: str, prefixes: Sequence[str]) -> None:
    """Write the list of checkpoints of a folder, with relative paths, the latest one last."""
    names = [os.path.relpath(prefix, folder) for prefix in prefixes]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    write_atomically(os.path.join(folder, 'checkpoint'), '\n'.join(lines) + '\n')


def _is_whole(prefix: str) -> bool:
    with contextlib.suppress(errors.CheckpointError):
        _check_shards(prefix, '')
        return True
    return False


def keep_copy(prefix: str, folder: str) -> str:
    """Copy a checkpoint to a folder, and remove all other files there.

    At any time, also after a kill, a reader of the folder finds the old or the new checkpoint
    complete.

    Args:
        prefix: the checkpoint.
        folder: created if it does not exist.

    Returns:
        The prefix of the copy.
    """
    tf.io.gfile.makedirs(folder)
    source, name = os.path.split(prefix)
    files = [file for file in path_names.list_names(source) if file.startswith(f'{name}.')]
    # Copy the index last: a reader that finds it then finds the other files too.
    for file in sorted(files, key=lambda file: file.endswith('.index')):
        copy = os.path.join(folder, file)
        tf.io.gfile.copy(os.path.join(source, file), f'{copy}.partial', overwrite=True)
        tf.io.gfile.rename(f'{copy}.partial', copy, overwrite=True)
    write_list(folder, [os.path.join(folder, name)])
    for other in path_names.list_names(folder):
        if other not in ('checkpoint', *files):
            tf.io.gfile.remove(os.path.join(folder, other))
    return os.path.join(folder, name)


def write_atomically(path: str, content: Union[str, bytes]) -> None:
    """Write a file so that a reader sees either the old content or the new one, complete.

    Raises:
        errors.UserError: the path is a folder.
    """
    if tf.io.gfile.isdir(path):
        raise errors.UserError(f'{path} is a folder, where a file is to be written; remove it.')
    partial = f'{path}.{uuid.uuid4().hex}.partial'
    with tf.io.gfile.GFile(partial, 'w') as file:
        file.write(content)
    tf.io.gfile.rename(partial, path, overwrite=True)


def _exists(prefix: str) -> bool:
    if not os.path.basename(prefix) or _PARTS.search(prefix):
        return False
    if tf.io.gfile.exists(prefix + '.index'):
        return True
    # The older format is one file without an extension, or numbered files.
    whole = tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix)
    return whole or bool(tf.io.gfile.glob(prefix + '-?????-of-?????'))


def list_prefixes(folder: str) -> List[str]:
    """List the prefixes of the checkpoints in a folder, by their index files, sorted by step."""
    names = [path[: -len('.index')] for path in tf.io.gfile.glob(os.path.join(folder, '*.index'))]

    def order(prefix: str) -> Tuple[int, str]:
        match = _STEP.search(prefix)
        return (int(match.group(1)) if match else -1, prefix)

    return sorted(names, key=order)


def _near(path: str) -> str:
    """Return the end of a message about a missing checkpoint, with similar names."""
    folder = os.path.dirname(path) or '.'
    if not tf.io.gfile.isdir(folder):
        return f'{errors.relative_to(path)}; the folder {folder} does not exist.'
    names = [os.path.basename(prefix) for prefix in list_prefixes(folder)]
    if not names:
        return f'{errors.relative_to(path)}; the folder {folder} holds none.'
    return errors.relative_to(path) + errors.did_you_mean(os.path.basename(path), names)


def _check_shards(prefix: str, place: str) -> None:
    """Check that no data file of a checkpoint is missing, as after an incomplete copy."""
    index_exists = tf.io.gfile.exists(prefix + '.index')
    start = prefix + '.data' if index_exists else prefix
    shards = [_SHARD.search(path) for path in tf.io.gfile.glob(start + '-?????-of-?????')]
    present = {match.group(0) for match in shards if match}
    if not present:
        if index_exists:
            raise errors.CheckpointError(f'{place}{prefix}.index is there without its .data files.')
        return
    total = max(int(shard[-5:]) for shard in present)
    for index in range(total):
        name = f'-{index:05d}-of-{total:05d}'
        if name not in present:
            raise errors.CheckpointError(f'{place}the checkpoint lacks the file {start}{name}.')
