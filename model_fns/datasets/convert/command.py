"""Command line of `python -m model_fns.datasets.convert`."""

from __future__ import annotations

import argparse
import configparser
import functools
import math
import pathlib
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from estimator_lib import errors, logs, texts
from estimator_lib.commands import command_line
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.processes import child_processes, journals
from model_fns import extras
from model_fns.datasets import conversion, ignored_regions, records, sources
from model_fns.datasets.annotations import id_pngs
from model_fns.datasets.files import channel_folders, image_lists
from model_fns.datasets.formats import (  # noqa: F401  (they register themselves)
    coco,
    csv_tables,
    dota,
    folders,
    hrsc,
    instances,
    labelme,
    masks,
    panoptic,
    voc,
    yolo,
)

# Formats with rotated boxes only, and formats with boxes of both kinds.
_ROTATED = ('dota', 'hrsc')
_EITHER = ('voc', 'coco', 'yolo', 'labelme')
_DRAWN = ('coco', 'yolo', 'labelme')  # formats of shapes, which --class_masks draws
_OF_IMAGES = ('folders',)  # formats of classes of whole images
_OF_TILES = ('overlap', 'min_area_inside', 'empty_tiles')
_COLOR = re.compile(r'#([0-9a-fA-F]{6}):(.*\S.*)')


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the flags, which `flags.ini` describes."""
    parser = command_line.Parser(
        prog='python -m model_fns.datasets.convert',
        description='Converts data sets of common formats to TFRecord shards and a label map.',
    )
    for name in _table().sections():
        parser.add_argument(f'--{name}', **_settings(name))
    return parser


@functools.cache
def _table() -> configparser.ConfigParser:
    table = configparser.ConfigParser(delimiters=['='], interpolation=None)
    table.read_string(pathlib.Path(__file__).with_name('flags.ini').read_text(encoding='utf-8'))
    return table


def _formats(name: str) -> List[str]:
    """Return the formats that read a flag; others refuse it. Empty: all formats read it."""
    return _table()[name].get('formats', '').split()


def _settings(name: str) -> Dict[str, Any]:
    """Return the arguments of `add_argument` for a flag."""
    row = _table()[name]
    names = {'formats': ', '.join(_formats(name)), 'ignored': ', '.join(ignored_regions.NAMES)}
    settings: Dict[str, Any] = {key: row[key] for key in ('dest', 'metavar') if key in row}
    settings['help'] = ' '.join(row['help'].split()).format(**names)
    if row.get('type') in _ACTIONS:
        return {**settings, 'action': _ACTIONS[row['type']]}
    parse = _PARSERS[row['type']] if 'type' in row else str
    settings.update(type=parse, required=row.getboolean('required', False))
    if 'default' in row:
        settings['default'] = parse(row['default'])
    if name == 'from':
        settings['choices'] = list(sources.SOURCES)
    elif 'choices' in row:
        settings['choices'] = [parse(each) for each in row['choices'].split()]
    return settings


def _mask_values(text: str) -> Dict[int, str]:
    """Parse `0:background,255:cell` to names by value."""
    pairs = [part.partition(':') for part in text.split(',')]
    if not all(value.strip().isdecimal() and name.strip() for value, _, name in pairs):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not of the form VALUE:NAME,VALUE:NAME, like 0:background,255:cell'
        )
    values = {int(value): name.strip() for value, _, name in pairs}
    if len(values) < len(pairs) or max(values) > id_pngs.MAX_ID:
        raise argparse.ArgumentTypeError(
            f'{text!r} names a value twice, or one above {id_pngs.MAX_ID}'
        )
    return values


def _mask_colors(text: str) -> Dict[int, str]:
    """Parse `#000000:background,#ff0000:cell` to names by 65536 * red + 256 * green + blue."""
    matches = [_COLOR.fullmatch(part.strip()) for part in text.split(',')]
    if not all(matches):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not of the form #RRGGBB:NAME,#RRGGBB:NAME, like '
            '#000000:background,#ff0000:cell'
        )
    colors = {int(match[1], 16): match[2].strip() for match in matches if match}
    if len(colors) < len(matches):
        raise argparse.ArgumentTypeError(f'{text!r} names a color twice')
    return colors


def _ignore_label(text: str) -> Union[int, str]:
    if text.isdecimal() and int(text) <= id_pngs.MAX_ID:
        return int(text)
    if text.lower() == id_pngs.NO_LABEL:
        return id_pngs.NO_LABEL
    raise argparse.ArgumentTypeError(
        f'{text!r} is neither a number from 0 to {id_pngs.MAX_ID} nor {id_pngs.NO_LABEL}'
    )


def _split(text: str) -> List[Tuple[str, float]]:
    """Parse `train:0.8,val:0.2` to names and fractions."""
    expected = 'expected names and shares that add up to 1, like train:0.8,val:0.2'
    try:
        pairs = [part.split(':') for part in text.split(',')]
        parts = [(name.strip(), float(share)) for name, share in pairs]
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r}: {expected}') from None
    names = {name for name, _ in parts}
    shares = [share for _, share in parts]
    if len(names) < len(parts) or '' in names or any('/' in name for name in names):
        raise argparse.ArgumentTypeError(f'{text!r}: the parts need names that differ; {expected}')
    if not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
        raise argparse.ArgumentTypeError(f'{text!r} adds up to {sum(shares):g}; {expected}')
    return parts


_ACTIONS = {'switch': 'store_true', 'list': 'append'}
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    'int': int,
    'float': float,
    'mask_values': _mask_values,
    'mask_colors': _mask_colors,
    'ignore_label': _ignore_label,
    'split': _split,
}
# Formats whose objects have masks.
WITH_MASKS = _formats('no_masks')


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command, and print the number of records.

    Raises:
        errors.UserError: a flag or the data is wrong.
    """
    logs.configure()
    flags = create_parser().parse_args(arguments)
    if flags.runner_options and not flags.runner:
        raise errors.UserError(
            f'--runner_options={flags.runner_options}: they are flags of a runner; expected '
            '--runner too.'
        )
    for name in ('num_shards', 'num_workers'):
        if getattr(flags, name) < 1:
            raise errors.UserError(f'--{name} is {getattr(flags, name)}; expected at least 1.')
    for name in ('images', 'annotations', 'list', 'names', 'label_map', 'output_prefix'):
        errors.refuse_placeholder(f'--{name}', getattr(flags, name))
    if flags.output_prefix.endswith('/') and not flags.split:
        raise errors.UserError(
            f'--output_prefix is {flags.output_prefix}; expected a folder and the beginning of '
            f'a name, like {flags.output_prefix}train.'
        )
    options, source = read_options(flags), open_source(flags)
    paths = flags.label_map, flags.output_prefix
    if flags.runner:
        beam_runs = extras.load('beam.runs', '--runner')
        runner = beam_runs.parse_runner(flags.runner, flags.runner_options)
        beam_conversion = extras.load('beam.conversion', '--runner')
        counts = beam_conversion.convert(source, *paths, options, runner)
    else:
        with child_processes.outside_working_folder():
            counts = conversion.convert(source, *paths, options, _identity(flags))
    for prefix, count in counts.items():
        print(f'{texts.counted(count, "record")} in {records.shard_pattern(prefix)}')


def _identity(flags: argparse.Namespace) -> List[str]:
    """Return what must be equal for another start to continue: the flags, and all input files."""
    values = {name: value for name, value in vars(flags).items() if name != 'output_prefix'}
    texts = [each for value in values.values() for each in np.ravel(value) if isinstance(each, str)]
    return journals.identify(sorted(values.items()), [str(text) for text in texts if text])


def read_options(flags: argparse.Namespace) -> conversion.Options:
    """Return the options of a conversion.

    Raises:
        errors.UserError: the flags contradict each other, the list of images cannot be read, or
            there is no such folder of channels.
    """
    if flags.keep_bits and flags.bits:
        raise errors.UserError(
            f'--keep_bits and --bits={flags.bits}: expected one of them; image_bits of a reader '
            'gives the bits of values.'
        )
    channel_folders.check_folders(flags.additional_channels or ())
    return conversion.Options(
        num_shards=flags.num_shards,
        stems=image_lists.read(flags.list) if flags.list else None,
        skip_problems=flags.on_error == 'skip',
        clips=flags.outside == 'clip',
        bits=flags.bits,
        keep_bits=flags.keep_bits,
        additional_channels=tuple(flags.additional_channels or ()),
        apply_exif=flags.exif == 'apply',
        split=flags.split or (),
        group=_group(flags),
        tiling=_tiling(flags),
        min_area_inside=flags.min_area_inside,
        drop_empty_tiles=flags.empty_tiles == 'drop',
        seed=flags.seed,
        num_workers=flags.num_workers,
    )


def _group(flags: argparse.Namespace) -> str:
    if flags.group and not flags.split:
        raise errors.UserError(f'--group={flags.group} has no effect without --split.')
    return flags.group


def open_source(flags: argparse.Namespace) -> sources.Source:
    """Return the data set that the flags name.

    Raises:
        errors.UserError: a flag of the format is missing, its value is not valid, or the format
            does not read a flag.
    """
    for name in _changed(flags, filter(_formats, _table().sections())):
        if flags.format not in _formats(name):
            raise errors.UserError(
                f'--{name} is not read by --from={flags.format}; it is of '
                f'{errors.shortened([f"--from={each}" for each in _formats(name)])}.'
            )
    if flags.class_masks and (flags.format not in _DRAWN or flags.boxes == 'rotated'):
        got = '--boxes=rotated' if flags.format in _DRAWN else f'--from={flags.format}'
        raise errors.UserError(
            f'--class_masks: {got} has no polygons to draw; expected one of '
            f'{", ".join(f"--from={name}" for name in _DRAWN)} with axis-aligned boxes.'
        )
    source = sources.SOURCES.get(flags.format)(flags)
    if flags.format not in _OF_IMAGES:
        source.ignored = tuple(dict.fromkeys((*ignored_regions.NAMES, *(flags.ignore_class or ()))))
    return source


def _changed(flags: argparse.Namespace, names: Iterable[str]) -> List[str]:
    """Return the names of the flags with other values than their defaults."""
    parser = create_parser()
    return [name for name in names if getattr(flags, name) not in (parser.get_default(name), '')]


def _tiling(flags: argparse.Namespace) -> Optional[Tiling]:
    """Return the tiling of large images; None where the flags ask for none.

    Raises:
        errors.UserError: the flags contradict each other.
    """
    if flags.boxes == 'upright' and flags.format in _ROTATED:
        raise errors.UserError(f'--boxes=upright: --from={flags.format} has rotated boxes.')
    if flags.boxes == 'rotated' and flags.format not in (*_ROTATED, *_EITHER):
        raise errors.UserError(
            f'--boxes=rotated: --from={flags.format} has none; expected one of '
            f'{", ".join((*_EITHER, *_ROTATED))}.'
        )
    if flags.tile is None:
        for name in _changed(flags, _OF_TILES):
            value = getattr(flags, name)
            raise errors.UserError(f'--{name}={value}: there are no tiles without --tile.')
        return None
    if flags.keep_bits:
        raise errors.UserError(f'--keep_bits: tiles have 8 bits; leave out --tile={flags.tile}.')
    if flags.format in _OF_IMAGES:
        raise errors.UserError(
            f'--tile={flags.tile}: a label of a whole image is not one of its tiles.'
        )
    tiling = Tiling.create(flags.tile, flags.overlap)
    if not 0 <= tiling.overlap < flags.tile or not 0 < flags.min_area_inside <= 1:
        raise errors.UserError(
            f'--tile={flags.tile} --overlap={tiling.overlap} '
            f'--min_area_inside={flags.min_area_inside:g}; expected 0 <= overlap < tile, and a '
            'part above 0 and up to 1.'
        )
    return tiling
