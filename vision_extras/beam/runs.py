"""Runs of Apache Beam: its installation, options of a runner, files that appear when complete."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import uuid
from typing import Any, Iterator, List, NamedTuple, Sequence

import tensorflow as tf

from estimator_lib import errors

# The command that installs Beam; `setup.py` defines the extra.
_INSTALL = "pip install 'vision-model-fns[beam]'"


class Runner(NamedTuple):
    """A runner of Beam with its options.

    Attributes:
        name: one of Beam's runners: `DirectRunner`, `FlinkRunner`, `DataflowRunner`, `SparkRunner`.
        options: of the runner, as flags of a command line.
    """

    name: str
    options: Sequence[str] = ()


def parse_runner(name: str, options: str = '') -> Runner:
    """Return the runner that the flags describe.

    Args:
        name: one of Beam's runners: `DirectRunner`, `FlinkRunner`, `DataflowRunner`, `SparkRunner`.
        options: flags in one string, with quotes as in a shell.

    Raises:
        errors.UserError: Apache Beam is not installed, the name is a path of Python, which Beam
            would import and call, or the options are no flags.
    """
    if not name.isidentifier():
        raise errors.UserError(
            f'--runner={name!r}: expected one of Beam, like DirectRunner or FlinkRunner.'
        )
    if importlib.util.find_spec('apache_beam') is None:
        raise errors.UserError(f'--runner: Apache Beam is not installed; expected: {_INSTALL}')
    try:
        flags = shlex.split(options or '')
    except ValueError as error:
        raise errors.UserError(f'--runner_options: {options!r}: {error}.') from None
    for flag in flags:
        if flag.startswith('--runner') and flag.split('=')[0] == '--runner':
            raise errors.UserError(f'--runner_options: {flag}: the runner is named by --runner.')
        if flag in ('--help', '-h'):
            raise errors.UserError(f'--runner_options: {flag} runs nothing; see the docs of Beam.')
    return Runner(name, flags)


@contextlib.contextmanager
def pipeline(runner: Runner) -> Iterator[Any]:
    """Yield a Beam pipeline; run it when the block ends, and wait for it.

    Raises:
        errors.UserError: there is no such runner, or the pipeline failed.
    """
    import apache_beam
    from apache_beam.options import pipeline_options

    try:
        options = pipeline_options.PipelineOptions([*runner.options, f'--runner={runner.name}'])
        beam_pipeline = apache_beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        raise errors.UserError(f'--runner={runner.name}: {errors.first_line(error)}') from error
    except SystemExit:
        raise errors.UserError(f'--runner_options: {_shown(runner)}: not flags of Beam.') from None
    yield beam_pipeline
    try:
        beam_pipeline.run().wait_until_finish()
    except errors.UserError:
        raise
    except SystemExit:
        raise errors.UserError(f'--runner_options: {_shown(runner)}: not flags of Beam.') from None
    except Exception as error:  # each runner has errors of its own
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        raise errors.UserError(
            f'--runner={runner.name}: the pipeline failed: {lines[-1]}'
        ) from error


def _shown(runner: Runner) -> str:
    return shlex.join(runner.options)


class Staged:
    """Files that a pipeline writes under other names until all of them are there.

    Each writer writes to a unique name and then renames the file. So a worker that repeats a piece
    of work, even at the same time, changes nothing: equal work makes equal files.

    Args:
        paths: the names that the files are to have.
    """

    def __init__(self, paths: Sequence[str]):
        self._paths = list(paths)

    def clear(self) -> None:
        """Remove the staged files."""
        for path in self._paths:
            if tf.io.gfile.exists(staged_path(path)):
                tf.io.gfile.remove(staged_path(path))

    def publish(self) -> None:
        """Give the files their names."""
        for path in self._paths:
            tf.io.gfile.rename(staged_path(path), path, overwrite=True)


def staged_path(path: str) -> str:
    """Return the staging path of a file, which the globs that match the file do not match."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f'.{name}.staged')


def write_records(path: str, contents: Sequence[bytes]) -> None:
    """Write a staged TFRecord file, see `Staged`."""
    own = f'{staged_path(path)}-{uuid.uuid4().hex}'
    with tf.io.TFRecordWriter(own) as writer:
        for content in contents:
            writer.write(content)
    tf.io.gfile.rename(own, staged_path(path), overwrite=True)


def write_json(path: str, content: Any) -> None:
    """Write a staged JSON file, see `Staged`."""
    own = f'{staged_path(path)}-{uuid.uuid4().hex}'
    with tf.io.gfile.GFile(own, 'w') as file:
        file.write(json.dumps(content))
    tf.io.gfile.rename(own, staged_path(path), overwrite=True)


def read_json(path: str) -> List[Any]:
    """Read a staged list; empty where no worker wrote one."""
    if not tf.io.gfile.exists(staged_path(path)):
        return []
    with tf.io.gfile.GFile(staged_path(path)) as file:
        return json.load(file)
