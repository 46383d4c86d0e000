"""Runs of Apache Beam: whether it is there, options of a runner, files that appear when whole."""

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

# How the extra is asked for; its name is that of `setup.py`.
_INSTALL = "pip install 'vision-model-fns[beam]'"


class Runner(NamedTuple):
    """Who runs a pipeline.

    Attributes:
        name: as Beam knows its own: `DirectRunner`, `FlinkRunner`, `DataflowRunner`, `SparkRunner`.
        options: of the runner, as flags of a command line.
    """

    name: str
    options: Sequence[str] = ()


def runner_of(name: str, options: str = '') -> Runner:
    """Return the runner that flags ask for.

    Args:
        name: see `Runner`.
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
            raise errors.UserError('--runner_options: the runner is named by --runner.')
        if flag in ('--help', '-h'):
            raise errors.UserError(f'--runner_options: {flag} runs nothing; see the docs of Beam.')
    return Runner(name, flags)


@contextlib.contextmanager
def pipeline(runner: Runner) -> Iterator[Any]:
    """A Beam pipeline, which runs when the block ends; it is waited for.

    Raises:
        errors.UserError: there is no such runner, or the pipeline failed.
    """
    import apache_beam
    from apache_beam.options import pipeline_options

    try:
        options = pipeline_options.PipelineOptions([*runner.options, f'--runner={runner.name}'])
        made = apache_beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        raise errors.UserError(f'--runner={runner.name}: {errors.first_line(error)}') from error
    except SystemExit:
        raise errors.UserError(f'--runner_options: {_shown(runner)}: not flags of Beam.') from None
    yield made
    try:
        made.run().wait_until_finish()
    except errors.UserError:
        raise
    except SystemExit:
        raise errors.UserError(f'--runner_options: {_shown(runner)}: not flags of Beam.') from None
    except Exception as error:  # of many kinds, one for each runner
        said = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        raise errors.UserError(
            f'--runner={runner.name}: the pipeline failed: {said[-1]}'
        ) from error


def _shown(runner: Runner) -> str:
    return shlex.join(runner.options)


class Staged:
    """Files that a pipeline writes under other names until all of them are there.

    A file is written to a name of its own and then renamed, so whoever does a piece of work again,
    or at the same time, changes nothing: equal work makes equal files.

    Args:
        paths: the names that the files are to have.
    """

    def __init__(self, paths: Sequence[str]):
        self._paths = list(paths)

    def clear(self) -> None:
        """Remove what is staged."""
        for path in self._paths:
            if tf.io.gfile.exists(stage_of(path)):
                tf.io.gfile.remove(stage_of(path))

    def publish(self) -> None:
        """Give the files their names."""
        for path in self._paths:
            tf.io.gfile.rename(stage_of(path), path, overwrite=True)


def stage_of(path: str) -> str:
    """Where a file waits for its name; not found by the globs that find the file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f'.{name}.staged')


def write_records(path: str, contents: Sequence[bytes]) -> None:
    """Stages a TFRecord file; see `Staged`."""
    own = f'{stage_of(path)}-{uuid.uuid4().hex}'
    with tf.io.TFRecordWriter(own) as writer:
        for content in contents:
            writer.write(content)
    tf.io.gfile.rename(own, stage_of(path), overwrite=True)


def write_json(path: str, content: Any) -> None:
    """Stages a file of JSON; see `Staged`."""
    own = f'{stage_of(path)}-{uuid.uuid4().hex}'
    with tf.io.gfile.GFile(own, 'w') as file:
        file.write(json.dumps(content))
    tf.io.gfile.rename(own, stage_of(path), overwrite=True)


def read_json(path: str) -> List[Any]:
    """Return a staged list; empty where nobody had anything to write."""
    if not tf.io.gfile.exists(stage_of(path)):
        return []
    with tf.io.gfile.GFile(stage_of(path)) as file:
        return json.load(file)
