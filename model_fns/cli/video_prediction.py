"""`--mode=predict` on videos: an annotated video, and a file with a line of JSON for each frame."""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
from typing import Deque, Iterator, List, Optional, Sequence, TextIO

import numpy as np
import tqdm

from estimator_lib import errors
from estimator_lib.commands import frames, predict, prediction_files
from estimator_lib.export import exported_model
from estimator_lib.task import Task
from model_fns.datasets import image_sources
from model_fns.datasets.files import folder_files, videos

log = logging.getLogger('estimator_lib')


def predict_videos(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    paths: Sequence[str],
    output_dir: str,
    options: predict.Options,
    applies_rotation: bool = True,
    max_pixels: Optional[int] = None,
) -> List[str]:
    """Run a model on videos, one after the other.

    Each video becomes `<stem>.mp4`, its frames as `--mode=predict` draws images, and
    `<stem>.jsonl`, a line for each frame. Both appear when they are complete.

    Args:
        predictor: the model.
        task: describes and draws the outputs; None: raw outputs and no annotated video.
        paths: of the videos.
        output_dir: created if it does not exist.
        options: the options.
        applies_rotation: whether frames are rotated as the file says, which phones do.
        max_pixels: limit of the size of a frame; None: no limit.

    Returns:
        A sentence about each video that was skipped.

    Raises:
        errors.DataError: no video can be read, or one cannot and `options.skips` is False.
        errors.UserError: `output_dir` cannot be written to, a file would overwrite a video, OpenCV
            is not installed, or the options do not go with the task or with videos.
    """
    _refuse_unusable(paths, output_dir, options)
    prediction_files.PredictionFiles(output_dir)  # the folder can be made
    skipped: List[str] = []
    found_any = False
    for path, stem in zip(paths, image_sources.unique_stems(paths)):
        prefix = os.path.join(output_dir, stem)
        try:
            with videos.VideoReader(path, applies_rotation, max_pixels) as video:
                found_any |= _predict_video(predictor, task, path, video, prefix, options)
        except errors.DataError as problem:
            if not options.skips:
                raise
            skipped.append(str(problem))
    predict.refuse_nothing(len(paths) - len(skipped), skipped, 'videos')
    if task is not None and not found_any:
        nothing = task.presentation.nothing_found(options.shown, options.worth_showing)
        if nothing:
            log.warning('%s', nothing)
    return skipped


def _refuse_unusable(paths: Sequence[str], output_dir: str, options: predict.Options) -> None:
    if options.output_format != 'json':
        raise errors.UserError(
            f'--output_format={options.output_format}: videos have a line of JSON for each frame; '
            'expected json.'
        )
    if options.crops:
        raise errors.UserError(
            f'--crops: {paths[0]} is a video, and crops are of images; leave it out.'
        )
    for place in (*paths, output_dir):
        if folder_files.is_remote(place):
            raise errors.UserError(
                f'{place}: OpenCV reads and writes files of this machine; expected local paths '
                'with videos.'
            )
    taken = {os.path.realpath(path) for path in paths}
    for stem in image_sources.unique_stems(paths):
        path = os.path.join(output_dir, f'{stem}.mp4')
        if os.path.realpath(path) in taken:
            raise errors.UserError(
                f'--output_dir: {path} would overwrite a video; expected another folder.'
            )


def _predict_video(
    predictor: exported_model.Predictor,
    task: Optional[Task],
    path: str,
    video: videos.VideoReader,
    prefix: str,
    options: predict.Options,
) -> bool:
    """Write the files of a video; return whether anything was found in it."""
    seconds: Deque[float] = collections.deque()  # of the frames that are in memory

    def pixels() -> Iterator[np.ndarray]:
        for frame in video:
            seconds.append(frame.seconds)
            yield frame.pixels

    index, found_any = -1, False
    described = frames.predict_frames(predictor, task, pixels(), path, options)
    with contextlib.ExitStack() as stack:
        # Closed last to first: the threads end before the files get their names.
        lines = stack.enter_context(_open_lines(f'{prefix}.jsonl'))
        pictures = None
        if options.pictures != predict.NO_PICTURES:
            pictures = stack.enter_context(videos.VideoWriter(f'{prefix}.mp4', video.rate))
        name = os.path.basename(path)
        bar = tqdm.tqdm(total=video.count, unit='frame', desc=name, disable=None)
        stack.enter_context(bar)
        stack.callback(described.close)
        for index, frame in enumerate(described):
            values = prediction_files.to_json(frame.values)
            line = {'frame': index, 'time': round(seconds.popleft(), 3), **values}
            lines.write(json.dumps(line, ensure_ascii=False) + '\n')
            if pictures is not None and frame.picture is not None:
                pictures.write(frame.picture)
            found_any |= bool(frame.rows)
            bar.update()
    if video.is_truncated(index + 1):
        log.warning('%s: %d of %d frames can be read', path, index + 1, video.count)
    return found_any


@contextlib.contextmanager
def _open_lines(path: str) -> Iterator[TextIO]:
    """Open a text file that gets its name when it is complete.

    Raises:
        errors.UserError: it cannot be written.
    """
    partial = videos.partial_path(path)
    try:
        with open(partial, 'w', encoding='utf-8') as file:
            yield file
        os.replace(partial, path)
    except OSError as error:
        raise errors.UserError(f'--output_dir: {path}: {error.strerror}.') from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
