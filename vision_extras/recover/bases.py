"""Configs that recoveries begin with: those of the package, with a short fine-tuning.

What an artifact does not tell (losses, initial values, regularization) is that of a model of its
kind in the package. What only a graph tells is, for a checkpoint, that of the configs in the folder
`published`.
"""

from __future__ import annotations

import pathlib
from typing import Collection

from google.protobuf import text_format
from google.protobuf.message import Message

from model_fns.cli import builtin_configs
from protos import model_pb2, pipeline_pb2

CHECKPOINT = 'model.ckpt-0'  # beside a recovered config
BATCH_NORM_DECAY = 0.97
_PUBLISHED_FOLDER = pathlib.Path(__file__).parent / 'published'
# What models were published with, for comments; too slow for a few steps.
PUBLISHED = {
    'decay': 'published: 0.997 to 0.9997',
    'batch_norm_decay': 'published: 0.9997',
    'use_moving_average': 'published: true for detectors of 2017 and TF-Slim',
    'num_steps': 'published: 25000 to 200000',
    'batch_size': 'published: 1 to 64',
    'learning_rate_base': 'published: a start for a training from scratch',
}
_FINE_TUNING = """
  batch_size: 8
  num_steps: 1000
  optimizer {
    adam_optimizer {
      epsilon: 1e-7
      learning_rate {
        cosine_decay_learning_rate {
          learning_rate_base: 0.0005 warmup_learning_rate: 0.00005 warmup_steps: 50
        }
      }
    }
    use_moving_average: false
  }
"""


def load(name: str, checkpoint_type: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Read a config of the package, with a fine-tuning of a recovered checkpoint.

    Args:
        name: of the config.
        checkpoint_type: what the recovered checkpoint restores in the training: `classification`,
            `detection` or `segmentation`.
    """
    model = _read_model(builtin_configs.builtin_configs()[name])
    config = pipeline_pb2.TrainEvalPipelineConfig(model=model)
    text_format.Parse(_FINE_TUNING, config.train_config)
    config.train_config.fine_tune_checkpoint = CHECKPOINT
    config.train_config.fine_tune_checkpoint_type = checkpoint_type
    if checkpoint_type == 'detection':
        config.train_config.data_augmentation_options.add().random_horizontal_flip.SetInParent()
    readers = (config.train_input_reader, config.eval_input_reader.add())
    for reader, part in zip(readers, ('train', 'val')):
        path = f'PATH_TO_BE_CONFIGURED/{part}.record'
        reader.tf_record_input_reader.input_path.append(path)
    return config


def published(name: str) -> model_pb2.DetectionModel:
    """Return what a checkpoint of a kind of model does not tell.

    Args:
        name: of a file in the folder `published`, without its ending.
    """
    return _read_model(_PUBLISHED_FOLDER / f'{name}.config')


def _read_model(path: pathlib.Path) -> model_pb2.DetectionModel:
    text = path.read_text(encoding='utf-8')
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model


def keep(message: Message, names: Collection[str] = ()) -> None:
    """Clear all fields of a message but some."""
    for field, _ in message.ListFields():
        if field.name not in names:
            message.ClearField(field.name)
