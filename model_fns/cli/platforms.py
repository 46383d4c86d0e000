"""Defaults that training services give by environment variables: Vertex AI and SageMaker.

Names: Vertex AI, "Code requirements for training applications"; SageMaker, "SageMaker AI
environment variables" of the training toolkit.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from google.protobuf.message import Message

from estimator_lib import errors
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

_TRAINING = ('train_and_evaluate', 'train')
# The variables of an option, the first of which that is set counts, and the modes that it is for.
# Vertex AI shows the events of AIP_TENSORBOARD_LOG_DIR; SageMaker keeps SM_MODEL_DIR after the job.
_OPTIONS: Mapping[str, Tuple[Sequence[str], Sequence[str]]] = {
    'model_dir': (
        ('AIP_TENSORBOARD_LOG_DIR', 'AIP_MODEL_DIR', 'SM_MODEL_DIR'),
        (*_TRAINING, 'evaluate', 'export'),
    ),
    'export_dir': (('AIP_MODEL_DIR', 'SM_MODEL_DIR'), ('export',)),
}
_CHANNEL = 'SM_CHANNEL_'
_OF_TRAINING = ('TRAIN', 'TRAINING')
_OF_EVALUATION = ('EVAL', 'VALIDATION', 'VAL', 'TEST', *_OF_TRAINING)
_OF_CHECKPOINTS = ('MODEL',)


def with_defaults(options: RunOptions, environ: Mapping[str, str]) -> RunOptions:
    """Return the options with the folders of a training service where none are given.

    Args:
        options: of the run.
        environ: the environment variables.
    """
    changes: Dict[str, Any] = {}
    for name, (variables, modes) in _OPTIONS.items():
        variable = next((each for each in variables if environ.get(each)), '')
        if options.mode in modes and options.has_default(name) and variable:
            changes[name] = environ[variable].rstrip('/') or '/'
            log.info('--%s=%s (%s)', name, changes[name], variable)
    if 'model_dir' in changes:
        changes['model_dirs'] = (changes['model_dir'],)
    return dataclasses.replace(options, **changes)


def fill_channels(config: pipeline_pb2.TrainEvalPipelineConfig, environ: Mapping[str, str]) -> None:
    """Replace the placeholder in paths of a config by the folders of SageMaker's channels.

    Published configs have the placeholder in place of a folder: PATH_TO_BE_CONFIGURED/train.record.

    Args:
        config: changed in place; paths without the placeholder stay.
        environ: the environment variables.
    """
    parts: List[Tuple[Message, Sequence[str]]] = [
        (config.train_input_reader, _OF_TRAINING),
        *((reader, _OF_EVALUATION) for reader in config.eval_input_reader),
        (config.train_config, _OF_CHECKPOINTS),
    ]
    for message, channels in parts:
        variable = next((_CHANNEL + each for each in channels if environ.get(_CHANNEL + each)), '')
        if variable:
            _fill(message, environ[variable].rstrip('/'), variable)


def _fill(message: Message, folder: str, variable: str) -> None:
    """Replace the placeholder in all texts of a message."""
    for field, value in message.ListFields():
        if field.message_type:
            for each in [value] if isinstance(value, Message) else value:
                _fill(each, folder, variable)
        elif isinstance(value, str):
            setattr(message, field.name, _filled(value, folder, variable))
        elif field.type == field.TYPE_STRING:
            value[:] = [_filled(each, folder, variable) for each in value]


def _filled(text: str, folder: str, variable: str) -> str:
    if not text.startswith(errors.PLACEHOLDER):
        return text
    path = folder + text[len(errors.PLACEHOLDER) :]
    log.info('%s: %s (%s)', text, path, variable)
    return path
