"""Targets that read annotations, lists and images, for the converter and for prediction."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import pathlib
import random
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from estimator_lib import errors
from estimator_lib.data.file_examples import UnusableFileError
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.task_interfaces.image_format import ImageFormat
from model_fns.datasets import codecs, conversion, image_sources, readers, sources
from model_fns.datasets.files import image_lists
from model_fns.datasets.formats import (
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
from model_fns.datasets.meaning import checks, readings
from model_fns.datasets.meaning.annotated import Annotated, Object
from protos import input_reader_pb2
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.mutations import mutate_bytes, mutate_json, mutate_text
from tests.campaigns.fuzz.workspace import Workspace

_TILING = Tiling(20, 4)
_ORDERS: Dict[str, Callable[..., List[float]]] = {
    readings.CORNERS: lambda x, y, width, height: [x, y, x + width, y + height],
    readings.SIZES: lambda x, y, width, height: [x, y, width, height],
    readings.CENTERS: lambda x, y, width, height: [x + width / 2, y + height / 2, width, height],
}
_UNITS = ('', 'normalized ')
_ODD_NUMBERS = (float('nan'), float('inf'), -1e308, 1e308, 0.0, -5.0, 2.0**63)
_ENCODINGS = (b'', b'gb2312', b'utf-16', b'hex', b'idna', b'x')


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (
        read_coco, rotated_coco, rle, read_voc, rotated_voc, read_yolo, yolo_data, read_dota,
        read_hrsc, read_masks, read_instances, read_labelme, read_csv, read_panoptic, read_list,
        reader_of_files, image, channel_files, meaning,
    )  # fmt: skip
    return {
        one.__name__.replace('read_', ''): functools.partial(one, workspace) for one in functions
    }


def meaning(workspace: Workspace, generator: random.Random) -> None:
    """Check a whole set of well-formed boxes, which may be of another unit than they say.

    Raises:
        AssertionError: another unit passes in silence, or the right one is refused.
    """
    del workspace
    order, said, actual = generator.choice(list(_ORDERS)), *generator.choices(_UNITS, k=2)
    has_odd_numbers = generator.random() < 0.3
    images = []
    for index in range(generator.randint(4, 8)):
        objects = []
        for number in range(generator.randint(1, 4)):
            width, height = generator.randint(12, 60), generator.randint(12, 60)
            x, y = generator.randint(0, 160 - width), generator.randint(0, 120 - height)
            sides = (160, 120, 160, 120) if actual else (1, 1, 1, 1)
            numbers = [one / side for one, side in zip((x, y, width, height), sides)]
            numbers = _ORDERS[order](*numbers)
            if has_odd_numbers:
                numbers[generator.randrange(4)] = generator.choice(_ODD_NUMBERS)
            objects.append(Object(f'object {number}', numbers, said + order, name='cat'))
        place = f'{index}.jpg'
        images.append(Annotated(place, (120, 160), objects, len(objects), source_id=place))
    found = checks.find(images, ['cat'])
    if not has_odd_numbers and (said != actual) != bool(found):
        raise AssertionError(f'{actual}{order}, said to be {said}{order}: {found}')
    checks.refuse_errors(found)


def read_coco(workspace: Workspace, generator: random.Random) -> None:
    """Convert an instances JSON."""
    path = workspace.file('malformed.json', mutate_json(generator, valid_inputs.COCO))
    draws_classes = generator.random() < 0.5
    source = coco.Coco(str(workspace.images), path, draws_classes=draws_classes)
    _convert(workspace, generator, source, generator.choice((None, _TILING)))


def rotated_coco(workspace: Workspace, generator: random.Random) -> None:
    """Convert an instances JSON to rotated boxes of tiles."""
    path = workspace.file('malformed.json', mutate_json(generator, valid_inputs.COCO))
    source = coco.Coco(str(workspace.images), path, False, True)
    _convert(workspace, generator, source, _TILING)


def rle(workspace: Workspace, generator: random.Random) -> None:
    """Convert an instances JSON whose run-length encoded masks alone are malformed."""
    content = copy.deepcopy(valid_inputs.COCO)
    annotation = generator.choice(content['annotations'][1:])
    mask = annotation['segmentation']
    before = json.dumps(mask).encode()
    malformed = mutate_json(generator, mask)
    if isinstance(mask['counts'], str) and generator.random() < 0.5:
        counts = mutate_text(generator, mask['counts']).decode(errors='replace')
        malformed = json.dumps({**mask, 'counts': counts}).encode()
    encoded = json.dumps(content).encode().replace(before, malformed)
    path = workspace.file('malformed.json', encoded)
    _convert(workspace, generator, coco.Coco(str(workspace.images), path))


def read_voc(workspace: Workspace, generator: random.Random) -> None:
    """Convert an XML file."""
    folder = _annotations(workspace, 'a.xml', mutate_text(generator, valid_inputs.VOC))
    _convert(workspace, generator, voc.PascalVoc(str(workspace.images), folder))


def rotated_voc(workspace: Workspace, generator: random.Random) -> None:
    """Convert an XML file of rotated boxes, in some encoding."""
    content = mutate_text(generator, valid_inputs.ROTATED_VOC)
    encoding = generator.choice(_ENCODINGS)
    if encoding:
        content = b'<?xml version="1.0" encoding="' + encoding + b'"?>' + content
    folder = _annotations(workspace, 'a.xml', content)
    _convert(workspace, generator, voc.PascalVoc(str(workspace.images), folder, True))


def read_yolo(workspace: Workspace, generator: random.Random) -> None:
    """Convert a text file of boxes."""
    folder = _annotations(workspace, 'a.txt', mutate_text(generator, valid_inputs.YOLO))
    names = {0: 'cat', 1: 'dog'}
    _convert(workspace, generator, yolo.Yolo(str(workspace.images), folder, names))


def yolo_data(workspace: Workspace, generator: random.Random) -> None:
    """Read a data file of YOLO, and convert labels with keypoints."""
    text = valid_inputs.YOLO_DATA
    if generator.random() < 0.3:
        text += generator.choice(valid_inputs.ODD_YAML)
    path = workspace.file('data.yaml', mutate_text(generator, text))
    names, shape = yolo.read_names(path), yolo.read_keypoint_shape(path)
    folder = _annotations(workspace, 'a.txt', mutate_text(generator, valid_inputs.YOLO_POSE))
    _convert(workspace, generator, yolo.Yolo(str(workspace.images), folder, names, shape))


def read_dota(workspace: Workspace, generator: random.Random) -> None:
    """Convert a text file of quadrilaterals."""
    folder = _annotations(workspace, 'a.txt', mutate_text(generator, valid_inputs.DOTA))
    _convert(workspace, generator, dota.Dota(str(workspace.images), folder), _TILING)


def read_hrsc(workspace: Workspace, generator: random.Random) -> None:
    """Convert an XML file of ships."""
    folder = _annotations(workspace, 'a.xml', mutate_text(generator, valid_inputs.HRSC))
    _convert(workspace, generator, hrsc.Hrsc(str(workspace.images), folder))


def read_masks(workspace: Workspace, generator: random.Random) -> None:
    """Convert a PNG of class ids or of colors."""
    content = (workspace.images / 'a.png').read_bytes()
    if generator.random() < 0.5:
        content = codecs.encode_png(np.eye(valid_inputs.SIZE, dtype=np.uint8))
    folder = _annotations(workspace, 'a.png', mutate_bytes(generator, content))
    values, are_colors = generator.choice(((None, False), ({0: 'cat', 50: 'dog'}, True)))
    source = masks.Masks(str(workspace.images), folder, 255, values, are_colors)
    _convert(workspace, generator, source)


def read_instances(workspace: Workspace, generator: random.Random) -> None:
    """Convert a PNG of instance ids, of 8 or 16 bits."""
    kind = generator.choice((np.uint8, np.uint16))
    content = codecs.encode_png(np.eye(valid_inputs.SIZE, dtype=kind))
    folder = _annotations(workspace, 'a.png', mutate_bytes(generator, content))
    _convert(workspace, generator, instances.Instances(str(workspace.images), folder))


def read_labelme(workspace: Workspace, generator: random.Random) -> None:
    """Convert a JSON file of polygons."""
    folder = _annotations(workspace, 'a.json', mutate_json(generator, valid_inputs.LABELME))
    is_rotated = generator.random() < 0.5
    source = labelme.Labelme(str(workspace.images), folder, is_rotated, not is_rotated)
    _convert(workspace, generator, source)


def read_csv(workspace: Workspace, generator: random.Random) -> None:
    """Convert a table of boxes or labels."""
    table = generator.choice(valid_inputs.TABLES)
    path = workspace.file('malformed.csv', mutate_text(generator, table))
    _convert(workspace, generator, csv_tables.CsvTable(str(workspace.images), path))


def read_panoptic(workspace: Workspace, generator: random.Random) -> None:
    """Convert a panoptic JSON, or a PNG of its segments."""
    colors = np.zeros([valid_inputs.SIZE, valid_inputs.SIZE, 3], np.uint8)
    colors[2:8, 3:9] = [7, 1, 0]
    content, png = json.dumps(valid_inputs.PANOPTIC).encode(), codecs.encode_png(colors)
    if generator.random() < 0.7:
        content = mutate_json(generator, valid_inputs.PANOPTIC)
    else:
        png = mutate_bytes(generator, png)
    (workspace.empty('malformed') / 'a.png').write_bytes(png)
    path = workspace.file('malformed.json', content)
    _convert(workspace, generator, panoptic.Panoptic(str(workspace.images), path))


def reader_of_files(workspace: Workspace, generator: random.Random) -> None:
    """Read an instances JSON or an XML file without a conversion."""
    reader = input_reader_pb2.InputReader(label_map_path=str(workspace.folder / 'label_map.pbtxt'))
    reader.corrupt_record_policy = generator.choice((input_reader_pb2.FAIL, input_reader_pb2.SKIP))
    if generator.random() < 0.5:
        message = reader.coco_input_reader
        path = workspace.file('malformed.json', mutate_json(generator, valid_inputs.COCO))
        reader.load_instance_masks = generator.random() < 0.5
    else:
        message = reader.voc_input_reader
        path = _annotations(workspace, 'a.xml', mutate_text(generator, valid_inputs.VOC))
    message.image_path.append(str(workspace.images))
    message.annotation_path.append(path)
    readers.forget_listings()
    files = readers.open_files(reader, 0)
    files.contents()
    for index in range(len(files)):
        with contextlib.suppress(UnusableFileError):
            files.read(index)


def read_list(workspace: Workspace, generator: random.Random) -> None:
    """Read a list of images, for the converter or for prediction."""
    if generator.random() < 0.5:
        path = workspace.file('list.txt', mutate_text(generator, valid_inputs.LIST))
        items = [sources.Item(stem, str(workspace.images / f'{stem}.png'), stem) for stem in 'ab']
        image_lists.select(items, image_lists.read(path))
    else:
        path = workspace.file('list.txt', mutate_text(generator, valid_inputs.LIST_TO_PREDICT))
        _read_images(path)


def image(workspace: Workspace, generator: random.Random) -> None:
    """Convert and read an image."""
    name = generator.choice(sorted(workspace.pictures))
    content = mutate_bytes(generator, workspace.pictures[name])
    classes = workspace.empty('classes')
    (classes / 'cat').mkdir()
    (classes / 'cat' / name).write_bytes(content)
    with contextlib.suppress(errors.UserError):
        _convert(workspace, generator, folders.Folders(str(classes)))
    _read_images(str(classes))


def channel_files(workspace: Workspace, generator: random.Random) -> None:
    """Read folders of further channels and images of 16 bits, for training and prediction."""
    reader = input_reader_pb2.InputReader(label_map_path=str(workspace.folder / 'label_map.pbtxt'))
    reader.corrupt_record_policy = generator.choice((input_reader_pb2.FAIL, input_reader_pb2.SKIP))
    reader.image_bits = generator.choice((8, 12, 16))
    photos = workspace.empty('photos')
    (photos / 'cat').mkdir()
    size, channels = valid_inputs.SIZE, generator.choice((1, 3, 4))
    picture = valid_inputs.deep_png(np.full([size, size, channels], 4000))
    if generator.random() < 0.3:
        picture = mutate_bytes(generator, picture)
    (photos / 'cat' / 'a.png').write_bytes(picture)
    message = reader.folder_input_reader
    message.image_path.append(str(photos))
    paths = [workspace.empty(name) for name in ('near', 'far')]
    for path in paths:
        _write_channel(generator, path)
    message.options.additional_channel_path.extend(map(str, paths))
    readers.forget_listings()
    files = readers.open_files(reader, 0)
    files.contents()
    with contextlib.suppress(UnusableFileError):
        files.read(0)
    image_format = ImageFormat(len(paths), reader.image_bits)
    _read_images(str(photos), True, None, image_format, [str(path) for path in paths])


def _write_channel(generator: random.Random, folder: pathlib.Path) -> None:
    """Write the channel of the image `a`: usable, of another size, corrupt, twice or not."""
    sides = [generator.choice((valid_inputs.SIZE,) * 5 + (1, 31)) for _ in range(2)]
    content = codecs.encode_png(np.full(sides, 9, generator.choice((np.uint8, np.uint16))))
    if generator.random() < 0.3:
        content = mutate_bytes(generator, content)
    name = generator.choice(('a.png', 'a.png', 'a.png', 'a.tif', 'b.png'))
    (folder / name).write_bytes(content)
    if generator.random() < 0.1:
        (folder / 'cat').mkdir()
        (folder / 'cat' / 'a.png').write_bytes(content)


def _read_images(path: str, *options: Any) -> None:
    found = image_sources.find_images(path, *options)
    image_sources.unique_stems(found.paths)
    for one in found:
        one.read()


def _annotations(workspace: Workspace, name: str, content: bytes) -> str:
    folder = workspace.empty('annotations')
    (folder / name).write_bytes(content)
    return str(folder)


def _convert(
    workspace: Workspace,
    generator: random.Random,
    source: sources.Source,
    tiling: Optional[Tiling] = None,
) -> None:
    folder = workspace.empty('converted')
    skips, clips = generator.random() < 0.5, generator.random() < 0.5
    options = conversion.Options(1, skip_problems=skips, clips=clips, tiling=tiling)
    known = workspace.folder / 'label_map.pbtxt'
    label_map = known if generator.random() < 0.5 else folder / 'label_map.pbtxt'
    conversion.convert(source, str(label_map), str(folder / 'train'), options)
