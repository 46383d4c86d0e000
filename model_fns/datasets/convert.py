"""Makes TFRecord shards and a label map out of what people have.

python -m model_fns.datasets.convert --from=folders --images=photos/train \
        --label_map=data/label_map.pbtxt --output_prefix=data/train
"""

from __future__ import annotations

import argparse
import concurrent.futures
import logging
import os
import random
import sys
from typing import Iterator, List, Optional, Sequence, Tuple, Union

import tensorflow as tf
import tqdm

from estimator_lib import errors, logs
from model_fns import images
from model_fns.datasets import (  # noqa: F401  (they register themselves)
    coco,
    codecs,
    folders,
    instances,
    masks,
    records,
    sources,
    voc,
)
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap

log = logging.getLogger('model_fns')

MAX_LISTED = 20
_AT_ONCE = 256  # images in memory
_SEED = 0


def convert(
    source: Source,
    label_map_path: str,
    output_prefix: str,
    num_shards: int = 4,
    stems: Optional[Sequence[str]] = None,
    skip_problems: bool = False,
) -> int:
    """Writes the records of a data set, in an order that is shuffled once and always the same.

    Args:
        source: the data set.
        label_map_path: read when it exists, else written with the source's classes.
        output_prefix: shard i of n is `<prefix>-0000i-of-0000n.tfrecord`.
        num_shards: how many files.
        stems: only these images; None for all.
        skip_problems: leave out what is wrong, instead of writing nothing.

    Returns:
        How many records were written.

    Raises:
        errors.DataError: something is wrong; the message lists it by file.
    """
    items = _selected(source.items(), stems)
    if not items:
        raise errors.DataError('there is no image to convert; see --images and --list.')
    known = tf.io.gfile.exists(label_map_path)
    classes = (
        LabelMap.read(label_map_path) if known else LabelMap.from_names(source.class_names(items))
    )
    random.Random(_SEED).shuffle(items)
    problems = list(source.problems())
    with records.ShardWriter(output_prefix, num_shards) as writer:
        for item, outcome in _converted(source, items, classes):
            if isinstance(outcome, errors.DataError):
                problems.append(f'{item.path}: {outcome}')
            else:
                writer.write(outcome)
        if problems and not skip_problems:
            raise errors.DataError(
                f'{_listed(problems)}\nNothing was written; --on_error=skip leaves these out.'
            )
        if not writer.num_written:
            raise errors.DataError(f'{_listed(problems)}\nNothing is left to write.')
    if not known:
        classes.write(label_map_path)
        log.info('wrote %s: %d classes', label_map_path, len(classes.names))
    if problems:
        log.warning('left out: %s', _listed(problems))
    return writer.num_written


def _selected(items: List[Item], stems: Optional[Sequence[str]]) -> List[Item]:
    if stems is None:
        return items
    wanted = dict.fromkeys(stems)
    missing = sorted(set(wanted) - {item.stem for item in items})
    if missing:
        raise errors.DataError(
            f'--list: {len(missing)} of {len(wanted)} stems have no image and annotation: '
            f'{", ".join(missing[:MAX_LISTED])}.'
        )
    return [item for item in items if item.stem in wanted]


def _converted(
    source: Source, items: Sequence[Item], classes: LabelMap
) -> Iterator[Tuple[Item, Union[bytes, errors.DataError]]]:
    """Each item with its serialized record, or with what is wrong, in the items' order."""
    with codecs.ImageCodec() as codec, concurrent.futures.ThreadPoolExecutor() as pool:

        def outcome(item: Item) -> Union[bytes, errors.DataError]:
            try:
                return _serialized(source, item, classes, codec)
            except errors.DataError as problem:
                return problem

        with tqdm.tqdm(total=len(items), unit='image', disable=None) as bar:
            for start in range(0, len(items), _AT_ONCE):
                some = items[start : start + _AT_ONCE]
                for item, result in zip(some, pool.map(outcome, some)):
                    bar.update()
                    yield item, result


def _serialized(source: Source, item: Item, classes: LabelMap, codec: codecs.ImageCodec) -> bytes:
    try:
        with tf.io.gfile.GFile(item.path, 'rb') as file:
            encoded = file.read()
    except tf.errors.OpError:
        raise errors.DataError('there is no such file.') from None
    header = images.image_header(encoded)
    codec.decode(encoded)
    features = records.image_features(encoded, header, os.path.basename(item.path), item.source_id)
    features.update(source.features(item, header, classes))
    return records.serialize(features)


def _listed(problems: Sequence[str]) -> str:
    return '\n'.join([f'{len(problems)} problem{"s" if len(problems) > 1 else ""}:', *problems])


class _Parser(argparse.ArgumentParser):
    """Errors in one sentence, without the usage above them."""

    def error(self, message: str) -> None:
        raise errors.UserError(f'{message} (--help lists the flags)')


def create_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = _Parser(
        prog='python -m model_fns.datasets.convert',
        description='Makes TFRecord shards and a label map out of what people have.',
    )
    parser.add_argument(
        '--from',
        dest='format',
        required=True,
        choices=list(sources.SOURCES),
        help='folders: one folder a class; voc: Pascal VOC XML; coco: instances JSON; masks: PNGs '
        'of class ids; instances: PNGs of instance ids',
    )
    parser.add_argument('--images', required=True, help='folder of the images')
    parser.add_argument(
        '--annotations',
        help='voc: folder of the XML files; coco: the JSON file; masks, instances: folder of PNGs '
        "with the images' stems",
    )
    parser.add_argument('--no_masks', action='store_true', help="coco: leave objects' masks out")
    parser.add_argument(
        '--ignore_label',
        type=int,
        help='masks, instances: value of pixels that count for nothing (default: 255 for masks, '
        'none for instances)',
    )
    parser.add_argument(
        '--class_name', default='object', help="instances: the objects' class (default object)"
    )
    parser.add_argument('--list', help='file with the stems of the images to take, one a line')
    parser.add_argument(
        '--label_map', required=True, help='read when it exists, written when it does not'
    )
    parser.add_argument(
        '--output_prefix', required=True, help='DIR/train gives DIR/train-00000-of-00004.tfrecord'
    )
    parser.add_argument('--num_shards', type=int, default=4, help='how many files (default 4)')
    parser.add_argument(
        '--on_error',
        choices=('fail', 'skip'),
        default='fail',
        help='what images and annotations with something wrong do: list all and write nothing '
        '(default), or list all and write the others',
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The command: exits with 2 and one plain message where something is wrong."""
    logs.configure()
    try:
        flags = create_parser().parse_args(arguments)
        if flags.num_shards < 1:
            raise errors.UserError(f'--num_shards is {flags.num_shards}; expected at least 1.')
        count = convert(
            sources.SOURCES.get(flags.format)(flags),
            flags.label_map,
            flags.output_prefix,
            flags.num_shards,
            _read_list(flags.list),
            skip_problems=flags.on_error == 'skip',
        )
    except errors.UserError as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(2)
    print(f'{count} records in {records.shard_pattern(flags.output_prefix)}')


def _read_list(path: Optional[str]) -> Optional[List[str]]:
    if not path:
        return None
    if not tf.io.gfile.exists(path):
        raise errors.UserError(f'--list: there is no file {path}.')
    with tf.io.gfile.GFile(path, 'r') as file:
        lines = [line.split() for line in file.read().splitlines()]
    # Lists of Pascal VOC have a second column that says whether a class is in the image.
    return [line[0] for line in lines if line]


if __name__ == '__main__':
    main()
