"""A sheet of training examples as the network gets them, with their targets."""

from __future__ import annotations

import contextlib
import os
from concurrent import futures
from typing import List, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.data import corrupt_records, inputs, record_streams
from estimator_lib.drawing import figures, visualization
from estimator_lib.hooks.summaries import copy_example
from estimator_lib.task import SOURCE_ID, Task
from protos import input_reader_pb2, pipeline_pb2

tf1 = tf.compat.v1

FILE_NAME = 'augmented.png'

_RECORDS = 64  # among which the sheet of a run's start draws its examples


def write_sheet(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, folder: str, count: int
) -> str:
    """Write the first training examples of a run as a sheet of pictures.

    Args:
        task: decodes, augments and draws.
        config: the config of the run.
        folder: the folder of the file.
        count: number of examples, at least 1.

    Returns:
        The path of the PNG.

    Raises:
        errors.UserError: the examples cannot be read, or the task draws nothing.
    """
    pictures = draw_examples(task, config, count)
    if not pictures:
        raise errors.UserError(f'--show_augmented: the task {task.name!r} draws no examples.')
    return _write(folder, pictures)


def start_sheet(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, folder: str
) -> futures.Future[None]:
    """Write the sheet of a run's start in a thread; a failure is a warning.

    A short buffer of records keeps the memory and the time of the thread small. So the examples are
    not those of the first steps, but they come by the same way.

    Args:
        task: decodes, augments and draws the examples.
        config: has the number of examples.
        folder: the folder of the file.
    """
    own = pipeline_pb2.TrainEvalPipelineConfig()
    own.CopyFrom(config)
    reader = own.train_input_reader
    reader.shuffle_buffer_size = min(reader.shuffle_buffer_size, _RECORDS)
    reader.cache = input_reader_pb2.InputReader.NONE
    own.train_config.repeat_factor_threshold = 0  # it reads all examples
    pool = futures.ThreadPoolExecutor(1, thread_name_prefix='augmented_sheet')
    started = pool.submit(_try_sheet, task, own, folder)
    pool.shutdown(wait=False)
    return started


def _try_sheet(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, folder: str) -> None:
    # Training itself ends with the message of unusable data.
    with figures.tolerated(os.path.join(folder, FILE_NAME)), contextlib.suppress(errors.UserError):
        pictures = draw_examples(task, config, config.train_config.progress.draw_first_examples)
        if pictures:
            _write(folder, pictures)


def _write(folder: str, pictures: Sequence[np.ndarray]) -> str:
    path = os.path.join(folder, FILE_NAME)
    tf.io.gfile.makedirs(folder)
    visualization.write_png(path, visualization.sheet(pictures))
    return path


def draw_examples(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, count: int
) -> List[np.ndarray]:
    """Draw the first training examples of a run: uint8 [height, width, 3] each.

    Raises:
        errors.UserError: a record cannot be used, or the memory does not suffice.
        tf.errors.OpError: the input failed for another reason.
    """
    input_fn = training.train_input_fn(task, config)
    with tf.Graph().as_default() as graph:
        features, labels = input_fn()
        features, _ = inputs.pop_reader_state(features)
        initializers = [tf1.global_variables_initializer(), tf1.tables_initializer()]
    pictures: List[np.ndarray] = []
    with record_streams.open_session(graph) as session:
        try:
            # Two runs: the iterator, which is among the tables, starts at the variable of the
            # position.
            session.run(initializers[0])
            session.run(initializers[1])
            while len(pictures) < count:
                batch = session.run((features, labels))
                for index in range(len(batch[0][SOURCE_ID])):
                    example, targets = (copy_example(part, index) for part in batch)
                    picture = task.presentation.draw(example, {}, targets)
                    if picture is None:
                        return []
                    pictures.append(visualization.reduced(picture))
        except tf.errors.OutOfRangeError:  # the examples end after some epochs
            pass
        except corrupt_records.SESSION_ERRORS as error:
            raise input_fn.failure(error) or error from None
    return pictures[:count]
