"""A worker that fits the line of `line_task`: line_program.py RECORDS MODEL_DIR."""

import os
import pathlib
import sys

if __name__ == '__main__':
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from google.protobuf import text_format

from estimator_lib import training
from protos import pipeline_pb2, train_pb2
from tests.estimator_lib import line_task

if __name__ == '__main__':
    records, model_dir = sys.argv[1:]
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(line_task.CONFIG.format(records=records), config)
    config.train_config.non_finite_loss_policy = train_pb2.SKIP_STEP
    config.train_config.num_steps = 4
    training.train_and_evaluate(line_task.Line(), config, model_dir, evaluate=False)
