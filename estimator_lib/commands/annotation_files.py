"""Predictions as files of annotations, which other tools read: YOLO's and Pascal VOC's.

Each image has a file in the folder of its format. All have the scores' threshold behind them, not
the scores: these formats have no place for those.
"""

from __future__ import annotations

import json
from typing import Callable, Dict, Mapping, NamedTuple, Sequence, Tuple
from xml.etree import ElementTree

import numpy as np

from estimator_lib import texts
from estimator_lib.drawing import outlines
from estimator_lib.task import Region

# The first line of `Format.mark_file`. Without it, files of annotations are of another program.
MARK = '# Written by --mode=predict.'

Size = Tuple[int, ...]  # height and width of an image in pixels


class Format(NamedTuple):
    """Format of annotations.

    Attributes:
        folder: of the files of images.
        ending: of their names.
        encode: returns the file of an image, from its name, its size, its regions and the names of
            the classes.
        encode_shared: returns the files for all images by name, from the names of the classes.
        mark_file: name of the one that begins with `MARK`.
    """

    folder: str
    ending: str
    encode: Callable[[str, Size, Sequence[Region], Sequence[str]], bytes]
    encode_shared: Callable[[Sequence[str]], Mapping[str, bytes]]
    mark_file: str


def yolo_file(name: str, size: Size, regions: Sequence[Region], classes: Sequence[str]) -> bytes:
    """Return the text file of an image: a line for each region.

    A box is `class center_x center_y width height`. The corners of a rotated box, and the polygon
    around a mask, are `class x y x y ..`. Classes are counted from 0, other numbers are normalized
    by the sides of the image. A mask without pixels is written as its box.

    Args:
        name: not used: the format has no place for it.
        size: height and width of the image.
        regions: of the image.
        classes: not used: see `yolo_shared_files`.
    """
    del name, classes
    return ''.join(f'{_yolo_line(region, size)}\n' for region in regions).encode()


def _yolo_line(region: Region, size: Size) -> str:
    if region.corners is not None:
        numbers = _normalized(region.corners, size)
    elif region.mask is not None and region.mask.any():
        numbers = _normalized(outlines.polygon(region.mask) + region.origin, size)
    else:
        top, left, bottom, right = _clipped(region.box, size)
        sides = np.array([[top + bottom, left + right], [2 * (bottom - top), 2 * (right - left)]])
        numbers = _normalized(sides / 2, size)
    # Six decimals, as labelImg writes them: a hundredth of a pixel at a side of 10,000.
    return ' '.join([str(region.class_index), *(f'{number:.6f}' for number in numbers)])


def _normalized(points: np.ndarray, size: Size) -> Sequence[float]:
    """Return x, y, x, y, .. of points [n, 2] (y and x in pixels), normalized by the sides."""
    return (np.asarray(points, np.float64) / size)[:, ::-1].ravel().tolist()


def _clipped(box: Sequence[float], size: Size) -> Sequence[float]:
    return [min(max(side, 0.0), float(most)) for side, most in zip(box, [*size, *size])]


def yolo_shared_files(classes: Sequence[str]) -> Dict[str, bytes]:
    """Return `data.yaml` and `classes.txt`, which have the names of the classes in order.

    Args:
        classes: names by their numbers, from 0.
    """
    # JSON's texts are those of YAML too, also `no` and names with a colon.
    names = [f'  {index}: {json.dumps(name)}' for index, name in enumerate(classes)]
    lines = [MARK, 'path: .', 'train: images', 'val: images', 'names:', *names]
    return {
        'data.yaml': ('\n'.join(lines) + '\n').encode(),
        'classes.txt': ''.join(f'{texts.escaped(name)}\n' for name in classes).encode(),
    }


def voc_file(name: str, size: Size, regions: Sequence[Region], classes: Sequence[str]) -> bytes:
    """Return the XML file of an image: an `object` for each region.

    Sides are distances from the left and upper border in pixels, with fractions. Rotated boxes have
    a `robndbox` beside the `bndbox` around it. Masks are left out: the format has none.

    Args:
        name: file name of the image.
        size: height and width of the image.
        regions: of the image.
        classes: names of the classes.
    """
    root = ElementTree.Element('annotation')
    _add(root, 'filename', name)
    sizes = ElementTree.SubElement(root, 'size')
    for side, pixels in (('width', size[1]), ('height', size[0]), ('depth', 3)):
        _add(sizes, side, str(pixels))
    _add(root, 'segmented', '0')
    for region in regions:
        _add_object(root, region, size, classes)
    ElementTree.indent(root)
    return ElementTree.tostring(root) + b'\n'


def _add_object(
    root: ElementTree.Element, region: Region, size: Size, classes: Sequence[str]
) -> None:
    element = ElementTree.SubElement(root, 'object')
    if region.rotated is not None:
        _add(element, 'type', 'robndbox')
    _add(element, 'name', classes[region.class_index])
    for tag, text in (('pose', 'Unspecified'), ('truncated', '0'), ('difficult', '0')):
        _add(element, tag, text)
    top, left, bottom, right = _clipped(region.box, size)
    sides = (('xmin', left), ('ymin', top), ('xmax', right), ('ymax', bottom))
    _add_numbers(element, 'bndbox', sides, decimals=2)
    if region.rotated is not None:
        cy, cx, height, width, angle = region.rotated
        numbers = (('cx', cx), ('cy', cy), ('w', width), ('h', height), ('angle', angle))
        _add_numbers(element, 'robndbox', numbers, decimals=6)


def _add_numbers(
    parent: ElementTree.Element, tag: str, numbers: Sequence[Tuple[str, float]], decimals: int
) -> None:
    box = ElementTree.SubElement(parent, tag)
    for name, number in numbers:
        _add(box, name, f'{number:.{decimals}f}')


def _add(parent: ElementTree.Element, tag: str, text: str) -> None:
    # XML has no place for control characters, not even as numbers.
    ElementTree.SubElement(parent, tag).text = texts.escaped(text)


def voc_shared_files(classes: Sequence[str]) -> Dict[str, bytes]:
    """Return `labelmap.txt`, which names classes that are not Pascal's in CVAT.

    Args:
        classes: names of the classes.
    """
    lines = [
        MARK,
        '# label:color_rgb:parts:actions',
        *(f'{texts.escaped(name)}:::' for name in classes),
    ]
    return {'labelmap.txt': ('\n'.join(lines) + '\n').encode()}


FORMATS = {
    'yolo': Format('labels', '.txt', yolo_file, yolo_shared_files, 'data.yaml'),
    'voc': Format('Annotations', '.xml', voc_file, voc_shared_files, 'labelmap.txt'),
}
