"""`--mode=predict`: batched inference on images, with threads that read and write files."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import logging
import os
from typing import (
    Any,
    Deque,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tqdm

from estimator_lib import errors
from estimator_lib.commands import annotation_files, prediction_files
from estimator_lib.drawing import visualization
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import exported_model, inference
from estimator_lib.export.inference import BATCH_SIZE, Image, Loaded, Report
from estimator_lib.processes import journals, path_names
from estimator_lib.task import AS_CONFIGURED, IMAGE, Arrays, Description, Region, Shown, Task

log = logging.getLogger('estimator_lib')

NO_PICTURES = 'none'
CROPS_FOLDER = 'crops'
JOURNAL_FILE = 'predictions.partial'

_THREADS = 2 * (os.cpu_count() or 1)  # more than cores, since they also wait for disks
_AHEAD = BATCH_SIZE + _THREADS  # images that are read before they are needed


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
        pictures: one of `visualization.FORMATS`, or `NO_PICTURES`.
        crops: whether each object is written as a picture of its own.
    """

    shown: Shown = AS_CONFIGURED
    worth_showing: Shown = AS_CONFIGURED
    output_format: str = 'json'
    raw: bool = False
    skips: bool = True
    batch_size: int = BATCH_SIZE
    tiling: Optional[Tiling] = None
    pictures: str = visualization.PNG
    crops: bool = False


def predict_images(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    images: Iterable[Image],
    output_dir: str,
    options: Options = Options(),
    count: Optional[int] = None,
    identity: Any = None,
) -> List[str]:
    """Run a model on images; write its predictions, and a picture of each image.

    What is done before a signal or an error is kept in `output_dir`: a later call with an equal
    identity continues.

    Args:
        predictor: the model.
        task: describes and draws the outputs; None: the raw outputs are written.
        images: the images; some are read ahead.
        output_dir: created if it does not exist.
        options: the options.
        count: the number of `images`, for the progress bar.
        identity: of the model and all options, in types of JSON; None: nothing is kept.

    Returns:
        A sentence about each image that was skipped.

    Raises:
        errors.DataError: no image can be read, or one cannot and `options.skips` is False.
        errors.UserError: `output_dir` cannot be written to, or the options do not go with the task.
    """
    prediction_files.PredictionFiles(output_dir, options.output_format)  # the folder can be made
    is_kept = identity is not None and '://' not in output_dir
    path = os.path.join(output_dir, JOURNAL_FILE) if is_kept else None
    with journals.Journal(path, identity) as journal:
        files = prediction_files.PredictionFiles(output_dir, options.output_format, journal=journal)
        done = {entry.name for entry in files.entries}
        if done:
            log.info('%d images are done: the rest follows', len(done))
        rest = (image for image in images if image.name not in done)
        left = None if count is None else count - len(done)
        skipped = predict_into(files, predictor, task, rest, options, left)
        refuse_nothing(len(files.entries), skipped)
        files.write()
    if task is not None and not files.found_any:
        nothing = task.presentation.nothing_found(options.shown, options.worth_showing)
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
        predictor: the model.
        task: describes and draws the outputs; None: the raw outputs are written.
        images: the images; some are read ahead.
        options: batch size, limits on the outputs, and what is written.
        count: the number of `images`, for the progress bar; None: not known.
        shows_progress: whether to show a progress bar.

    Returns:
        A sentence about each image that was skipped.

    Raises:
        errors.DataError: an image cannot be read or predicted, and `options.skips` is False.
    """
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
        plan = inference.Plan(options.batch_size, options.tiling, _AHEAD)
        results = inference.run(predictor, task, loaded, plan, report)
        describe = _Describer(task, options, files, report)
        written: Deque[concurrent.futures.Future] = collections.deque()
        try:
            for image, pixels, outputs in results:
                written.append(pool.submit(describe, image, pixels, outputs))
                # Waiting for the oldest bounds the pictures in memory, and raises its error here.
                while len(written) > ahead:
                    written.popleft().result()
            for future in written:
                future.result()
        except BaseException:
            # Else the executor would finish all that waits before the error, or the signal, goes
            # on.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return skipped


def refuse_nothing(count: int, skipped: Sequence[str], kind: str = 'images') -> None:
    """Check that some image could be read.

    Raises:
        errors.DataError: `count` is 0.
    """
    if not count:
        shown = errors.shortened(skipped, 3)
        raise errors.DataError(f'--images: none of the {kind} can be read: {shown}')


def refuse_unknown(task: Optional[Task], options: Options) -> None:
    """Check that there is a task where the options need one.

    Raises:
        errors.UserError: there is no task, and the options choose outputs, crops or another format
            than json.
    """
    asked = {
        f'for --output_format={options.output_format}': options.output_format != 'json',
        'for --crops': options.crops,
        'to choose among them': options.shown != AS_CONFIGURED,
    }
    if task is None and any(asked.values()):
        purposes = ' and '.join(purpose for purpose, is_asked in asked.items() if is_asked)
        raise errors.UserError(
            'the model has no pipeline.config, so what its outputs mean is not known: '
            f'{purposes} --pipeline_config_path is needed.'
        )


def describe(
    task: Optional[Task], options: Options, pixels: np.ndarray, outputs: Arrays
) -> Description:
    """Describe the outputs of an image, with the raw outputs where the options ask for them.

    Args:
        task: describes them; None: they are only listed.
        options: limits on what is shown.
        pixels: of the image, uint8 [height, width, 3].
        outputs: of the model.

    Raises:
        errors.DataError: the outputs of this image cannot be described or drawn.
        errors.UserError: the model lacks an output of the task.
    """
    if task is None:
        return Description(outputs)
    worth_showing = options.shown.or_else(options.worth_showing)
    try:
        described = task.presentation.describe({IMAGE: pixels}, outputs, worth_showing)
    except KeyError as error:
        if error.args[0] in outputs:
            raise
        raise errors.UserError(
            f'the model has no output {error.args[0]!r}, which {task.name} of the config has; it '
            f'has: {", ".join(sorted(outputs))}. Expected the pipeline.config of the model.'
        ) from error
    except (errors.UserError, MemoryError):
        raise
    except Exception as error:  # a picture is never worth the predictions of the other images
        reason = f'{type(error).__name__}: {errors.first_line(error)}'
        raise errors.DataError(f'its outputs cannot be described: {reason}') from error
    raw = {'raw': outputs} if options.raw else {}
    return described._replace(values={**described.values, **raw})


class _Describer:
    """Function that describes the outputs of an image, and writes its picture and files."""

    def __init__(
        self,
        task: Optional[Task],
        options: Options,
        files: prediction_files.PredictionFiles,
        report: Report,
    ):
        refuse_unknown(task, options)
        self._task = task
        self._options = options
        self._files = files
        self._report = report
        self._class_names = [] if task is None else task.presentation.class_names
        files.write_shared(self._class_names)

    def __call__(self, image: Image, pixels: np.ndarray, outputs: Arrays) -> None:
        try:
            self._write(image, pixels, outputs)
        except MemoryError:
            self._report(inference.too_large(image))

    def _write(self, image: Image, pixels: np.ndarray, outputs: Arrays) -> None:
        entry = prediction_files.Entry(image.name, image.id, pixels.shape[:2])
        try:
            described = describe(self._task, self._options, pixels, outputs)
        except errors.DataError as error:
            self._report(inference.named_problem(image, error))
            return
        entry = entry._replace(values=described.values, rows=described.rows)
        if self._task is None:
            self._files.add(entry._replace(picture=self._write_picture(image, described.picture)))
            return
        features = {IMAGE: pixels}
        results: Sequence[Mapping[str, Any]] = ()
        lines: Mapping[str, Sequence[str]] = {}
        if self._options.output_format == 'coco':
            results = self._coco_results(features, outputs)
        elif self._options.output_format == prediction_files.SUBMISSION:
            lines = self._submission_lines(image, features, outputs)
        elif self._options.output_format in annotation_files.FORMATS:
            flag = f'--output_format={self._options.output_format}'
            regions = self._regions(features, outputs, flag)
            self._files.write_annotations(entry, image.stem, regions, self._class_names)
        if self._options.crops:
            self._write_crops(image, pixels, self._regions(features, outputs, '--crops'))
        for suffix, content in described.files.items():
            self._files.write_file(image.stem + suffix, content)
        picture = self._write_picture(image, described.picture)
        self._files.add(entry._replace(results=results, lines=lines, picture=picture))

    def _write_picture(self, image: Image, picture: Optional[np.ndarray]) -> Optional[str]:
        """Write a picture; return the path of it, or else of the image."""
        kind = self._options.pictures
        if picture is None or kind == NO_PICTURES:
            return self._files.relative_path(image.name)
        name = image.stem + visualization.ENDINGS[kind]
        self._files.write_file(name, visualization.encode(picture, kind))
        return name

    def _write_crops(self, image: Image, pixels: np.ndarray, regions: Sequence[Region]) -> None:
        """Write the part of the image in the box of each region, in a folder for each class."""
        size = np.array(pixels.shape[:2])
        kind = self._options.pictures
        kind = visualization.JPEG if kind == NO_PICTURES else kind
        for number, region in enumerate(regions):
            top, left = np.clip(np.floor(region.box[:2]).astype(int), 0, size)
            bottom, right = np.clip(np.ceil(region.box[2:]).astype(int), 0, size)
            crop = visualization.displayable(pixels[top:bottom, left:right])
            if not crop.size:
                continue
            folder = path_names.as_file_name(self._class_names[region.class_index])
            name = f'{image.stem}_{number}{visualization.ENDINGS[kind]}'
            self._files.write_file(
                os.path.join(CROPS_FOLDER, folder, name), visualization.encode(crop, kind)
            )

    def _coco_results(self, features: Arrays, outputs: Arrays) -> Sequence[Mapping[str, Any]]:
        results = self._task.presentation.coco_results(features, outputs, self._options.shown)
        if results is None:
            raise errors.UserError(
                f'--output_format=coco: COCO has no results of {self._task.name}; expected '
                'json or csv.'
            )
        return results

    def _regions(self, features: Arrays, outputs: Arrays, flag: str) -> Sequence[Region]:
        worth_showing = self._options.shown.or_else(self._options.worth_showing)
        regions = self._task.presentation.regions(features, outputs, worth_showing)
        if regions is None:
            raise errors.UserError(
                f'{flag}: it has objects in images, and {self._task.name} finds none; expected '
                'json or csv, and no crops.'
            )
        return regions

    def _submission_lines(
        self, image: Image, features: Arrays, outputs: Arrays
    ) -> Mapping[str, Sequence[str]]:
        stem = os.path.splitext(os.path.basename(image.name))[0]
        lines = self._task.presentation.submission_lines(
            stem, features, outputs, self._options.shown
        )
        if lines is None:
            raise errors.UserError(
                f'--output_format={prediction_files.SUBMISSION}: {self._task.name} has none with '
                'this model; expected json, csv or coco.'
            )
        return lines


def _bar(count: Optional[int], is_shown: bool) -> tqdm.tqdm:
    return tqdm.tqdm(total=count, unit='image', disable=None if is_shown else True)


def _read_ahead(
    pool: concurrent.futures.Executor,
    images: Iterable[Image],
    bar: tqdm.tqdm,
    report: Report,
    ahead: int,
) -> Iterator[Loaded]:
    """Yield the readable images in order, while threads read the next ones."""
    waiting: Deque[Tuple[Image, concurrent.futures.Future]] = collections.deque()

    def finish_first() -> Iterator[Loaded]:
        image, reading = waiting.popleft()
        try:
            yield image, reading.result()
        except errors.DataError as problem:
            report(problem)
        except MemoryError:
            report(inference.too_large(image))
        bar.update()

    for image in images:
        waiting.append((image, pool.submit(image.read)))
        if len(waiting) > ahead:
            yield from finish_first()
    while waiting:
        yield from finish_first()
