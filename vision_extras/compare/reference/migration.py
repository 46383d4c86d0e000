"""The mode `compare` with `--reference`: the user's own Object Detection API, and ours."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import subprocess
from typing import Any, Dict, List, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.task import Task
from protos import box_coding_pb2, pipeline_pb2
from vision_extras.compare.reference import bridge, differences, folders, ours, page

log = logging.getLogger('estimator_lib')

FOLDER = 'reference'  # in the output folder
DEFAULT_STEPS = 10

_LAST_LINES = 3  # of a program that failed
_SUPPORTED = ('ssd', 'faster_rcnn')


def prepare(config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Check that a config can be compared, and turn off its dropout as the bridge does.

    Raises:
        errors.ConfigError: the two sides cannot do the same with the config.
    """
    kind = config.model.WhichOneof('model')
    if kind not in _SUPPORTED:
        raise errors.ConfigError(
            f'model.{kind}: --reference compares detectors with the variable names of TensorFlow '
            f'1; expected model.{" or model.".join(_SUPPORTED)}.'
        )
    model = getattr(config.model, kind)
    name = model.feature_extractor.type
    if name.endswith('_keras'):
        raise errors.ConfigError(
            f'model.{kind}.feature_extractor.type: {name!r} has variables of TensorFlow 2, which '
            f'--reference cannot restore there; expected a type without _keras.'
        )
    if model.box_type == box_coding_pb2.ROTATED:
        raise errors.ConfigError(
            f'model.{kind}.box_type: the Object Detection API has no rotated boxes; expected '
            'axis-aligned ones.'
        )
    if config.HasField('graph_rewriter'):
        raise errors.ConfigError(
            'graph_rewriter: --reference compares float networks; expected a config without it.'
        )
    if not config.eval_input_reader:
        raise errors.ConfigError('eval_input_reader: none is set; --reference evaluates once.')
    bridge.turn_off_dropout(config.model)


def compare(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    config_path: str,
    command: str,
    output_dir: str,
    num_steps: int = DEFAULT_STEPS,
) -> List[str]:
    """Compare both sides, and write `migration.html`.

    Args:
        task: the task of the config.
        config: the config as this project reads it, after `prepare`.
        config_path: the same config as the user has written it.
        command: the command of a Python that has the package `object_detection`.
        output_dir: the folder of the page, and of the results in its sub-folder `FOLDER`.
        num_steps: number of training steps.

    Returns:
        Lines for people: the stages with their largest differences, and the path of the page.

    Raises:
        errors.UserError: the command does not start, has no such package, or fails.
    """
    folder = os.path.abspath(os.path.join(output_dir, FOLDER))
    notes = ['Dropout is off on both sides, and both get the same batches after augmentation.']
    if config.model.WhichOneof('model') == 'faster_rcnn':
        num_steps = 0
        notes.append(
            'There are no training steps: the API samples the proposals of two-stage detectors at '
            'random, so only detections from the initial checkpoint are compared.'
        )
    words = _words(command)
    _run(words, ['-c', _PROBE])
    log.info('batches and initial checkpoint: %s', folder)
    job = folders.write(task, config, config_path, folder, num_steps)
    log.info('reference: %s', command)
    there, about = _run_bridge(words, folder)
    log.info('the same here')
    here = ours.run(task, config, job)
    metrics = [
        ours.compute_metrics(task, job.evaluation, each['detections']) for each in (here, there)
    ]
    stages = differences.list_stages(here, there, metrics)
    if about['missing']:
        names = errors.shortened(about['missing'])
        notes.append(f'The reference has variables that are not here: {names}.')
    compared = page.Compared(here, there, metrics, stages, about, notes)
    path = page.write(compared, output_dir, config_path)
    folders.remove_batches(folder)
    return [*page.lines(compared), f'migration: {path}']


# Fails before batches are written; the bridge ends with the same status.
_PROBE = (
    'import importlib.util as util, sys; '
    f'sys.exit(0 if util.find_spec("object_detection") else {bridge.NO_PACKAGE})'
)


def _words(command: str) -> List[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise errors.UserError(f'--reference={command}: {error}.') from None
    if not words:
        raise errors.UserError(f'--reference is {command!r}; expected the command of a Python.')
    return words


def _run(words: List[str], arguments: List[str]) -> None:
    """Run the user's Python.

    Raises:
        errors.UserError: the command does not start, has no such package, or fails.
    """
    command = shlex.join(words)
    try:
        ended = subprocess.run(
            [*words, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except OSError as error:
        raise errors.UserError(
            f'--reference={command} does not start: {error.strerror}; expected the command of a '
            'Python that can import object_detection.'
        ) from None
    if ended.returncode == bridge.NO_PACKAGE:
        raise errors.UserError(
            f'--reference={command} has no package object_detection; expected a Python that can '
            'import it (PYTHONPATH=models/research:models/research/slim).'
        )
    if ended.returncode:
        output = ended.stdout.decode('utf-8', 'replace')
        last = [line.strip() for line in output.splitlines() if line.strip()][-_LAST_LINES:]
        raise errors.UserError(
            f'--reference={command} failed with exit status {ended.returncode}: '
            f'{" / ".join(last) or "it printed nothing"}'
        )


def _run_bridge(words: List[str], folder: str) -> Tuple[Dict[str, Dict[str, Any]], Dict[str, Any]]:
    """Run the bridge; return its results by group and name, and its versions."""
    path = bridge.result_path(folder, bridge.RESULTS)
    with contextlib.suppress(FileNotFoundError):  # of an earlier comparison
        os.remove(path)
    _run(words, [os.path.join(folder, 'bridge.py'), folder])
    if not os.path.exists(path):
        raise errors.UserError(
            f'--reference={shlex.join(words)} has written no {path}; expected the command of a '
            'Python, which runs the script that follows and sees the output folder.'
        )
    results: Dict[str, Dict[str, Any]] = {}
    with np.load(path) as values:
        for name in values:
            group, _, rest = name.partition('/')
            results.setdefault(group, {})[rest] = values[name]
    with open(os.path.join(folder, f'{bridge.RESULTS}.json'), encoding='utf-8') as file:
        return results, json.load(file)
