"""Folders of runs with known metrics, and a task whose examples are right or wrong."""

import json

import numpy as np

from estimator_lib.analysis import example_files
from estimator_lib.task_interfaces.analysis import Analysis, Analyzer
from estimator_lib.task_interfaces.presentation import Presentation
from protos import pipeline_pb2

RIGHT = {'a': [1, 0, 0, 1], 'b': [1, 1, 1, 1]}


def create_resampler(examples):
    right = examples['right']
    return lambda weights: {'accuracy': float(weights @ right / weights.sum())}


class Task:
    """Task with the metric `accuracy`, and one of each class."""

    name = 'fake'
    analysis = Analysis(Analyzer, create_resampler)

    def __init__(self, names=('cat', 'dog')):
        self.presentation = Presentation()
        self.presentation.class_names = names

    def metric_names(self):
        return ('accuracy', 'accuracy/cat')


def config(steps=10, batch_size=2):
    message = pipeline_pb2.TrainEvalPipelineConfig()
    message.train_config.num_steps = steps
    message.train_config.batch_size = batch_size
    return message


def write_metrics(folder, accuracy, step=10, sets=('0',), **more):
    folder.mkdir(parents=True, exist_ok=True)
    values = {'accuracy': accuracy, 'accuracy/cat': accuracy / 2, **more}
    content = {'global_step': step, **dict.fromkeys(sets, values)}
    (folder / 'metrics.json').write_text(json.dumps(content))


def write_results(folder, accuracies):
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f'{10 * index},t,{value},1.5\n' for index, value in enumerate(accuracies, 1)]
    columns = 'step,time,eval_0/accuracy,train/loss\n'
    (folder / 'results.csv').write_text(columns + ''.join(rows))


def write_examples(folder, right, names=None, name='10'):
    path = folder / 'analysis' / name
    path.mkdir(parents=True)
    names = names or [f'image_{index}'.encode() for index in range(len(right))]
    content = example_files.to_bytes(names, {'right': np.array(right)})
    (path / 'examples.npz').write_bytes(content)
