"""Images to predict, from files, folders, lists and TFRecords.

The decoders of training read the pixels, so that a model sees what it was trained with. Images are
rotated as EXIF says; WebP and TIFF are read too.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
from typing import Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import message

from estimator_lib import errors, texts
from estimator_lib.data import image_decoding, records
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from estimator_lib.export.inference import Image
from estimator_lib.export.serving import ENCODED_IMAGE
from estimator_lib.processes import path_names
from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat
from model_fns.datasets import image_files
from model_fns.datasets.files import channel_folders, folder_files, videos

tf1 = tf.compat.v1

_LIST_ENDINGS = ('.txt', '.lst', '.list')
_SOURCE_ID = 'image/source_id'
_MOST_DIGITS = 18  # of an image's number, an int64

# The functions that undo each EXIF orientation of a stored image.
_TURNS = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image.swapaxes(0, 1)[:, ::-1],
    7: lambda image: image.swapaxes(0, 1)[::-1, ::-1],
    8: lambda image: image.swapaxes(0, 1)[::-1],
}


class File(NamedTuple):
    """An image file, or a TFRecord file of images.

    Attributes:
        path: of the file.
        stem: prefix of the file names of its pictures.
        number: of its first image.
        record_file: the TFRecord file; None: it is an image file.
    """

    path: str
    stem: str
    number: int
    record_file: Optional[records.RecordFile] = None

    def images(self, decode: Decoder) -> Iterator[Image]:
        """Yield the images of the file; records are read one by one.

        Args:
            decode: decodes them.
        """
        if self.record_file is None:
            read = functools.partial(decode.read, self.path)
            yield Image(texts.encodable(self.path), self.stem, self.number, read)
            return
        for index, record in enumerate(_read_records(self.record_file)):
            name, stem = f'{self.path}#{index:05d}', f'{self.stem}-{index:05d}'
            yield _record_image(record, name, stem, self.number + index, decode)


@dataclasses.dataclass(frozen=True)
class Images:
    """The images of `--images`.

    Attributes:
        paths: of image files.
        record_files: TFRecord files of images.
        decode: decodes them.
    """

    paths: Sequence[str]
    record_files: Sequence[records.RecordFile]
    decode: Decoder

    def count(self) -> int:
        """Count the images; in a corrupt TFRecord file, those before the corrupt record."""
        of_records = (len(records.list_frames(file)[0]) for file in self.record_files)
        return len(self.paths) + sum(of_records)

    def videos(self) -> Sequence[str]:
        """Return the paths of videos; empty: they are images.

        Raises:
            errors.UserError: there are both.
        """
        paths = [path for path in self.paths if path.lower().endswith(videos.ENDINGS)]
        if paths and (len(paths) < len(self.paths) or self.record_files):
            raise errors.UserError(
                f'--images: {paths[0]} is a video, and there are images too; expected one kind.'
            )
        return paths

    def refuse_overwriting(self, output_dir: str) -> None:
        """Refuse a folder where a picture would overwrite an image.

        Raises:
            errors.UserError: a picture has the path of an image.
        """
        taken = {os.path.realpath(path) for path in self.paths}
        for stem in unique_stems(self.paths):
            path = os.path.join(output_dir, f'{stem}.png')
            if os.path.realpath(path) in taken:
                raise errors.UserError(
                    f'--output_dir: the picture {path} would overwrite an image; expected another '
                    'folder.'
                )

    def __iter__(self) -> Iterator[Image]:
        """Yield the images, those of image files first; records are read one by one."""
        for file in self.files():
            yield from file.images(self.decode)

    def files(self) -> Iterator[File]:
        """Yield the files, with stems and numbers for their images."""
        stems = unique_stems(self.paths)
        for path, stem, number in zip(self.paths, stems, _numbers(self.paths)):
            yield File(path, stem, number)
        file_stems = unique_stems([file.path for file in self.record_files])
        number = len(self.paths) + 1
        for index, (file, stem) in enumerate(zip(self.record_files, file_stems), 1):
            yield File(file.path, stem, number, file)
            if index < len(self.record_files):
                number += len(records.list_frames(file)[0])


def find_images(
    pattern: str,
    apply_exif: bool = True,
    max_pixels: Optional[int] = None,
    image_format: ImageFormat = COLOR,
    channels: Sequence[str] = (),
) -> Images:
    """Find the images that `--images` names.

    Args:
        pattern: an image file, a glob of them, a folder (with the folders in it; files that do not
            end as images do are left out), a text file with a path in each line (relative ones are
            looked for beside the list), a TFRecord file or a glob of them (`image/encoded`). Videos
            in place of images are found too; in a folder only if it has no images.
        apply_exif: rotate images as their EXIF orientation says.
        max_pixels: limit of an image's size; None: no limit.
        image_format: of the model's images.
        channels: a folder of gray images for each channel beside the colors of image files.

    Raises:
        errors.DataError: there is no image, or no such folder.
        errors.UserError: the model takes another number of channels, or TFRecords have them.
    """
    if channels and len(channels) != image_format.additional:
        raise errors.UserError(
            f'{channel_folders.FLAG}: {len(channels)} folders; the model takes '
            f'{image_format.additional} channels beside the colors.'
        )
    channel_folders.check_folders(channels)
    paths, record_files = [], []
    for path in _matches(pattern):
        if path.lower().endswith(_LIST_ENDINGS) and not tf.io.gfile.isdir(path):
            paths += _listed(path)
        elif path.lower().endswith(image_files.ENDINGS) or not records.is_record_file(path):
            paths.append(path)
        else:
            record_files += records.find_files([path], '--images')
    if channels and record_files:
        raise errors.UserError(
            f'{channel_folders.FLAG}: {record_files[0].path} has the channels of its images; '
            'expected image files.'
        )
    decoder = Decoder(apply_exif, max_pixels, image_format, channels)
    return Images(list(dict.fromkeys(paths)), record_files, decoder)


class Decoder:
    """Decoder of image files; safe to use from several threads.

    Args:
        apply_exif: rotate images as their EXIF orientation says.
        max_pixels: limit of an image's size; None: no limit.
        image_format: of the model's images.
        channels: see `find_images`.
    """

    def __init__(
        self,
        apply_exif: bool = True,
        max_pixels: Optional[int] = None,
        image_format: ImageFormat = COLOR,
        channels: Sequence[str] = (),
    ):
        self._channel_folders = channel_folders.ChannelFolders(channels)
        self._apply_exif = apply_exif
        self._max_pixels = max_pixels
        self._format = image_format
        with tf.Graph().as_default() as graph:
            inputs = tf1.placeholder(tf.string, []), tf1.placeholder(tf.string, [None])
            image = image_decoding.decode_channels(image_format, *inputs)
            self._run = tf1.Session(graph=graph).make_callable(image, list(inputs))

    def read(self, path: str) -> np.ndarray:
        """Read and decode a file of an image, with those of its further channels.

        Returns:
            [height, width, channels].

        Raises:
            errors.DataError: as for `__call__`; or a file of a channel is not there, or another
                size.
        """
        encoded, name = folder_files.read_bytes(path), texts.encodable(path)
        further: Sequence[bytes] = ()
        if len(self._channel_folders):
            try:  # As the converter does, where channels have the size of the rotated image.
                file = image_files.prepare(encoded, self._apply_exif, self._max_pixels)
                further = self._channel_folders.read(path, file.header)
            except errors.DataError as error:
                raise errors.DataError(f'{name}: {error}') from None
            encoded = file.encoded
        return self(encoded, name, further)

    def __call__(self, encoded: bytes, name: str, further: Sequence[bytes] = ()) -> np.ndarray:
        """Decode an image: [height, width, channels], as training does.

        Args:
            encoded: the bytes of a file.
            name: of the image, for messages.
            further: files of the channels beside the colors.

        Raises:
            errors.DataError: it is not an image, corrupt, or too large.
        """
        if self._format.additional and len(further) != self._format.additional:
            raise errors.DataError(
                f'{name}: the image has {3 + len(further)} channels, and the model takes '
                f'{self._format.channels}; expected {channel_folders.FLAG} for each further '
                f'channel of files, or TFRecords with {ADDITIONAL_CHANNELS}.'
            )
        try:
            file = image_files.prepare(encoded, False, self._max_pixels)
            pixels = self._run(file.encoded, list(further[: self._format.additional]))
        except errors.DataError as error:
            raise errors.DataError(f'{name}: {error}') from None
        except tf.errors.OpError as error:
            if ADDITIONAL_CHANNELS in str(error):
                raise errors.DataError(f'{name}: {errors.first_line(error)}') from None
            problem = image_decoding.decoding_problem(file.encoded)
            raise errors.DataError(f'{name}: the image {problem}.') from None
        return np.ascontiguousarray(_TURNS[file.orientation if self._apply_exif else 1](pixels))


def unique_stems(paths: Sequence[str]) -> List[str]:
    """Return a unique stem for the files of each path: its name without the ending where possible.

    Equal stems keep their endings (`a.jpg`, `a.png`). Names that are equal with their endings get
    their folders as a prefix (`x-a.jpg`, `y-a.jpg`).
    """
    absolute = [os.path.abspath(texts.encodable(path)) for path in paths]
    root = os.path.commonpath([os.path.dirname(path) for path in absolute]) if paths else ''
    choices = []
    for path in absolute:
        name = os.path.basename(path)
        inner = os.path.relpath(path, root).replace(os.sep, '-')
        choices.append((os.path.splitext(name)[0], name, inner))
    counts = [collections.Counter(names) for names in zip(*choices)]
    stems, taken = [], set()
    for names in choices:
        stem = next((name for name, count in zip(names, counts) if count[name] == 1), names[-1])
        candidate, number = stem, 1
        while candidate in taken:
            number += 1
            candidate = f'{stem}-{number}'
        taken.add(candidate)
        stems.append(candidate)
    return stems


def _numbers(paths: Sequence[str]) -> List[int]:
    """Return the numbers of COCO's file names; numbers from 1 where a file has another name."""
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    if all(stem.isascii() and stem.isdigit() and len(stem) <= _MOST_DIGITS for stem in stems):
        numbers = [int(stem) for stem in stems]
        if len(set(numbers)) == len(numbers):
            return numbers
    return list(range(1, len(paths) + 1))


def _matches(pattern: str) -> List[str]:
    """Return the files of a pattern; a folder that a glob matches stays, to be reported later."""
    if tf.io.gfile.isdir(pattern):
        paths = [
            os.path.join(folder, name)
            for folder, names in folder_files.walk(pattern)
            for name in names
            if not name.startswith('.')
        ]
        found = [path for path in paths if folder_files.is_image(os.path.basename(path))]
        found = found or [path for path in paths if path.lower().endswith(videos.ENDINGS)]
        if not found:
            raise errors.DataError(
                f'--images: the folder {pattern} has no images; expected files that end in '
                f'{", ".join(image_files.ENDINGS)}.'
            )
        return sorted(found)
    if tf.io.gfile.exists(pattern):  # A file name may have the characters of a glob.
        return [pattern]
    found = path_names.match(pattern)
    if not found:
        raise errors.DataError(
            f'--images: no file matches {pattern!r}{errors.relative_to(pattern)}.'
        )
    return found


def _listed(path: str) -> List[str]:
    """Read the paths in a list file."""
    try:
        lines = [line.strip() for line in folder_files.read_text(path).splitlines()]
    except errors.DataError as error:
        raise errors.DataError(f'--images: {path} is not a list of paths: {error}') from None
    if any('\0' in line for line in lines):
        raise errors.DataError(f'--images: {path} is not a list of paths: it has a NUL.')
    if not any(lines):
        raise errors.DataError(f'--images: {path} is empty; expected a path in each line.')
    folder = os.path.dirname(path)
    return [
        line if folder_files.is_remote(line) else os.path.join(folder, line)
        for line in lines
        if line
    ]


def _read_records(file: records.RecordFile) -> Iterator[object]:
    """Yield the records of a file; at a corrupt record, yield the error and end."""
    options = tf1.io.TFRecordOptions(
        tf1.io.TFRecordCompressionType.GZIP
        if file.compression
        else tf1.io.TFRecordCompressionType.NONE
    )
    try:
        yield from tf1.io.tf_record_iterator(file.path, options)
    except tf.errors.OpError as error:
        yield error


def _record_image(record: object, name: str, stem: str, number: int, decode: Decoder) -> Image:
    """Return the image of a record; a numeric source id becomes its number."""
    try:
        if isinstance(record, tf.errors.OpError):
            raise errors.DataError(
                f'{name}: the record is corrupt, and the rest of its file is not read: '
                f'{errors.first_line(record)}'
            )
        feature = _parse_example(record, name).features.feature
        encoded = feature[ENCODED_IMAGE].bytes_list.value
        if not encoded:
            raise errors.DataError(f'{name}: the record has no {ENCODED_IMAGE}.')
    except errors.DataError as problem:
        return Image(name, stem, number, functools.partial(_fail, problem))
    (source_id,) = feature[_SOURCE_ID].bytes_list.value[:1] or (b'',)
    if source_id.isdigit() and len(source_id) <= _MOST_DIGITS:
        number = int(source_id)
    further = list(feature[ADDITIONAL_CHANNELS].bytes_list.value)
    return Image(name, stem, number, functools.partial(decode, encoded[0], name, further))


def _parse_example(record: bytes, name: str) -> tf.train.Example:
    try:
        return tf.train.Example.FromString(record)
    except message.DecodeError:
        raise errors.DataError(f'{name}: the record is not a tf.train.Example.') from None


def _fail(problem: errors.DataError) -> np.ndarray:
    raise problem
