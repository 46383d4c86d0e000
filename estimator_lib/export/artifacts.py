"""What lies beside an exported file, so that it needs nothing of the training."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.task import Task
from protos import pipeline_pb2

EXPORT_FILE = 'export.json'
CONFIG_FILE = 'pipeline.config'
LABELS_FILE = 'labels.txt'


def write(
    folder: str,
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    about: Mapping[str, Any],
) -> None:
    """Writes `pipeline.config`, `export.json`, `labels.txt` and the files of `Task.asset_files`.

    Args:
        folder: of the exported file.
        task: of the model.
        config: of the model.
        about: what `export.json` says of the file.
    """
    names = task.class_names()
    texts = {
        CONFIG_FILE: text_format.MessageToString(config, as_utf8=True),
        EXPORT_FILE: json.dumps(about, indent=2) + '\n',
        **({LABELS_FILE: ''.join(f'{name}\n' for name in names)} if names else {}),
        **task.asset_files(),
    }
    for name, text in texts.items():
        with tf.io.gfile.GFile(os.path.join(folder, name), 'w') as file:
            file.write(text)


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Writes values as a file of JSON."""
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write(json.dumps(values, indent=2) + '\n')
