"""Frames of video files, and video files of pictures, with OpenCV."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.drawing import visualization

ENDINGS = ('.mp4', '.m4v', '.mov', '.avi', '.mkv', '.webm', '.mpg', '.mpeg')

# The command that installs OpenCV; `setup.py` defines the extra.
_INSTALL = "pip install 'vision-model-fns[video]'"
_CODEC = 'mp4v'  # MPEG-4 Part 2: OpenCV's packages have encoders of it, and none of H.264
_USUAL_RATE = 25.0  # frames per second, where a file names none
_HIGHEST_RATE = 1000.0
# Some files tell their number of frames by an estimate; with fewer frames a file is truncated.
_LEAST_SHARE = 0.9


class Frame(NamedTuple):
    """Frame of a video.

    Attributes:
        seconds: from the start of the video.
        pixels: uint8 [height, width, 3], red, green and blue.
    """

    seconds: float
    pixels: np.ndarray


class VideoReader:
    """Frames of a video file, read one by one; a context manager.

    Args:
        path: of a file on this machine.
        applies_rotation: whether frames are rotated as the file says, which phones do.
        max_pixels: limit of the size of a frame; None: no limit.

    Attributes:
        rate: frames per second.
        count: number of frames as the file tells it; None: it does not.

    Raises:
        errors.UserError: OpenCV is not installed.
        errors.DataError: the file cannot be read as a video.
    """

    def __init__(self, path: str, applies_rotation: bool = True, max_pixels: Optional[int] = None):
        self._cv2 = _import_cv2()
        self._path = path
        self._max_pixels = max_pixels
        if not os.path.isfile(path):
            raise errors.DataError(f'{path}: there is no such file{errors.relative_to(path)}.')
        if not os.path.getsize(path):
            raise errors.DataError(f'{path}: the file is empty; expected a video.')
        self._capture = self._cv2.VideoCapture(path)
        if not self._capture.isOpened():
            self.close()
            raise errors.DataError(
                f'{path}: the video cannot be read: it is corrupt, or OpenCV does not know its '
                'format.'
            )
        self._capture.set(self._cv2.CAP_PROP_ORIENTATION_AUTO, float(applies_rotation))
        rate = self._capture.get(self._cv2.CAP_PROP_FPS)
        self.rate = rate if 0 < rate <= _HIGHEST_RATE else _USUAL_RATE
        count = self._capture.get(self._cv2.CAP_PROP_FRAME_COUNT)
        # FFmpeg's streams without a length give negative or huge numbers.
        self.count = int(count) if 0 < count < 2**53 else None

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._capture.release()

    def is_truncated(self, count: int) -> bool:
        """Return whether the file tells of many more frames than were read."""
        return self.count is not None and count < _LEAST_SHARE * self.count

    def __iter__(self) -> Iterator[Frame]:
        """Yield the frames, up to the end of the file or the first that cannot be decoded.

        Raises:
            errors.DataError: there are none, they are too large, or their sizes differ.
        """
        shape: Optional[Tuple[int, ...]] = None
        while True:
            is_read, pixels = self._capture.read()
            if not is_read:
                break
            if shape is None:
                shape = pixels.shape
                self._check_size(shape)
            if pixels.shape != shape:
                raise errors.DataError(f'{self._path}: the frames are of different sizes.')
            seconds = self._capture.get(self._cv2.CAP_PROP_POS_MSEC) / 1000
            # OpenCV has blue first. A reversed view would be copied by each of its users.
            yield Frame(seconds, np.ascontiguousarray(pixels[:, :, ::-1]))
        if shape is None:
            raise errors.DataError(f'{self._path}: no frame of the video can be decoded.')

    def _check_size(self, shape: Tuple[int, ...]) -> None:
        pixels = shape[0] * shape[1]
        if self._max_pixels is not None and pixels > self._max_pixels:
            raise errors.DataError(
                f'{self._path}: a frame has {pixels} pixels; expected at most {self._max_pixels} '
                '(max_image_pixels).'
            )


class VideoWriter:
    """Writer of pictures to an MP4 file, which gets its name when it is complete.

    A context manager. Without any picture there is no file.

    Args:
        path: of the file.
        rate: frames per second.

    Raises:
        errors.UserError: OpenCV is not installed.
    """

    def __init__(self, path: str, rate: float):
        self._cv2 = _import_cv2()
        self._path = path
        self._rate = rate
        self._partial = partial_path(path)
        self._writer: Any = None
        self._size: Tuple[int, ...] = ()
        self._count = 0

    def __enter__(self) -> VideoWriter:
        return self

    def write(self, picture: np.ndarray) -> None:
        """Append a picture, uint8 [height, width, 3]; the size of the first one is that of all.

        Raises:
            errors.UserError: the file cannot be written.
        """
        if self._writer is None:
            self._size = picture.shape[:2]
            self._writer = self._cv2.VideoWriter(
                self._partial,
                self._cv2.VideoWriter_fourcc(*_CODEC),
                self._rate,
                self._size[::-1],
            )
            if not self._writer.isOpened():
                raise self._error()
        if picture.shape[:2] != self._size:
            picture = visualization.resized(picture, *self._size)
        self._writer.write(np.ascontiguousarray(picture[:, :, ::-1]))
        self._count += 1

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        if self._writer is None:
            return
        self._writer.release()
        try:
            if error_type is None:
                self._check()
                os.replace(self._partial, self._path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._partial)

    def _check(self) -> None:
        """Check that all pictures are in the file: OpenCV does not tell of a full disk."""
        written = self._cv2.VideoCapture(self._partial)
        count = written.get(self._cv2.CAP_PROP_FRAME_COUNT)
        written.release()
        if count != self._count:
            raise self._error()

    def _error(self) -> errors.UserError:
        return errors.UserError(
            f'--output_dir: {self._path} cannot be written: the disk is full, the folder is '
            f'read-only, or OpenCV cannot encode {_CODEC}.'
        )


def partial_path(path: str) -> str:
    """Return the path of an incomplete file, the same in each run, so that none is left."""
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    return os.path.join(folder, f'.{stem}.partial{ending}')


def _import_cv2() -> Any:
    """Import OpenCV, which prints its own lines about files that cannot be read unless told not to.

    Raises:
        errors.UserError: it is not installed.
    """
    # Before the import, because OpenCV reads its level when it is loaded. -8 is FFmpeg's quiet one.
    os.environ.setdefault('OPENCV_LOG_LEVEL', 'SILENT')
    os.environ.setdefault('OPENCV_FFMPEG_LOGLEVEL', '-8')
    try:
        import cv2
    except ImportError:
        raise errors.UserError(
            f'--images: videos are read with OpenCV, which is not installed; expected: {_INSTALL}'
        ) from None
    return cv2
