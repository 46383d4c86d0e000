"""`--mode=predict` on the frames of a video: in order, and in the memory of a few frames."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import os
from typing import Deque, Generator, Iterable, Iterator, Optional

import numpy as np

from estimator_lib import errors
from estimator_lib.commands import predict
from estimator_lib.export import exported_model, inference
from estimator_lib.task import Arrays, Description, Task

# Frames in memory beside those of a batch: they are described, or wait for earlier ones.
_MOST_WAITING = os.cpu_count() or 1


def predict_frames(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    frames: Iterable[np.ndarray],
    name: str,
    options: predict.Options,
) -> Generator[Description, None, None]:
    """Yield the description of each frame of a video, in order.

    Frames are read only when they are needed.

    Args:
        predictor: the model.
        task: describes and draws the outputs; None: the raw outputs are listed.
        frames: uint8 [height, width, 3], of equal size.
        name: of the video, for messages.
        options: the options; files are not written.

    Raises:
        errors.DataError: the model fails on a frame.
        errors.UserError: the options do not go with the task.
    """
    predict.refuse_unknown(task, options)
    plan = inference.Plan(options.batch_size, options.tiling)
    results = inference.run(predictor, task, _name_frames(frames, name), plan, _stop)
    described: Deque[concurrent.futures.Future] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(_MOST_WAITING) as pool:
        for image, pixels, outputs in results:
            described.append(pool.submit(_describe, task, options, image, pixels, outputs))
            # Waiting for the oldest keeps the order, and bounds the frames in memory.
            if len(described) > _MOST_WAITING:
                yield described.popleft().result()
        for future in described:
            yield future.result()


def _describe(
    task: Optional[Task],
    options: predict.Options,
    image: inference.Image,
    pixels: np.ndarray,
    outputs: Arrays,
) -> Description:
    try:
        return predict.describe(task, options, pixels, outputs)
    except MemoryError:
        raise inference.too_large(image) from None
    except errors.DataError as error:
        raise inference.named_problem(image, error) from error


def _name_frames(frames: Iterable[np.ndarray], name: str) -> Iterator[inference.Loaded]:
    """Yield the frames with names for messages."""
    for index, pixels in enumerate(frames):
        read = functools.partial(np.asarray, pixels)
        yield inference.Image(f'{name}, frame {index}', '', index, read), pixels


def _stop(problem: errors.DataError) -> None:
    raise problem
