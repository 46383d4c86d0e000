"""Images for tests of exported files, and for measuring their quantization ranges."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import record_streams
from estimator_lib.data.reading import create_sequences
from estimator_lib.data.record_sources import Source, input_files
from estimator_lib.task import IMAGE, Task
from estimator_lib.task_interfaces.deployable import Deployable, content
from protos import pipeline_pb2

tf1 = tf.compat.v1

_MOST_FILES = 16  # that are read at a time
_SIDE = 320  # of images of noise
# Sides of their squares of one color. A network averages fine noise: images would look alike to it.
_CELLS = (1, 4, 16, 64, 160)
_SPREAD = 8  # records among which one is drawn, for each image


class Sample(NamedTuple):
    """Images and their origin.

    Attributes:
        kind: in words.
        images: uint8 [height, width, channels] each.
    """

    kind: str
    images: Sequence[np.ndarray]

    def __str__(self) -> str:
        return f'{len(self.images)} {self.kind}'


def evaluation_images(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, count: int
) -> Sample:
    """Return images to run a file on: of the evaluation, else of the training, else noise."""
    for kind, readers in reversed(_readers(config)):
        found = _first(task, readers, count)
        if found:
            return Sample(kind, found)
    channels = task.image_format.channels
    images = [noise(number, _CELLS[number % len(_CELLS)], channels) for number in range(count)]
    return Sample('images of noise', images)


def noise(seed: int, cell: int, channels: int) -> np.ndarray:
    """Return an image of squares of random colors.

    Args:
        seed: of the colors.
        cell: side of the squares.
        channels: of the image.
    """
    count = _SIDE // cell
    # The numbers of `RandomState` are the same in all versions of NumPy; those of `default_rng` may
    # change.
    colors = np.random.RandomState(seed).randint(0, 256, [count, count, channels])
    return np.kron(colors, np.ones([cell, cell, 1], int)).astype(np.uint8)


def representative(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, count: int) -> Sample:
    """Return images to measure ranges of activations on: of the training, else the evaluation.

    Raises:
        errors.UserError: `count` is not positive, or there are no images.
    """
    if count < 1:
        raise errors.UserError(
            f'--representative_examples={count}: ranges are measured on images; expected 1 or '
            'more (100 are enough).'
        )
    for kind, readers in _readers(config):
        found = _first(task, readers, count)
        if found:
            return Sample(kind, found)
    raise errors.UserError(
        '--quantize=int8 measures the ranges of activations on images, and there are none: '
        'expected records at train_input_reader or eval_input_reader that can be read here '
        "(--set 'train_input_reader.tf_record_input_reader.input_path.0=FILE' names them)."
    )


def pixels(task: Task, deployable: Deployable, images: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Return the input of a file for each image: float32 [1, *input_shape], or whole images."""
    if deployable.takes_images:
        return [image[np.newaxis] for image in images]
    with tf.Graph().as_default(), tf1.Session() as session:
        channels = task.image_format.channels
        served = tf1.placeholder(task.image_format.dtype, [1, None, None, channels])
        features = task.serving_features(served)
        fetched = {'pixels': deployable.pixels(features)}
        sizes = deployable.content_sizes(features)
        if sizes is not None:
            fetched['sizes'] = sizes
        found = [session.run(fetched, {served: image[np.newaxis]}) for image in images]
    return [one for each in found for one in content(each['pixels'], each.get('sizes'))]


def _readers(
    config: pipeline_pb2.TrainEvalPipelineConfig,
) -> Sequence[Tuple[str, Sequence[Any]]]:
    return (
        ('images of the training', [config.train_input_reader]),
        ('images of the evaluation', config.eval_input_reader),
    )


def _first(task: Task, readers: Sequence[Any], count: int) -> Sequence[np.ndarray]:
    """Return images of the first records that decode, of the first reader that has any."""
    for reader in readers:
        try:
            files = tuple(input_files(reader))
        except errors.UserError:
            continue
        source = Source(0, files, sequences=create_sequences(task, reader))
        found = _decoded(task, source, count)
        if found:
            return found
    return []


def _decoded(task: Task, source: Source, count: int) -> Sequence[np.ndarray]:
    with tf.Graph().as_default(), tf1.Session() as session:
        # From all files and not their first records alone, which may all be of one class; the same
        # each time.
        records = record_streams.file_tensors(source.files).interleave(
            lambda *file: record_streams.read_file(source, file, True),
            cycle_length=min(len(source.files), _MOST_FILES),
        )
        records = records.shuffle(_SPREAD * count, seed=0, reshuffle_each_iteration=False)
        examples = records.map(lambda _, one: task.decode(one)[IMAGE])
        # A corrupt record must not stop an export.
        images = examples.ignore_errors().take(count)
        # Tables of label names are looked up: such an input has to be initialized.
        iterator = tf1.data.make_initializable_iterator(images)
        following = iterator.get_next()
        session.run([tf1.tables_initializer(), iterator.initializer])
        found = []
        try:
            while True:
                image = session.run(following)
                found.append(np.clip(np.round(image), 0, 255).astype(np.uint8))
        except tf.errors.OutOfRangeError:
            return [image for image in found if image.shape[-1] == task.image_format.channels]
