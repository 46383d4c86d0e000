"""Defaults of training services, from given environment variables."""

import logging

import pytest
from google.protobuf import text_format

from model_fns.cli import platforms
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2

VERTEX = {
    'AIP_MODEL_DIR': 'gs://bucket/job/model/',
    'AIP_TENSORBOARD_LOG_DIR': 'gs://bucket/job/logs/',
}
SAGEMAKER = {'SM_MODEL_DIR': '/opt/ml/model'}


@pytest.mark.parametrize(
    ('mode', 'environ', 'model_dir', 'export_dir'),
    [
        ('train', VERTEX, 'gs://bucket/job/logs', None),
        ('train_and_evaluate', VERTEX, 'gs://bucket/job/logs', None),
        ('export', VERTEX, 'gs://bucket/job/logs', 'gs://bucket/job/model'),
        ('train', {'AIP_MODEL_DIR': 'gs://bucket/model/'}, 'gs://bucket/model', None),
        ('evaluate', SAGEMAKER, '/opt/ml/model', None),
        ('export', SAGEMAKER, '/opt/ml/model', '/opt/ml/model'),
        ('train', {'SM_MODEL_DIR': ''}, None, None),
        ('train', {}, None, None),
        # These modes take a model of any place.
        ('predict', {**VERTEX, **SAGEMAKER}, None, None),
        ('compare', {**VERTEX, **SAGEMAKER}, None, None),
        ('check', SAGEMAKER, None, None),
    ],
)
def test_folders(mode, environ, model_dir, export_dir):
    options = platforms.with_defaults(RunOptions(mode=mode), environ)
    assert (options.model_dir, options.export_dir) == (model_dir, export_dir)
    assert options.model_dirs == ((model_dir,) if model_dir else ())


def test_flags_win():
    given = RunOptions(mode='export', model_dir='a', model_dirs=('a',), export_dir='b')
    assert platforms.with_defaults(given, {**VERTEX, **SAGEMAKER}) == given


def test_defaults_are_logged(caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    platforms.with_defaults(RunOptions(mode='export'), VERTEX)
    assert '--model_dir=gs://bucket/job/logs (AIP_TENSORBOARD_LOG_DIR)' in caplog.messages
    assert '--export_dir=gs://bucket/job/model (AIP_MODEL_DIR)' in caplog.messages


CONFIG = """
train_config { fine_tune_checkpoint: "PATH_TO_BE_CONFIGURED/model.ckpt" }
train_input_reader {
  label_map_path: "PATH_TO_BE_CONFIGURED/map.pbtxt"
  tf_record_input_reader { input_path: ["PATH_TO_BE_CONFIGURED/a-?????", "own/b"] }
}
eval_input_reader {
  label_map_path: "own/map.pbtxt"
  tf_record_input_reader { input_path: "PATH_TO_BE_CONFIGURED/val" }
}
"""


def filled(environ):
    config = text_format.Parse(CONFIG, pipeline_pb2.TrainEvalPipelineConfig())
    platforms.fill_channels(config, environ)
    (evaluation,) = config.eval_input_reader
    return [
        config.train_config.fine_tune_checkpoint,
        config.train_input_reader.label_map_path,
        *config.train_input_reader.tf_record_input_reader.input_path,
        evaluation.label_map_path,
        *evaluation.tf_record_input_reader.input_path,
    ]


def test_channels():
    found = filled(
        {
            'SM_CHANNEL_TRAIN': '/in/t',
            'SM_CHANNEL_VALIDATION': '/in/v/',
            'SM_CHANNEL_MODEL': '/in/m',
        }
    )
    assert found == [
        '/in/m/model.ckpt', '/in/t/map.pbtxt', '/in/t/a-?????', 'own/b', 'own/map.pbtxt',
        '/in/v/val',
    ]  # fmt: skip


def test_one_channel_has_all_data(caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    found = filled({'SM_CHANNEL_TRAINING': '/in'})
    assert found == [
        'PATH_TO_BE_CONFIGURED/model.ckpt', '/in/map.pbtxt', '/in/a-?????', 'own/b',
        'own/map.pbtxt', '/in/val',
    ]  # fmt: skip
    assert 'PATH_TO_BE_CONFIGURED/val: /in/val (SM_CHANNEL_TRAINING)' in caplog.messages


def test_without_channels_nothing_changes():
    assert filled({'SM_CHANNEL_OTHER': '/in', **VERTEX}) == filled({})
