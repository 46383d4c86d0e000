"""Readers of data sets in their own formats: examples as the converter writes them, in memory."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.data.file_examples import FileExamples, UnusableFileError
from model_fns.datasets import conversion, examination, sources
from model_fns.datasets.convert import command
from model_fns.datasets.files import channel_folders, folder_files
from model_fns.datasets.formats.reader_fields import FORMATS
from model_fns.datasets.sources import Item, Problem, Source
from model_fns.datasets.tiled import items as items_of_tiles
from model_fns.structures.label_map import LabelMap, LabelMapItem
from protos import input_reader_pb2, pipeline_pb2, reader_paths

log = logging.getLogger('model_fns')

# What messages call a flag of the converter, where the field has another name.
_FIELDS = {
    '--images': 'image_path',
    '--annotations': 'annotation_path',
    '--names': 'names_path',
    '--list': 'options.list_path',
    '--split': 'options.split',
    '--group': 'options.group',
    '--seed': 'options.seed',
    '--bits': 'options.bits',
    '--keep_bits': 'image_bits',
    channel_folders.FLAG: 'options.additional_channel_path',
    '--label_map': 'label_map_path',
    '--ignore_class': 'options.ignore_class',
    '--exif=ignore': 'options.ignore_exif: true',
    '--exif=apply': 'options.ignore_exif: false',
    '--boxes=rotated': 'rotated_boxes: true',
    '--from=panoptic': 'panoptic_input_reader',
    '--tile': 'tiles.size',
    '--overlap': 'tiles.overlap',
    '--min_area_inside': 'tiles.min_area_inside',
}
# Fields with the names of their flags.
_SAME_NAMES = (
    'mask_values',
    'mask_colors',
    'ignore_label',
    'image_suffix',
    'annotation_suffix',
    'class_name',
)
_PATHS = tuple(
    f'{flag}='
    for flag in (
        '--images',
        '--annotations',
        '--list',
        '--names',
        '--label_map',
        channel_folders.FLAG,
    )
)
# Not within a path, which may have two hyphens too.
_FLAG = re.compile(r'(?<![\w/.-])(?:argument )?(--[a-z_]+(?:=[a-z]+\b)?)')
_HELP = ' (--help lists the flags)'
_MOST_LISTINGS = 64  # that a process keeps
_USUAL_BITS = 8
_MOST_NAMED = 20  # images that lost objects, in the log
_THREADS = 16  # that ask for the sizes of files


class _Listing(NamedTuple):
    """The images of a data set.

    Attributes:
        name: of the data set in messages.
        source: of the items.
        items: in the order of the converter's records.
        converter: of the items.
        classes: the label map.
        problems: those of the data set that belong to no single item.
        contents: names and sizes of the files.
    """

    name: str
    source: Source
    items: Sequence[Item]
    converter: conversion.Converter
    classes: LabelMap
    problems: Sequence[Problem]
    contents: Sequence[Tuple[str, int]]


class ConvertedFiles(FileExamples):
    """Examples of the files of a data set.

    Args:
        listing: the data set.
        is_strict: an object that is not usable makes its image not usable; else the example is made
            without it.
    """

    def __init__(self, listing: _Listing, is_strict: bool):
        self.path = listing.name
        self._listing = listing
        self._is_strict = is_strict
        self._left_out: Dict[int, UnusableFileError] = {}

    def __len__(self) -> int:
        return len(self._listing.items)

    def read(self, index: int) -> bytes:
        """Convert the files of an example.

        Raises:
            UnusableFileError: the files give no record, or one with problems and the reader is
                strict.
        """
        item = self._listing.items[index]
        outcome = self._listing.converter.convert(item)
        if outcome.problems:
            problem = conversion.list_problems(outcome, item)[0]
            rest = len(outcome.problems) - 1
            more = f', and {rest} more in this image' if rest else ''
            error = UnusableFileError(problem.place, _with_fields(problem.text).rstrip('.') + more)
            if outcome.record is None or self._is_strict:
                raise error
            self._leave_out(index, error)
        return outcome.record

    def _leave_out(self, index: int, error: UnusableFileError) -> None:
        """Remember an image that lost objects, and log the first ones once each."""
        if index in self._left_out:
            return
        self._left_out[index] = error
        count = len(self._left_out)
        if count <= _MOST_NAMED:
            log.warning('left out of its image: %s', str(error).rstrip('.'))
        if count == _MOST_NAMED:
            log.warning('further objects are left out without a message; --mode=check counts them')

    def left_out(self, index: int) -> Optional[UnusableFileError]:
        """Return the first problem of the objects that an image lost."""
        return self._left_out.get(index)

    def place(self, index: int) -> str:
        """Return the path of an image."""
        return self._listing.items[index].path

    def contents(self) -> Sequence[Tuple[str, int]]:
        """Return names and sizes of images and annotations."""
        return self._listing.contents


def open_files(reader: input_reader_pb2.InputReader, index: int) -> ConvertedFiles:
    """Open a data set in another format than TFRecord, see `file_examples.OPENERS`.

    Args:
        reader: has one of `FORMATS`.
        index: of its `image_path`.

    Raises:
        errors.UserError: there is no such data set, or it has problems that belong to no image
            and the reader does not skip them; the message lists them.
    """
    if not reader.label_map_path:
        raise errors.ConfigError(
            'label_map_path is not set; expected a file. Where there is none, it is written with '
            'the classes of the data.'
        )
    is_strict = reader.corrupt_record_policy != input_reader_pb2.SKIP
    listing = _list_files(reader, index)
    if listing.problems and is_strict:
        raise errors.DataError(
            f'{sources.describe(listing.problems)}\nFix them, or set '
            'corrupt_record_policy: SKIP to leave such files out.'
        )
    return ConvertedFiles(listing, is_strict)


def list_classes(*all_readers: input_reader_pb2.InputReader) -> LabelMap:
    """Return the classes of all data sets of readers of files, in the order of their ids."""
    items: List[LabelMapItem] = []
    for reader in all_readers:
        for index in range(len(reader_paths.reader_paths(reader)[1])):
            items += _list_files(reader, index).classes.items
    names = dict.fromkeys(item.display_name for item in items)
    return LabelMap.from_names(names, min(item.id for item in items))


def list_items(reader: input_reader_pb2.InputReader) -> List[List[Tuple[Item, str]]]:
    """Return the images of each data set of a reader of files, and the class that each is of.

    The class is '' where images have none.
    """
    count = len(reader_paths.reader_paths(reader)[1])
    listings = [_list_files(reader, index) for index in range(count)]
    return [[(item, each.source.stratum(item)) for item in each.items] for each in listings]


def read_annotations(reader: input_reader_pb2.InputReader) -> Iterator[examination.Annotation]:
    """Yield all annotations of a reader of files that can be read; masks are not drawn."""
    for index in range(len(reader_paths.reader_paths(reader)[1])):
        listing = _list_files(reader, index)
        yield from items_of_tiles.read_annotations(
            listing.source, listing.items, listing.classes, listing.converter.tile_rules
        )


def forget_listings() -> None:
    """List data sets again when they are opened; a process else lists each once."""
    _list_once.cache_clear()
    _log_once.cache_clear()


def write_label_maps(config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Write the label maps of readers of files that are not there, as the converter does.

    Args:
        config: a pipeline config; the first reader that names a label map gives its classes.

    Raises:
        errors.UserError: a data set cannot be listed, its classes are not known, or a label map
            cannot be written.
    """
    for reader in (config.train_input_reader, *config.eval_input_reader):
        path, kind = reader.label_map_path, reader_paths.files_kind(reader)
        if kind not in FORMATS or not path or tf.io.gfile.exists(path):
            continue
        conversion.write_label_map(list_classes(reader), path)


def _list_files(reader: input_reader_pb2.InputReader, index: int) -> _Listing:
    """List the images of one path of a reader; equal calls share the result."""
    flags = tuple(_flags(reader, index))
    part = getattr(reader, reader_paths.files_kind(reader)).options.part
    paths = [flag.partition('=')[2] for flag in flags if flag.startswith(_PATHS)]
    try:
        changed_at = tuple(map(_changed_at, paths))
        return _list_once(flags, part, reader.max_image_pixels, changed_at)
    except errors.UserError as error:
        raise type(error)(_with_fields(str(error).replace(_HELP, ''))) from None


def _flags(reader: input_reader_pb2.InputReader, index: int) -> Iterator[str]:
    """Yield the flags of the converter that are the fields of a reader."""
    kind = reader_paths.files_kind(reader)
    message = getattr(reader, kind)
    fields = message.DESCRIPTOR.fields_by_name
    yield f'--from={FORMATS[kind]}'
    yield f'--images={message.image_path[index]}'
    yield f'--label_map={reader.label_map_path}'
    yield '--output_prefix=none'  # nothing is written
    if 'annotation_path' in fields:
        yield f'--annotations={message.annotation_path[index]}'
    if 'rotated_boxes' in fields and message.rotated_boxes:
        yield '--boxes=rotated'
    if 'class_masks' in fields and message.class_masks:
        yield '--class_masks'
    # A mask is as large as its image: drawing and reading them takes most of the time.
    if FORMATS[kind] in command.WITH_MASKS and not reader.load_instance_masks:
        yield '--no_masks'
    if 'names_path' in fields and message.names_path:
        yield f'--names={message.names_path}'
    for name in _SAME_NAMES:
        if name in fields and getattr(message, name):
            yield f'--{name}={getattr(message, name)}'
    options = message.options
    if options.list_path:
        yield f'--list={options.list_path[index]}'
    if options.split:
        yield f'--split={options.split}'
    if options.group:
        yield f'--group={options.group}'
    yield f'--seed={options.seed}'
    if options.ignore_exif:
        yield '--exif=ignore'
    if options.bits:
        yield f'--bits={options.bits}'
    if reader.image_bits > _USUAL_BITS:
        yield '--keep_bits'
    for name in options.ignore_class:
        yield f'--ignore_class={name}'
    if reader.tiles.size:
        yield f'--tile={reader.tiles.size}'
        if reader.tiles.HasField('overlap'):
            yield f'--overlap={reader.tiles.overlap}'
        yield f'--min_area_inside={reader.tiles.min_area_inside:g}'
        yield f'--empty_tiles={"drop" if reader.tiles.drop_empty else "keep"}'
    count = len(options.additional_channel_path) // len(message.image_path)
    for path in options.additional_channel_path[index * count : (index + 1) * count]:
        yield f'{channel_folders.FLAG}={path}'


def _changed_at(path: str) -> int:
    """Return when a file or folder was changed, in nanoseconds; 0 where there is none."""
    try:
        # Of a folder: it changes where files come or go, not where one of them is edited.
        return tf.io.gfile.stat(path).mtime_nsec
    except tf.errors.OpError:
        return 0


@functools.lru_cache(maxsize=_MOST_LISTINGS)
def _list_once(
    flags: Sequence[str], part: str, max_pixels: int, changed_at: Tuple[int, ...]
) -> _Listing:
    """List the images of a data set; `changed_at` is a part of the key of the cache."""
    del changed_at
    arguments = command.create_parser().parse_args(flags)
    source = command.open_source(arguments)
    options = dataclasses.replace(command.read_options(arguments), max_pixels=max_pixels)
    plan = conversion.make_plan(source, arguments.label_map, '', options)
    items = plan.items
    if options.split:
        names = [name for name, _ in options.split]
        if part not in names:
            raise errors.ConfigError(f'options.part is {part!r}{errors.did_you_mean(part, names)}')
        items = [item for item, own in zip(items, plan.parts) if names[own] == part]
        if not items:
            raise errors.DataError(f'options.split gives no image to the part {part!r}.')
    problems = [each._replace(text=_with_fields(each.text)) for each in plan.problems]
    _log_once(tuple(map(_with_fields, plan.notes)), tuple(problems))
    tiles = options.tiling and 'tiles of {} pixels that share {}'.format(*options.tiling)
    named = (arguments.images, arguments.annotations, arguments.list, part, tiles)
    converter = conversion.Converter(source, plan.classes, options, decodes=False)
    if options.drop_empty_tiles:
        items = items_of_tiles.without_empty(source, items, plan.classes, converter.tile_rules)
        if not items:
            raise errors.DataError(
                f'none of the {tiles} holds an object; expected tiles.drop_empty: false.'
            )
    _log_tiles(arguments.images, items, tiles)
    return _Listing(
        name=', '.join(filter(None, named)),
        source=source,
        items=items,
        converter=converter,
        classes=plan.classes,
        problems=problems,
        contents=_contents(source, items, arguments.annotations, converter.channel_folders),
    )


def _log_tiles(place: str, items: Sequence[Item], tiles: Optional[str]) -> None:
    """Log how many tiles images have been cut into."""
    cut = [item.path for item in items if item.window is not None]
    if cut:
        text = '%s: %d %s, of %s'
        log.info(text, place, len(cut), tiles, texts.counted(len(set(cut)), 'image'))


# A label map that is written makes another listing of the same files.
_log_once = functools.lru_cache(maxsize=_MOST_LISTINGS)(conversion.log_outcome)


def _contents(
    source: Source,
    items: Sequence[Item],
    annotations: str,
    channels: channel_folders.ChannelFolders,
) -> List[Tuple[str, int]]:
    """Return names and sizes of the files of a data set; a size is -1 where there is no file.

    Beside the files, tiles have a name and the size 0: other tiles are other examples.
    """
    cut = [item.source_id for item in items if item.window is not None]
    items = list({item.path: item for item in items}.values()) if cut else items
    paths = [item.path for item in items]
    paths += filter(None, (source.annotation_path(item) for item in items))
    for item in items:
        with contextlib.suppress(errors.DataError):  # reported when the item is converted
            paths += channels.find(item.path)
    if annotations and not tf.io.gfile.isdir(annotations):
        paths.append(annotations)
    # Each question takes milliseconds in a bucket, and there is one for each file.
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        sizes = list(pool.map(_size, paths))
    named = [(os.path.basename(path), size) for path, size in zip(paths, sizes)]
    return named + [(name, 0) for name in cut]


def _size(path: str) -> int:
    try:
        return (
            tf.io.gfile.stat(path).length if folder_files.is_remote(path) else os.path.getsize(path)
        )
    except (OSError, tf.errors.OpError):
        return -1


def _with_fields(text: str) -> str:
    """Replace the flags of the converter in a message by the fields of a reader."""

    def field(match: re.Match) -> str:
        flag = match[1]
        return _FIELDS.get(flag) or _FIELDS.get(flag.partition('=')[0]) or flag[2:]

    return _FLAG.sub(field, text)
