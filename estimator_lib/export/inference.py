"""Runs of a model over images: batches of images of equal size, and tiles of large images."""

from __future__ import annotations

import itertools
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling, Window
from estimator_lib.export import exported_model
from estimator_lib.task import Arrays, Task

BATCH_SIZE = 8
_BATCH_PIXELS = 8_000_000  # of all images of a batch; larger images get smaller batches


class Image(NamedTuple):
    """Image for prediction.

    Attributes:
        name: the unique name of its entry in the predictions: the path of its file.
        stem: the unique start of the names of its picture and files.
        id: its number in COCO files.
        read: returns its pixels, uint8 [height, width, 3]; raises `errors.DataError` with its name
            if the image cannot be read.
    """

    name: str
    stem: str
    id: int
    read: Callable[[], np.ndarray]


Loaded = Tuple[Image, np.ndarray]
Report = Callable[[errors.DataError], None]
Result = Tuple[Image, np.ndarray, Arrays]


class Plan(NamedTuple):
    """Plan of a run.

    Attributes:
        batch_size: the largest number of images, of equal size, in a batch.
        tiling: the tiles that larger images are cut into; None: images are not cut.
        most_waiting: the number of images in partial batches, at most.
    """

    batch_size: int = BATCH_SIZE
    tiling: Optional[Tiling] = None
    most_waiting: int = BATCH_SIZE


def run(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    loaded: Iterable[Loaded],
    plan: Plan,
    report: Report,
) -> Iterator[Result]:
    """Yield each image with its pixels and outputs; images of one size come in their order.

    Args:
        predictor: the model.
        task: merges the outputs of tiles; needed with `plan.tiling`.
        loaded: images with their pixels.
        plan: of the run.
        report: gets the problem of each image that the model fails on.

    Raises:
        errors.UserError: outputs of the task for tiles cannot be put together.
    """
    if plan.tiling is None:
        return _run(predictor, _batches(loaded, predictor, plan), report)
    if task is None:
        raise errors.UserError(
            f'--tile: {predictor.path} has no pipeline.config, so how to put its outputs together '
            'is not known; --pipeline_config_path is needed.'
        )
    if plan.tiling.whole and not task.presentation.merges_whole_image:
        raise errors.UserError(
            f'--whole_image: {task.name} has a result for each pixel, which a tile gives; leave it '
            'out.'
        )
    return _run_in_tiles(predictor, task, loaded, plan, report)


def _batches(
    loaded: Iterable[Loaded], predictor: exported_model.Predictor, plan: Plan
) -> Iterator[List[Loaded]]:
    """Yield batches of images of equal size."""
    limit = min(plan.batch_size, predictor.max_batch_size or plan.batch_size)
    groups: Dict[Tuple[int, ...], List[Loaded]] = {}
    for image, pixels in loaded:
        group = groups.setdefault(pixels.shape, [])
        group.append((image, pixels))
        height, width = pixels.shape[:2]
        if len(group) >= min(limit, max(1, _BATCH_PIXELS // (height * width))):
            yield groups.pop(pixels.shape)
        # Where all sizes differ, no group gets full. The oldest one goes, so that memory stays
        # bounded.
        elif sum(map(len, groups.values())) > plan.most_waiting:
            yield groups.pop(next(iter(groups)))
    yield from groups.values()


def _run(
    predictor: exported_model.Predictor, batches: Iterable[List[Loaded]], report: Report
) -> Iterator[Result]:
    """Yield each image with its pixels and outputs; run a failed batch again image by image."""
    for batch in batches:
        try:
            outputs = predictor.predict(np.stack([pixels for _, pixels in batch]))
        except (tf.errors.OpError, MemoryError) as error:
            if len(batch) > 1:
                yield from _run(predictor, [[item] for item in batch], report)
            else:
                report(_problem(batch[0][0], error))
            continue
        for index, (image, pixels) in enumerate(batch):
            yield image, pixels, {name: value[index] for name, value in outputs.items()}


def _problem(image: Image, error: Exception) -> errors.DataError:
    if isinstance(error, MemoryError):
        return too_large(image)
    return errors.DataError(f'{image.name}: the model fails on it: {errors.failure_reason(error)}')


def named_problem(image: Image, problem: errors.DataError) -> errors.DataError:
    """Return a problem with the name of its image."""
    return errors.DataError(f'{image.name}: {problem}')


def too_large(image: Image) -> errors.DataError:
    """Return the problem of an image for which there is too little memory."""
    return errors.DataError(
        f'{image.name}: there is too little memory for it; expected a smaller image, or --tile.'
    )


def stop(problem: errors.DataError) -> None:
    """Raise a problem: without one of its tiles an image has no prediction, for example."""
    raise problem


def _run_in_tiles(
    predictor: exported_model.Predictor,
    task: Task,
    loaded: Iterable[Loaded],
    plan: Plan,
    report: Report,
) -> Iterator[Result]:
    """Yield each image with its pixels and the merged outputs of its tiles."""
    for image, pixels in loaded:
        height, width = pixels.shape[:2]
        windows = plan.tiling.windows(height, width)
        tiles = (
            (
                image._replace(name=f'{image.name}, tile at {window.top}, {window.left}'),
                pixels[
                    window.top : window.top + window.height,
                    window.left : window.left + window.width,
                ],
            )
            for window in windows
        )
        ran = _run(predictor, _batches(tiles, predictor, plan), stop)
        if plan.tiling.whole and len(windows) > 1:
            windows.append(Window(0, 0, height, width))
            ran = itertools.chain(ran, _run(predictor, [[(image, pixels)]], stop))
        # All tiles have one size, so `_batches` keeps their order: that of the windows.
        outputs = (output for _, _, output in ran)
        try:
            merged = task.presentation.merge_tiles(zip(windows, outputs), (height, width))
        except errors.DataError as problem:
            report(problem)
            continue
        except MemoryError:
            report(too_large(image))
            continue
        if merged is None:
            raise errors.UserError(
                f'--tile: outputs of {task.name} for tiles cannot be put together; leave it out.'
            )
        yield image, pixels, merged
