"""Conversion of the items of a source to shards, in threads or processes."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import logging
import multiprocessing
import os
import random
import signal
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
import tqdm

from estimator_lib import errors, texts
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.processes import journals
from model_fns.datasets import codecs, examination, image_files, outcomes, records, sources
from model_fns.datasets import ignored_regions as regions
from model_fns.datasets.annotations import tiles
from model_fns.datasets.files import channel_folders, folder_files, image_lists, splits
from model_fns.datasets.meaning import checks
from model_fns.datasets.outcomes import Outcome, list_problems
from model_fns.datasets.rotated import tiles as rotated_tiles
from model_fns.datasets.sources import Item, Problem, Source
from model_fns.datasets.summaries import Summary, Tile, summarize
from model_fns.datasets.tiled import items as items_of_tiles
from model_fns.structures.label_map import LabelMap

log = logging.getLogger('model_fns')

MAX_LISTED = 20
_AT_ONCE = 256  # images in memory
_LEAST_OF_DEEP = 16  # the brightest of 8 bits where values of 16 bits use all of them


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a conversion.

    Attributes:
        num_shards: number of files for each part of a split.
        stems: lines of a list, see `image_lists.select`; None: all images.
        skip_problems: leave out items with problems, instead of writing nothing.
        clips: boxes that reach outside of their image are clipped; else they are problems.
        bits: of the values in images of 16 bits a channel; None: 16.
        keep_bits: leave PNGs of 16 bits a channel as they are.
        additional_channels: a folder of gray images for each channel beside the colors.
        apply_exif: rotate images as their EXIF orientation says.
        max_pixels: limit of an image's size, by its header; None: as many as TensorFlow decodes.
        split: name of each part and its fraction of the images; empty: one part without a name.
        group: pattern of what paths of one group share, or `splits.AUTO`; '': each is its own.
        tiling: tiles that large images are cut into; None: images stay whole.
        min_area_inside: objects are in a tile that holds at least this part of their area.
        drop_empty_tiles: leave out tiles without an object.
        seed: of the order of the records and of the split.
        num_workers: processes; 1: threads of this one.
    """

    num_shards: int = 4
    stems: Optional[Sequence[str]] = None
    skip_problems: bool = False
    clips: bool = True
    bits: Optional[int] = None
    keep_bits: bool = False
    additional_channels: Sequence[str] = ()
    apply_exif: bool = True
    max_pixels: Optional[int] = None
    split: Sequence[Tuple[str, float]] = ()
    group: str = ''
    tiling: Optional[Tiling] = None
    min_area_inside: float = 0.7
    drop_empty_tiles: bool = False
    seed: int = 0
    num_workers: int = 1


class Plan(NamedTuple):
    """Items of a conversion, and the shards and classes that they are written with.

    Attributes:
        items: in the order of their records.
        parts: index of the split's part, for each item.
        prefixes: prefix of the shards, for each part.
        classes: the label map.
        is_new: whether the label map has to be written.
        problems: those of the data set that belong to no single item.
        notes: a line for each group of files that is left out on purpose, and for each issue
            about the whole data set that is allowed.
    """

    items: Sequence[Item]
    parts: Sequence[int]
    prefixes: Sequence[str]
    classes: LabelMap
    is_new: bool
    problems: Sequence[Problem]
    notes: Sequence[str]


def convert(
    source: Source,
    label_map_path: str,
    output_prefix: str,
    options: Options,
    identity: Any = None,
) -> Dict[str, int]:
    """Write the records of a data set in a shuffled order, which is the same for the same seed.

    What is done before a signal is kept: a later call with an equal identity continues.

    Args:
        source: the data set.
        label_map_path: read when it exists, else written with the source's classes.
        output_prefix: shard i of n is `<prefix>-0000i-of-0000n.tfrecord`; with a split the name of
            the part follows the prefix.
        options: of the conversion.
        identity: of all inputs, in types of JSON; None: nothing is kept.

    Returns:
        The number of records written, by the prefix of their shards.

    Raises:
        errors.DataError: the data has problems; the message lists them by file.
    """
    plan = make_plan(source, label_map_path, output_prefix, options)
    problems = list(plan.problems)
    summary = Summary()
    is_kept = identity is not None and '://' not in output_prefix
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(records.ShardWriter(prefix, options.num_shards, is_kept))
            for prefix in plan.prefixes
        ]
        path = outcomes.journal_path(output_prefix) if is_kept else None
        known = [identity, repr(options), list(plan.classes.names), len(plan.items)]
        journal = stack.enter_context(
            journals.Journal(path, known, keeps=False, kept_after=records.STOPS)
        )
        entries = journal.entries if all(writer.has_kept for writer in writers) else []
        converter = Converter(source, plan.classes, options)
        shards = [writer.read_kept() for writer in writers]
        kept = outcomes.restore(entries, zip(plan.items, plan.parts), shards, converter.convert)
        rest = stack.enter_context(
            contextlib.closing(_outcomes(source, plan.items[len(entries) :], plan.classes, options))
        )
        # In the order of the plan, also from threads: equal inputs give equal shards.
        for outcome, item, part in zip(itertools.chain(kept, rest), plan.items, plan.parts):
            problems += list_problems(outcome, item)
            if outcome.record is not None:
                writers[part].write(outcome.record)
            journal.add(outcomes.to_entry(outcome))
            summary.add(outcome.summary)
        counts = {prefix: writer.num_written for prefix, writer in zip(plan.prefixes, writers)}
        check_outcome(problems, counts, options)
        if plan.is_new:
            write_label_map(plan.classes, label_map_path)  # before the records get their names
    log_outcome(plan.notes, problems)
    log.info('%s', summary)
    return counts


def make_plan(source: Source, label_map_path: str, output_prefix: str, options: Options) -> Plan:
    """Plan a conversion; the arguments are those of `convert`.

    Raises:
        errors.DataError: there is nothing to convert, or the label map is not valid.
    """
    items = image_lists.select(source.items(), options.stems)
    problems = [Problem('', text) for text in source.problems()]
    if not items:
        raise errors.DataError(
            f'{_listed(problems)}there is no image to convert; see --images and --list.'
        )
    known = tf.io.gfile.exists(label_map_path)
    if known:
        classes = LabelMap.read(label_map_path, first_id=source.first_id)
    else:
        classes = _new_classes(source, items, options)
    issues = examination.examine(source, items, classes, options.clips, options.apply_exif)
    try:
        notes = [*source.notes(), *checks.refuse_errors(issues)]
    except errors.DataError as error:
        raise errors.DataError(f'{_listed(problems)}{error}') from None
    # Python's generator, whose shuffle of a seed is the same on each machine.
    random.Random(options.seed).shuffle(items)
    if options.tiling is not None:
        # Tiles of an image stay together: it is decoded once.
        items = items_of_tiles.cut(items, options.tiling, options.apply_exif)
    prefixes = _prefixes(output_prefix, [name for name, _ in options.split])
    shares = [share for _, share in options.split] or [1.0]
    paths = [item.path for item in items]  # tiles of an image have the path of the image
    groups, more = splits.group_parts(paths, options.group, len(shares))
    parts = image_lists.assign_parts([source.stratum(item) for item in items], shares, groups)
    return Plan(items, parts, prefixes, classes, not known, problems, [*notes, *more])


def _new_classes(source: Source, items: Sequence[Item], options: Options) -> LabelMap:
    """Return a new label map with the classes of the annotations.

    Raises:
        errors.DataError: they have no class; the message lists their problems.
    """
    names = regions.class_names(source, items)
    if names:
        return LabelMap.from_names(names, source.first_new_id)
    converter = Converter(source, LabelMap.from_names(['object']), options)
    problems = [
        problem
        for item in items[:MAX_LISTED]
        for problem in list_problems(converter.convert(item), item)
    ]
    raise errors.DataError(
        f'{_listed(problems)}None of the {len(items)} annotations names a class, and --label_map '
        'names no file that exists.'
    )


def _listed(problems: Sequence[Problem]) -> str:
    """Return the lines of problems, above those of an error; empty without problems."""
    return f'{sources.describe(problems)}\n' if problems else ''


def write_label_map(classes: LabelMap, path: str) -> None:
    """Write a label map.

    Raises:
        errors.DataError: it cannot be written there.
    """
    try:
        classes.write(path)
    except tf.errors.OpError as error:
        reason = errors.plain_message(error)
        raise errors.DataError(
            f'{path}: the label map cannot be written there: {reason}.'
        ) from None
    log.info('wrote %s: %s', path, texts.counted(len(classes.names), 'class', 'classes'))


def log_outcome(notes: Sequence[str], problems: Sequence[Problem]) -> None:
    """Log a warning for each note and problem."""
    for note in notes:
        log.warning('%s', note)
    if problems:
        log.warning('left out: %s', sources.describe(problems))


def _prefixes(prefix: str, names: Sequence[str]) -> List[str]:
    """Return the prefix of each part: `data/cells-train` for `data/cells` and a part `train`."""
    between = '' if not prefix or prefix.endswith('/') else '-'
    return [f'{prefix}{between}{name}' for name in names] or [prefix]


def check_outcome(problems: Sequence[Problem], counts: Mapping[str, int], options: Options) -> None:
    """Refuse a conversion with problems, before its files get their names.

    Args:
        problems: all of them.
        counts: number of records to write, by the prefix of their shards.
        options: `skip_problems` counts.

    Raises:
        errors.DataError: there are problems and they are not skipped, or no record is left.
    """
    if problems and not options.skip_problems:
        raise errors.DataError(
            f'{sources.describe(problems)}\nNothing was written; --on_error=skip leaves these out.'
        )
    for prefix, count in counts.items():
        if not count:
            of_part = f' for {prefix}: --split gives it no image' if options.split else ''
            raise errors.DataError(f'{_listed(problems)}Nothing is left to write{of_part}.')


def _outcomes(
    source: Source, items: Sequence[Item], classes: LabelMap, options: Options
) -> Iterator[Outcome]:
    """Yield the outcome of each item, in the order of the items."""
    arguments = (source, classes, options)
    pool: concurrent.futures.Executor
    if options.num_workers > 1:
        # A process that has run TensorFlow cannot be forked.
        context = multiprocessing.get_context('spawn')
        pool = concurrent.futures.ProcessPoolExecutor(
            options.num_workers, context, _start_process, arguments
        )
        work = _convert_in_process
    else:
        # Threads serve most sets: Pillow and TensorFlow decode without Python's lock.
        pool = concurrent.futures.ThreadPoolExecutor()
        work = Converter(*arguments).convert
    pending: collections.deque = collections.deque()
    with pool, tqdm.tqdm(total=len(items), unit='image', disable=None) as bar:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                # Bounded: the pool would convert all images ahead of the writer.
                if len(pending) >= _AT_ONCE:
                    yield pending.popleft().result()
                    bar.update()
            while pending:
                yield pending.popleft().result()
                bar.update()
        except (GeneratorExit, *records.STOPS):
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        except BrokenProcessPool:
            raise errors.UserError(
                f'one of --num_workers={options.num_workers} processes was killed; '
                'fewer workers need less memory.'
            ) from None


class _ToCut(NamedTuple):
    """Image that is cut into tiles.

    Attributes:
        features: of the record of the whole image.
        pixels: uint8 [height, width, 3].
        problems: of its objects.
        num_clipped: number of its boxes that were clipped.
        num_ignored: number of its regions to ignore, by name.
    """

    features: records.Features
    pixels: np.ndarray
    problems: Sequence[Problem]
    num_clipped: int
    num_ignored: Mapping[str, int]


class Converter:
    """Converter of items to records; safe to use from several threads.

    Args:
        source: of the items.
        classes: the label map.
        options: of the conversion.
        decodes: decode all images, to find those that cannot be. False: where the pixels count.

    Attributes:
        channel_folders: of the channels beside the colors.
    """

    def __init__(self, source: Source, classes: LabelMap, options: Options, decodes: bool = True):
        self._source = source
        self._classes = classes
        self._extended = regions.extend(classes, source)
        self._options = options
        self.channel_folders = channel_folders.ChannelFolders(options.additional_channels)
        self._decodes = decodes
        # Else each tile decoded its image: 71 s for one of 8192 x 8192 pixels.
        self._tiled = codecs.DecodedImages(self._to_cut)

    @property
    def tile_rules(self) -> items_of_tiles.Rules:
        """The options that decide which objects a tile holds."""
        options = self._options
        return items_of_tiles.Rules(options.clips, options.apply_exif, options.min_area_inside)

    def convert(self, item: Item) -> Outcome:
        """Convert an item to a record, or to the problems for which there is none."""
        report = sources.Report(self._options.clips)
        try:
            features, tile = self._features(item, report)
        except errors.DataError as problem:
            report.leave_out('', problem)
            return Outcome(None, report.problems)
        num_regions = regions.count_rows(report.num_ignored, self._classes)
        if tile is None:
            num_objects = sources.count_objects(features, num_regions)
        else:
            num_objects = tile.num_objects
        if report.problems and num_objects == 0:  # it would be trained as an image without objects
            return Outcome(None, report.problems)
        summary = summarize(features, report.num_clipped, tile, report.num_ignored)
        is_written = tile is None or tile.is_written
        record = records.serialize(features) if is_written else None
        return Outcome(record, report.problems, summary)

    @functools.cached_property
    def _codec(self) -> codecs.ImageCodec:
        # Not before it is needed: it starts the devices of TensorFlow.
        return codecs.ImageCodec()

    def _decode(
        self, path: str, is_cut: bool
    ) -> Tuple[image_files.ImageFile, Optional[np.ndarray]]:
        """Read an image in the form of a record, and its pixels: uint8 [height, width, 3].

        There are no pixels (None) where they need not be decoded; an image that is cut has some.
        """
        options = self._options
        image = image_files.prepare(_content(path), options.apply_exif, options.max_pixels)
        # PNG decoders take the upper 8 of 16 bits: images of 12 bits became black without a word.
        is_deep = image_files.is_deep(image.encoded) and not options.keep_bits
        if is_deep and options.bits:
            image = image_files.prepare(self._codec.scale_depth(image.encoded, options.bits))
            is_deep = False
        if not (is_deep or is_cut or self._decodes):
            return image, None
        pixels = self._codec.decode(image.encoded)
        largest = pixels.max(initial=0)
        if is_deep and largest < _LEAST_OF_DEEP:
            raise errors.DataError(
                f'the image has 16 bits a channel, and no value above {largest}: it would become '
                'black; expected --bits=N where its values have N bits.'
            )
        return image, pixels

    def _features(
        self, item: Item, report: sources.Report
    ) -> Tuple[records.Features, Optional[Tile]]:
        """Return the features of a record, and its tile; None for a whole image."""
        if item.window is None:
            features, _ = self._whole(item, report)
            return features, None
        key = rotated_tiles.whole_name(item.source_id)
        features, pixels, problems, num_clipped, report.num_ignored = self._tiled.get(key, item)
        report.problems += problems
        report.num_clipped += num_clipped
        # A new dict: the features of the image are shared by the threads of its other tiles.
        features = {**features, 'image/source_id': item.source_id}
        num_regions = regions.count_rows(report.num_ignored, self._classes)
        num_objects = len(features.get('image/object/class/label', ())) - num_regions
        cutting = features, pixels, item.window, self._options.min_area_inside
        features, kept, has_classes = tiles.cut(*cutting)
        objects = kept[kept < num_objects].tolist()  # regions to ignore are behind them
        is_written = bool(objects) or has_classes or not self._options.drop_empty_tiles
        return features, Tile(item.path, num_objects, objects, is_written)

    def _to_cut(self, key: str, item: Item) -> _ToCut:
        """Return an image that is cut into tiles; it is read once for all of them."""
        del key
        report = sources.Report(self._options.clips)
        features, pixels = self._whole(item, report)
        return _ToCut(features, pixels, report.problems, report.num_clipped, report.num_ignored)

    def _whole(
        self, item: Item, report: sources.Report
    ) -> Tuple[records.Features, Optional[np.ndarray]]:
        """Return the features of a whole image, and its pixels."""
        image, pixels = self._decode(item.path, item.window is not None)
        name = os.path.basename(item.path)
        features = records.image_features(image.encoded, image.header, name, item.source_id)
        features.update(self.channel_folders.features(item.path, image.header))
        try:
            own = self._source.features(item, image.header, self._extended, report)
        except sources.SizeError as error:
            raise errors.DataError(f'{error}{self._hint(image)}') from error
        own, report.num_ignored = regions.expand(own, self._classes, report)
        return {**features, **own}, pixels

    def _hint(self, image: image_files.ImageFile) -> str:
        if not image.swaps_sides:
            return ''
        stored = f' The image is stored lying on its side (EXIF orientation {image.orientation})'
        if self._options.apply_exif:
            return f'{stored}; with --exif=ignore it stays so.'
        return f'{stored}; with --exif=apply it is rotated.'


def _content(path: str) -> bytes:
    try:
        return folder_files.read_bytes(path)
    except errors.DataError as error:  # the caller adds the path
        raise errors.DataError(str(error)[len(f'{path}: ') :]) from None


_worker: Optional[Converter] = None  # A process of the pool keeps its converter here.


def _start_process(*arguments: Any) -> None:
    global _worker
    # Ctrl-C reaches the whole group of processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = Converter(*arguments)


def _convert_in_process(item: Item) -> Outcome:
    assert _worker is not None
    return _worker.convert(item)
