"""A run on points of a line, of which one has a wrong label; and the same by hand."""

import shutil

import numpy as np
import tensorflow as tf

from estimator_lib import training
from estimator_lib.task import IMAGE
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.tiny_task import Presented
from vision_extras.replay import past_run

POINTS = [round(1.0 + 0.01 * index, 2) for index in range(24)]
WRONG, LABEL = 8, 60.0  # the record with the wrong label, and that label
RATE = 0.01
STEPS = 32
EVERY = 10  # steps between two checkpoints


class MislabeledLine(Presented, Line):
    """y = 3 x for all points but one."""

    def prepare(self, example, mode):
        x = tf.reshape(example[IMAGE], [])
        wrong = tf.abs(x - POINTS[WRONG]) < 1e-4
        return example, {'y': tf.where(wrong, LABEL, 3.0 * x)}

    def draw(self, features, outputs, labels=None, shown=None):
        return np.full([4, 4, 3], int(labels['y']), np.uint8)


def create_config(folder, **fields):
    """The config of the run; its records are written to a folder."""
    config = line_task.create_config(folder)
    line_task.write_points(folder / 'points.tfrecord', POINTS)
    train_config = config.train_config
    train_config.num_steps = STEPS
    train_config.progress.summary_every_n_steps = 1
    train_config.checkpoints.save_every_n_steps = EVERY
    train_config.checkpoints.keep_max = 10
    rate = train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate
    rate.learning_rate = RATE
    for name, value in fields.items():
        setattr(train_config, name, value)
    return config


def train(folder, **fields):
    """Train to the end; return the run as it is read."""
    config = create_config(folder, **fields)
    training.train_and_evaluate(MislabeledLine(), config, str(folder / 'run'), evaluate=False)
    return read(folder, config)


def read(folder, config, task=None):
    return past_run.read(task or MislabeledLine(), config, str(folder / 'run'), True)


def copy(run, folder):
    """Copy a run without its replays to a folder, with data of its own."""
    shutil.copytree(run.model_dir, folder / 'run', ignore=shutil.ignore_patterns('replay'))
    return create_config(folder)


def by_hand(steps, without_from=None):
    """Gradient descent by hand.

    Args:
        steps: number of steps.
        without_from: the step from which on the wrong record is left out.

    Returns:
        For each step the slope before it, and the indices of its records.
    """
    slope, rows, position = 0.0, [], 0
    for step in range(1, steps + 1):
        records = []
        while len(records) < 2:
            record = position % len(POINTS)
            position += 1
            if without_from is None or step < without_from or record != WRONG:
                records.append(record)
        rows.append((slope, records))
        x = np.array([POINTS[record] for record in records])
        slope -= RATE * np.mean(2.0 * errors_of(slope, records) * x)
    return rows


def errors_of(slope, records):
    """The distances of predictions from the labels."""
    x = np.array([POINTS[record] for record in records])
    labels = np.where(np.array(records) == WRONG, LABEL, 3.0 * x)
    return slope * x - labels


def loss_of(slope, records):
    return np.mean(np.square(errors_of(slope, records)))
