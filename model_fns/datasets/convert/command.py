"""Command line of `python -m model_fns.datasets.convert`."""

from __future__ import annotations

import argparse
import math
import re
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, Union

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
# Formats whose objects have masks.
WITH_MASKS = ('coco', 'yolo', 'labelme', 'panoptic', 'instances')
_OF_MASKS = ('masks', 'instances')
_OF_IMAGES = ('folders',)  # formats of classes of whole images
# The formats that read a flag; others refuse it.
_FORMATS_OF_FLAGS = {
    'annotations': tuple(name for name in sources.SOURCES if name not in _OF_IMAGES),
    'no_masks': WITH_MASKS,
    'names': ('yolo',),
    'mask_values': ('masks',),
    'mask_colors': ('masks',),
    'image_suffix': _OF_MASKS,
    'annotation_suffix': _OF_MASKS,
    'ignore_label': _OF_MASKS,
    'class_name': ('instances',),
    'ignore_class': tuple(name for name in sources.SOURCES if name not in _OF_IMAGES),
}
_OF_TILES = ('overlap', 'min_area_inside', 'empty_tiles')
_COLOR = re.compile(r'#([0-9a-fA-F]{6}):(.*\S.*)')


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the flags."""
    parser = command_line.Parser(
        prog='python -m model_fns.datasets.convert',
        description='Converts data sets of common formats to TFRecord shards and a label map.',
    )
    _add_sources(parser)
    _add_masks(parser)
    _add_tiles(parser)
    _add_image_rules(parser)
    _add_outputs(parser)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the data set: its format, its files and its boxes."""
    parser.add_argument(
        '--from',
        dest='format',
        required=True,
        choices=list(sources.SOURCES),
        help='folders: one folder a class; voc: Pascal VOC XML; coco: instances JSON; yolo: a text '
        'file of boxes or polygons an image; masks: PNGs of class ids; instances: PNGs of instance '
        'ids; dota: text files of quadrilaterals; hrsc: HRSC2016 XML; labelme: JSON of labelme; '
        'panoptic: panoptic JSON and PNGs of COCO; csv: a table of labels or boxes',
    )
    parser.add_argument('--images', required=True, help='folder of the images')
    parser.add_argument(
        '--annotations',
        help='voc: folder of the XML files; coco: the JSON file; yolo: folder of the text files; '
        "masks, instances: folder of PNGs with the images' stems; labelme: folder of the JSON "
        'files; panoptic: the JSON file, with the PNGs in the folder of its name; csv: the table',
    )
    parser.add_argument(
        '--list', help='file with the images to take, one a line: their stems, or paths'
    )
    parser.add_argument(
        '--boxes',
        choices=('upright', 'rotated'),
        help='voc, coco, yolo, labelme: what records get (default upright); rotated: robndbox '
        'elements, or the smallest rotated boxes around polygons. dota, hrsc: always rotated',
    )
    parser.add_argument(
        '--class_masks',
        action='store_true',
        help='coco, yolo, labelme: records also get the class of each pixel, drawn from the '
        'polygons (smaller objects above larger ones), to train segmentation',
    )
    parser.add_argument(
        '--no_masks',
        action='store_true',
        help=f"{', '.join(WITH_MASKS)}: leave objects' masks out",
    )
    parser.add_argument(
        '--ignore_class',
        action='append',
        metavar='NAME',
        help='objects of this name are regions to ignore: training learns nothing in them, and '
        'evaluations count no detection there; may repeat; always: '
        f'{", ".join(ignored_regions.NAMES)}, unless --label_map has them',
    )
    parser.add_argument(
        '--names',
        help='yolo: file of the class names, one a line, or data.yaml (default: classes.txt, '
        'obj.names or data.yaml beside the annotations or a folder above)',
    )


def _add_masks(parser: argparse.ArgumentParser) -> None:
    """Add the flags of masks: what their values, colors and file names mean."""
    parser.add_argument(
        '--mask_values',
        type=_mask_values,
        metavar='0:background,255:cell',
        help='masks: which class each value means, where values are no class ids; the name '
        'background is no class, and what is named ignore counts for nothing; where 0 has another '
        'name and no value is background, this class has the id 0',
    )
    parser.add_argument(
        '--mask_colors',
        type=_mask_colors,
        metavar="'#000000:background,#ff0000:cell'",
        help='masks: which class each color means, where the PNGs have colors; names as with '
        '--mask_values',
    )
    for name, example in (('image', '_leftImg8bit'), ('annotation', '_gtFine_labelTrainIds')):
        parser.add_argument(
            f'--{name}_suffix',
            default='',
            metavar=example,
            help=f'masks, instances: what the stems of the {name}s have behind what an image and '
            'its annotation have in common, as in Cityscapes; folders in folders are read too',
        )
    parser.add_argument(
        '--ignore_label',
        type=_ignore_label,
        metavar='N|none',
        help='masks, instances: value of pixels that count for nothing, written as 255 (default: '
        '255 for masks, none for instances)',
    )
    parser.add_argument(
        '--class_name', default='object', help="instances: the objects' class (default object)"
    )


def _add_tiles(parser: argparse.ArgumentParser) -> None:
    """Add the flags of tiles: squares of large images."""
    parser.add_argument(
        '--tile',
        type=int,
        metavar='PIXELS',
        help='cut images that are larger into squares of this side, with their boxes, masks and '
        'classes of pixels; axis-aligned boxes and masks are clipped, rotated boxes stay whole',
    )
    parser.add_argument(
        '--overlap',
        type=int,
        help='pixels that two tiles share (default a quarter of a tile, at most 200)',
    )
    parser.add_argument(
        '--min_area_inside',
        type=float,
        default=0.7,
        help='objects are in a tile that holds at least this part of their area (default '
        '0.7), crowds in each that holds some of them',
    )
    parser.add_argument(
        '--empty_tiles',
        choices=('keep', 'drop'),
        default='keep',
        help='drop: tiles without an object or a pixel of a class are left out, of which training '
        'has too many where objects are few; keep them for an evaluation (default)',
    )


def _add_image_rules(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how images and the borders of boxes are read."""
    parser.add_argument(
        '--outside',
        choices=('clip', 'error'),
        default='clip',
        help='boxes that reach outside of their image by more than a pixel; clip: they are cut at '
        'its border, and counted (default); error: see --on_error',
    )
    parser.add_argument(
        '--bits',
        type=int,
        choices=range(8, 17),
        metavar='8..16',
        help='of the values in images of 16 bits a channel: 12 where a camera or microscope gives '
        '0 to 4095 (default: all 16)',
    )
    parser.add_argument(
        '--keep_bits',
        action='store_true',
        help='leave PNGs of 16 bits a channel as they are, for readers with image_bits',
    )
    parser.add_argument(
        '--additional_channels',
        action='append',
        metavar='FOLDER',
        help='gray images with the stems of --images: a channel beside the colors; given once for '
        'each channel, for readers with num_additional_channels',
    )
    parser.add_argument(
        '--exif',
        choices=('apply', 'ignore'),
        default='apply',
        help='apply: turn images as their EXIF orientation says, so that they stand as people see '
        'them (default); ignore: keep them as they are stored, which annotations may refer to',
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the output."""
    parser.add_argument(
        '--label_map', required=True, help='read when it exists, written when it does not'
    )
    parser.add_argument(
        '--output_prefix', required=True, help='DIR/train gives DIR/train-00000-of-00004.tfrecord'
    )
    parser.add_argument('--num_shards', type=int, default=4, help='how many files (default 4)')
    parser.add_argument(
        '--split',
        type=_split,
        metavar='train:0.8,val:0.2',
        help='names of parts, and how much of the images each gets: DIR/ as --output_prefix gives '
        'DIR/train-*.tfrecord and DIR/val-*.tfrecord; folders: in each class',
    )
    parser.add_argument(
        '--group',
        default='',
        metavar='auto|REGEX',
        help='images of one group go to one part of --split: auto: copies and frames, by the ends '
        'of their names; REGEX: images whose paths below their common folder have the same match '
        '(or first group of it)',
    )
    parser.add_argument(
        '--seed', type=int, default=0, help='of the split and of the order (default 0)'
    )
    parser.add_argument(
        '--num_workers',
        type=int,
        default=1,
        help='processes; each needs some seconds to start (default 1: threads of this one)',
    )
    parser.add_argument(
        '--runner',
        help='convert as an Apache Beam pipeline, on this runner: DirectRunner, FlinkRunner, '
        'DataflowRunner, SparkRunner .. (default: in this process, without Beam)',
    )
    parser.add_argument(
        '--runner_options',
        metavar="'--region=.. --direct_num_workers=2'",
        help='flags of the runner, in quotes',
    )
    parser.add_argument(
        '--on_error',
        choices=('fail', 'skip'),
        default='fail',
        help='what images, and objects in them, with something wrong do: list all and write '
        'nothing (default), or list all and write the others',
    )


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
    for name in _changed(flags, _FORMATS_OF_FLAGS):
        if flags.format not in _FORMATS_OF_FLAGS[name]:
            raise errors.UserError(
                f'--{name} is not read by --from={flags.format}; it is of '
                f'{errors.shortened([f"--from={each}" for each in _FORMATS_OF_FLAGS[name]])}.'
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
