"""`--mode=predict`: batched inference on images, with threads that read and write files."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import logging
import os
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow as tf
import tqdm

from estimator_lib import errors
from estimator_lib.commands import annotation_files, prediction_files
from estimator_lib.drawing import visualization
from estimator_lib.drawing.tiling import Tiling, Window
from estimator_lib.export import exported_model
from estimator_lib.task import AS_CONFIGURED, IMAGE, Arrays, Region, Shown, Task

log = logging.getLogger('estimator_lib')

BATCH_SIZE = 8
_BATCH_PIXELS = 8_000_000  # of all images of a batch; larger images get smaller batches
_THREADS = 2 * (os.cpu_count() or 1)  # more than cores, since they also wait for disks
_AHEAD = BATCH_SIZE + _THREADS  # images that are read before they are needed


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


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of prediction and of its output files.

    Attributes:
        shown: the user's limits on the results.
        worth_showing: the limits where `shown` has none. They do not apply to COCO results, which
            need all scores.
        output_format: one of `prediction_files.FORMATS`.
        raw: also write the raw outputs of the model.
        skips: report a bad image and continue; False: stop at it.
        batch_size: the largest number of images, of equal size, in a batch.
        tiling: the tiles that larger images are cut into; None: images are not cut.
    """

    shown: Shown = AS_CONFIGURED
    worth_showing: Shown = AS_CONFIGURED
    output_format: str = 'json'
    raw: bool = False
    skips: bool = True
    batch_size: int = BATCH_SIZE
    tiling: Optional[Tiling] = None


def predict_images(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    images: Iterable[Image],
    output_dir: str,
    options: Options = Options(),
    count: Optional[int] = None,
) -> List[str]:
    """Run a model on images; write its predictions, and a picture of each image.

    Args:
        predictor: the model.
        task: describes and draws the outputs; None: the raw outputs are written.
        images: the images; some are read ahead.
        output_dir: created if it does not exist.
        options: the options.
        count: the number of `images`, for the progress bar.

    Returns:
        A sentence about each image that was skipped.

    Raises:
        errors.DataError: no image can be read, or one cannot and `options.skips` is False.
        errors.UserError: `output_dir` cannot be written to, or the options do not go with the task.
    """
    files = prediction_files.PredictionFiles(output_dir, options.output_format)
    skipped = predict_into(files, predictor, task, images, options, count)
    refuse_nothing(len(files.entries), skipped)
    files.write()
    if task is not None and not files.found_any:
        nothing = task.nothing_found(options.shown, options.worth_showing)
        if nothing:
            log.warning('%s', nothing)
    return skipped


def predict_into(
    files: prediction_files.PredictionFiles,
    predictor: exported_model.Predictor,
    task: Optional[Task],
    images: Iterable[Image],
    options: Options,
    count: Optional[int] = None,
    shows_progress: bool = True,
) -> List[str]:
    """Run a model on images; collect its predictions, and write the files of single images.

    Args:
        files: collects the predictions.
        predictor: see `predict_images`.
        task: see `predict_images`.
        images: see `predict_images`.
        options: see `predict_images`.
        count: see `predict_images`.
        shows_progress: whether to show a progress bar.

    Returns:
        A sentence about each image that was skipped.
    """
    if options.tiling is not None and task is None:
        raise errors.UserError(
            '--tile: the model has no pipeline.config, so how to put its outputs of tiles together '
            'is not known; --pipeline_config_path is needed.'
        )
    skipped: List[str] = []

    def report(problem: errors.DataError) -> None:
        if not options.skips:
            raise problem
        skipped.append(str(problem))

    bar_of_images = _bar(count, shows_progress)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool, bar_of_images as bar:
        # Images that are cut into tiles are large, so only one is read ahead.
        ahead = _AHEAD if options.tiling is None else 1
        loaded = _read_ahead(pool, images, bar, report, ahead)
        if options.tiling is None:
            results = _run(predictor, _batches(loaded, predictor, options.batch_size), report)
        else:
            results = _run_in_tiles(predictor, task, loaded, options, report)
        describe = _Describer(task, options, files)
        written: Deque[concurrent.futures.Future] = collections.deque()
        try:
            for image, pixels, outputs in results:
                written.append(pool.submit(describe, image, pixels, outputs))
                while len(written) > ahead:
                    written.popleft().result()
            for future in written:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return skipped


def refuse_nothing(count: int, skipped: Sequence[str]) -> None:
    """Raise `errors.DataError` if no image could be read."""
    if not count:
        shown = errors.shortened(skipped, 3)
        raise errors.DataError(f'--images: none of the images can be read: {shown}')


class _Describer:
    """Function that describes the outputs of an image, and writes its picture and files."""

    def __init__(
        self, task: Optional[Task], options: Options, files: prediction_files.PredictionFiles
    ):
        if task is None and (options.output_format != 'json' or options.shown != AS_CONFIGURED):
            raise errors.UserError(
                'the model has no pipeline.config, so what its outputs mean is not known: to '
                'choose among them, and for other formats than json, --pipeline_config_path is '
                'needed.'
            )
        self._task = task
        self._options = options
        self._files = files
        self._class_names = [] if task is None else task.class_names()
        files.write_shared(self._class_names)

    def __call__(self, image: Image, pixels: np.ndarray, outputs: Arrays) -> None:
        entry = prediction_files.Entry(image.name, image.id, pixels.shape[:2])
        if self._task is None:
            self._files.add(entry._replace(values=outputs))
            return
        shown, features = self._options.shown, {IMAGE: pixels}
        worth_showing = shown.or_else(self._options.worth_showing)
        described = self._task.describe(features, outputs, worth_showing)
        values = dict(described.values)
        if self._options.raw:
            values['raw'] = outputs
        results: Sequence[Mapping[str, Any]] = ()
        lines: Mapping[str, Sequence[str]] = {}
        if self._options.output_format == 'coco':
            results = self._coco_results(features, outputs)
        elif self._options.output_format == prediction_files.SUBMISSION:
            lines = self._submission_lines(image, features, outputs)
        elif self._options.output_format in annotation_files.FORMATS:
            regions = self._regions(features, outputs, worth_showing)
            self._files.write_annotations(entry, image.stem, regions, self._class_names)
        contents = dict(described.files)
        if described.picture is not None:
            contents['.png'] = visualization.encode_png(described.picture)
        for suffix, content in contents.items():
            self._files.write_file(image.stem + suffix, content)
        self._files.add(
            entry._replace(values=values, rows=described.rows, results=results, lines=lines)
        )

    def _coco_results(self, features: Arrays, outputs: Arrays) -> Sequence[Mapping[str, Any]]:
        results = self._task.coco_results(features, outputs, self._options.shown)
        if results is None:
            raise errors.UserError(
                f'--output_format=coco: COCO has no results of {self._task.name}; expected '
                'json or csv.'
            )
        return results

    def _regions(self, features: Arrays, outputs: Arrays, shown: Shown) -> Sequence[Region]:
        regions = self._task.regions(features, outputs, shown)
        if regions is None:
            raise errors.UserError(
                f'--output_format={self._options.output_format}: it has objects in images, and '
                f'{self._task.name} finds none; expected json or csv.'
            )
        return regions

    def _submission_lines(
        self, image: Image, features: Arrays, outputs: Arrays
    ) -> Mapping[str, Sequence[str]]:
        stem = os.path.splitext(os.path.basename(image.name))[0]
        lines = self._task.submission_lines(stem, features, outputs, self._options.shown)
        if lines is None:
            raise errors.UserError(
                f'--output_format={prediction_files.SUBMISSION}: {self._task.name} has none with '
                'this model; expected json, csv or coco.'
            )
        return lines


_Loaded = Tuple[Image, np.ndarray]
_Report = Callable[[errors.DataError], None]


def _bar(count: Optional[int], is_shown: bool) -> tqdm.tqdm:
    return tqdm.tqdm(total=count, unit='image', disable=None if is_shown else True)


def _read_ahead(
    pool: concurrent.futures.Executor,
    images: Iterable[Image],
    bar: tqdm.tqdm,
    report: _Report,
    ahead: int,
) -> Iterator[_Loaded]:
    """Yield the readable images in order, while threads read the next ones."""
    waiting: Deque[Tuple[Image, concurrent.futures.Future]] = collections.deque()

    def finish_first() -> Iterator[_Loaded]:
        image, reading = waiting.popleft()
        try:
            yield image, reading.result()
        except errors.DataError as problem:
            report(problem)
        bar.update()

    for image in images:
        waiting.append((image, pool.submit(image.read)))
        if len(waiting) > ahead:
            yield from finish_first()
    while waiting:
        yield from finish_first()


def _batches(
    loaded: Iterable[_Loaded], predictor: exported_model.Predictor, batch_size: int
) -> Iterator[List[_Loaded]]:
    """Yield batches of images of equal size; a partial batch waits at most for `_AHEAD` images."""
    limit = min(batch_size, predictor.max_batch_size or batch_size)
    groups: Dict[Tuple[int, ...], List[_Loaded]] = {}
    for image, pixels in loaded:
        group = groups.setdefault(pixels.shape, [])
        group.append((image, pixels))
        height, width = pixels.shape[:2]
        if len(group) >= min(limit, max(1, _BATCH_PIXELS // (height * width))):
            yield groups.pop(pixels.shape)
        elif sum(map(len, groups.values())) > _AHEAD:
            yield groups.pop(next(iter(groups)))
    yield from groups.values()


def _run(
    predictor: exported_model.Predictor, batches: Iterable[List[_Loaded]], report: _Report
) -> Iterator[Tuple[Image, np.ndarray, Dict[str, Any]]]:
    """Yield each image with its pixels and outputs; run a failed batch again image by image."""
    for batch in batches:
        try:
            outputs = predictor.predict(np.stack([pixels for _, pixels in batch]))
        except tf.errors.OpError as error:
            if len(batch) > 1:
                yield from _run(predictor, [[item] for item in batch], report)
            else:
                reason = errors.first_line(error)
                report(errors.DataError(f'{batch[0][0].name}: the model fails on it: {reason}'))
            continue
        for index, (image, pixels) in enumerate(batch):
            yield image, pixels, {name: value[index] for name, value in outputs.items()}


def _stop(problem: errors.DataError) -> None:
    """Raise the problem of a tile: without one of its tiles an image has no prediction."""
    raise problem


def _run_in_tiles(
    predictor: exported_model.Predictor,
    task: Task,
    loaded: Iterable[_Loaded],
    options: Options,
    report: _Report,
) -> Iterator[Tuple[Image, np.ndarray, Arrays]]:
    """Yield each image with its pixels and the merged outputs of its tiles."""
    for image, pixels in loaded:
        height, width = pixels.shape[:2]
        windows = options.tiling.windows(height, width)
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
        ran = _run(predictor, _batches(tiles, predictor, options.batch_size), _stop)
        if options.tiling.whole and len(windows) > 1:
            windows.append(Window(0, 0, height, width))
            ran = itertools.chain(ran, _run(predictor, [[(image, pixels)]], _stop))
        # All tiles have one size, so `_batches` keeps their order: that of the windows.
        outputs = (output for _, _, output in ran)
        try:
            merged = task.merge_tiles(zip(windows, outputs), pixels.shape[:2])
        except errors.DataError as problem:
            report(problem)
            continue
        if merged is None:
            raise errors.UserError(
                f'--tile: outputs of {task.name} for tiles cannot be put together; leave it out.'
            )
        yield image, pixels, merged
