"""Files beside an exported model, so that it can be used without the training run.

They are the same for all formats: `pipeline.config`, `labels.txt`, `CheckpointMapping.asset_files`
(the label map), `metrics.json` where the checkpoint was evaluated, and `export.json`.
"""

from __future__ import annotations

import hashlib
import logging
import os
from typing import Any, Dict, Mapping, Optional, Sequence

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, texts
from estimator_lib.checkpoints import checkpoint_files, evaluated, state_files
from estimator_lib.config import loading
from estimator_lib.task import Task
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

EXPORT_FILE = 'export.json'
CONFIG_FILE = 'pipeline.config'
LABELS_FILE = 'labels.txt'
ORIGIN_FILE = 'origin.json'
_BLOCK = 1 << 24  # bytes that are read at a time
# The folder of the artifacts in a SavedModel: TensorFlow leaves files in it alone.
ASSETS = 'assets.extra'
DIGEST = 'sha256'
_ORIGIN = 'origin'


def write(
    folder: str,
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    about: Mapping[str, Any],
) -> None:
    """Write the artifacts of an export.

    Args:
        folder: of the artifacts; created where it is missing.
        task: of the model.
        config: of the model.
        checkpoint: prefix of the checkpoint that was exported.
        about: content of `export.json`, to which the origin of the model is added.
    """
    names = task.presentation.class_names
    metrics = evaluated.read(checkpoint)
    texts = {
        EXPORT_FILE: evaluated.to_json({**about, _ORIGIN: origin(config, checkpoint)}),
        **({LABELS_FILE: label_lines(names)} if names else {}),
        **({evaluated.METRICS_FILE: evaluated.to_json(metrics)} if metrics else {}),
        **model_texts(task, config),
    }
    tf.io.gfile.makedirs(folder)
    for name, text in texts.items():
        with tf.io.gfile.GFile(os.path.join(folder, name), 'w') as file:
            file.write(text)


def label_lines(names: Sequence[str]) -> str:
    """Return names with a line each, as many lines as names whatever the names hold."""
    return ''.join(f'{texts.escaped(name)}\n' for name in names)


def model_texts(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> Dict[str, str]:
    """Return `pipeline.config` and `CheckpointMapping.asset_files`, as texts by file name."""
    return {
        # Without `as_utf8`, paths and names of other scripts become octal escapes.
        CONFIG_FILE: text_format.MessageToString(config, as_utf8=True),
        **task.checkpoints.asset_files,
    }


def origin(config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str) -> Dict[str, Any]:
    """Return the origin of an export, which is equal for equal models.

    Args:
        config: of the export.
        checkpoint: its prefix.

    Returns:
        `global_step`, `checkpoint`, and a `fingerprint` of the config and the checkpoint's index,
        which has checksums of all values.
    """
    content = loading.hash_config(config)
    if tf.io.gfile.exists(checkpoint + '.index'):
        with tf.io.gfile.GFile(checkpoint + '.index', 'rb') as file:
            content.update(file.read())
    return {
        'global_step': checkpoint_files.checkpoint_step(checkpoint),
        'checkpoint': os.path.basename(checkpoint),
        'fingerprint': content.hexdigest(),
    }


def describe_file(path: str) -> Dict[str, Any]:
    """Return the size and the SHA-256 of a file, for `export.json`."""
    digest, size = hashlib.sha256(), 0
    with tf.io.gfile.GFile(path, 'rb') as file:
        while part := file.read(_BLOCK):  # a file may take 2 GB
            digest.update(part)
            size += len(part)
    return {'bytes': size, DIGEST: digest.hexdigest()}


def check_file(path: str, about: Mapping[str, Any]) -> None:
    """Check that a file is what was exported.

    Args:
        path: of the file.
        about: its `export.json`; one without size and checksum, of an earlier version, tells
            nothing.

    Raises:
        errors.UserError: the file is missing, or has another size or checksum.
    """
    if not about.keys() & {'bytes', DIGEST}:
        return
    if not tf.io.gfile.exists(path):
        raise errors.UserError(
            f'{path} is not there, which {EXPORT_FILE} describes; export the model again.'
        )
    for key, value in describe_file(path).items():
        if about.get(key, value) != value:
            raise errors.UserError(
                f'{path} is not what was exported: {key} is {value}, and {EXPORT_FILE} '
                f'beside it says {about[key]!r:.80}. It is truncated or corrupt; export it again.'
            )


def check_classes(export: str, names: Sequence[str]) -> None:
    """Compare the classes of a model with those of the config that it is run with.

    Args:
        export: path of a file, or of the folder of a SavedModel; one of another program has
            nothing to compare.
        names: `Presentation.class_names` of the config.

    Raises:
        errors.UserError: the numbers of classes differ. Other names are a warning.
    """
    path = os.path.join(find_folder(export), LABELS_FILE)
    if not names or not read_about(export) or not tf.io.gfile.exists(path):
        return
    with tf.io.gfile.GFile(path, 'rb') as file:
        exported = file.read().decode(errors='replace').split('\n')[:-1]
    here = label_lines(names).split('\n')[:-1]
    if len(exported) != len(here):
        raise errors.UserError(
            f'{export} has {len(exported)} classes ({errors.shortened(exported, 3)}), and the '
            f'config has {len(here)} ({errors.shortened(here, 3)}); expected the {CONFIG_FILE} '
            'that was exported with it.'
        )
    other = [pair for pair in zip(exported, here) if pair[0] != pair[1]]
    if other:
        log.warning(
            '%s: %d of %d classes have other names in the config: %r is %r there',
            export,
            len(other),
            len(here),
            *other[0],
        )


def check_outputs(
    export: str,
    expected: Mapping[str, Sequence[Optional[int]]],
    actual: Mapping[str, Optional[Sequence[Optional[int]]]],
) -> None:
    """Compare the outputs of a model with those of the config that it is run with.

    Args:
        export: path of the model.
        expected: shapes of the outputs of the config by name, without the batch; None for a side
            that may be any.
        actual: likewise, those of the model; it may have others. None: the shape is not known.

    Raises:
        errors.UserError: the model lacks an output, or a shape differs.
    """
    for name, sides in expected.items():
        if name not in actual:
            raise errors.UserError(
                f'{export} has no output {name!r}, which the network of the config has; it has: '
                f'{", ".join(sorted(actual))}. Expected the {CONFIG_FILE} that was exported with '
                'it, and a model that ends as its network does.'
            )
        shape = actual[name]
        if shape is None:
            continue
        both = zip(shape, sides) if len(shape) == len(sides) else [(len(shape), len(sides))]
        if any(side != other for side, other in both if None not in (side, other)):
            raise errors.UserError(
                f'{export}: the output {name!r} of an image has the shape {list(shape)}, and that '
                f'of the config {list(sides)}; expected the {CONFIG_FILE} that was exported with '
                'it.'
            )


def find_folder(export: str) -> str:
    """Return the folder of the artifacts of an export.

    Args:
        export: the path of a SavedModel's folder, or of another format's file.
    """
    if tf.io.gfile.isdir(export):
        return os.path.join(export, ASSETS)
    return os.path.dirname(export)


def config_path(export: str) -> Optional[str]:
    """Return the path of the pipeline config of an export; None where there is none."""
    path = os.path.join(find_folder(export), CONFIG_FILE)
    return path if tf.io.gfile.exists(path) else None


def read_metrics(export: str) -> Dict[str, Any]:
    """Return the metrics of an export's checkpoint, by evaluation set; empty for none."""
    return evaluated.read_file(os.path.join(find_folder(export), evaluated.METRICS_FILE))


def read_about(export: str) -> Dict[str, Any]:
    """Return the `export.json` of an export; empty where there is none."""
    return state_files.read_state(os.path.join(find_folder(export), EXPORT_FILE))


def model_size(export: str) -> int:
    """Return the size of a model in bytes: of its file, and of a SavedModel's variables."""
    about = read_about(export)
    return about['bytes'] + about.get('variables', {}).get('bytes', 0)


def read_origin(export: str) -> Mapping[str, Any]:
    """Return the `origin` of an export; empty for an export of another program."""
    about = read_about(export)
    if isinstance(about.get(_ORIGIN), dict):
        return about[_ORIGIN]
    # SavedModels of earlier versions have no `export.json`.
    return state_files.read_state(os.path.join(find_folder(export), ORIGIN_FILE))


def read_step(export: str) -> Optional[int]:
    """Return the global step of an export's checkpoint; None where it is not known."""
    step = read_origin(export).get('global_step')
    return step if isinstance(step, int) else None
