"""Examination of all annotations of a data set before its images are converted or trained on."""

from __future__ import annotations

import concurrent.futures
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf
import tqdm

from estimator_lib import errors
from model_fns.datasets import ignored_regions, image_files, records, sources
from model_fns.datasets.files import folder_files
from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue
from model_fns.datasets.meaning.readings import LyingPictures
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_THREADS = 16  # that wait for the headers of image files
_AT_ONCE = 4096  # headers in memory


# Header of an image, and its size if its EXIF orientation is treated otherwise.
_Header = Tuple[images.ImageHeader, Optional[Tuple[int, int]]]


class Annotation(NamedTuple):
    """What the annotation of an image says.

    Attributes:
        item: the image.
        header: its format and size.
        features: of a record, without those of the image; None: it is of an image of another size.
        report: the objects as the file has them, and those that are left out.
        other_size: of the image if its EXIF orientation is treated otherwise.
    """

    item: Item
    header: images.ImageHeader
    features: Optional[records.Features]
    report: sources.Report
    other_size: Optional[Tuple[int, int]] = None


def examine(
    source: Source, items: Sequence[Item], classes: LabelMap, clips: bool, apply_exif: bool
) -> List[Issue]:
    """Check what the annotations of a data set mean, all of them together.

    Images are not decoded, and masks are not drawn. Images and annotations that cannot be read are
    left out: each is reported when it is converted.

    Args:
        source: the data set.
        items: its images, in the order of the files.
        classes: the label map.
        clips: boxes that reach outside of the image are clipped; else they are left out.
        apply_exif: images are rotated as their EXIF orientation says.
    """
    names, most = list(classes.names.values()), source.most_checked
    if most is not None and len(items) > most:
        items = [items[index * len(items) // most] for index in range(most)]
        names = []  # a class without objects in a sample may have some
    annotations = read(source.undrawn(), items, classes, clips, apply_exif)
    more = [LyingPictures(apply_exif), *source.further_checks()]
    return checks.find(_annotated(annotations), names, source.labels(classes), more)


def _annotated(annotations: Iterable[Annotation]) -> Iterator[Annotated]:
    """Yield what checks of a whole set take."""
    for item, header, features, report, other_size in annotations:
        size = (header.height, header.width)
        if features is None:
            if other_size is not None:
                yield Annotated(item.path, size, other_size=other_size, has_other_size=True)
            continue
        count = sources.count_objects(features)
        # The pixels of other classes make a record of an image without objects.
        num_kept = len(report.objects) if count is None else count
        yield Annotated(
            item.path,
            size,
            report.objects,
            num_kept,
            report.pixels,
            item.source_id,
            other_size=other_size,
        )


def read(
    source: Source, items: Sequence[Item], classes: LabelMap, clips: bool, apply_exif: bool
) -> Iterator[Annotation]:
    """Yield the annotations that can be read, in the order of the items; images are not decoded.

    Args:
        source: the data set, see `Source.undrawn`.
        items: its images.
        classes: the label map.
        clips: boxes that reach outside of the image are clipped; else they are left out.
        apply_exif: images are rotated as their EXIF orientation says.
    """
    extended = ignored_regions.extend(classes, source)
    for item, sizes in zip(items, _read_sizes(items, apply_exif, 'annotations')):
        annotation = sizes and _annotation(source, item, sizes, extended, clips)
        if annotation and annotation.features is not None:
            features, annotation.report.num_ignored = ignored_regions.expand(
                annotation.features, classes, annotation.report
            )
            annotation = annotation._replace(features=features)
        if annotation:
            yield annotation


def _header(item: Item, apply_exif: bool) -> Optional[_Header]:
    """Return the sizes of an image; None where it is reported when the item is converted."""
    try:
        with folder_files.open_binary(item.path) as file:
            return image_files.read_header(file, apply_exif)
    except (errors.DataError, OSError, ValueError, tf.errors.OpError):
        return None


def read_headers(items: Sequence[Item], apply_exif: bool) -> Iterator[Optional[images.ImageHeader]]:
    """Yield the header of each image; None where it is reported when the item is converted."""
    for sizes in _read_sizes(items, apply_exif, 'sizes'):
        yield None if sizes is None else sizes[0]


def _read_sizes(items: Sequence[Item], apply_exif: bool, title: str) -> Iterator[Optional[_Header]]:
    """Yield the sizes of each image, read ahead by threads, with a progress bar."""
    bar = tqdm.tqdm(total=len(items), desc=title, unit='image', disable=None)
    with bar, concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            for sizes in pool.map(lambda item: _header(item, apply_exif), part):
                bar.update()
                yield sizes


def _annotation(
    source: Source, item: Item, sizes: _Header, classes: LabelMap, clips: bool
) -> Optional[Annotation]:
    """Return the annotation of an image; None where it is of no use as a whole."""
    report = sources.Report(clips)
    header, other_size = sizes
    try:
        features = source.features(item, header, classes, report)
    except sources.SizeError:  # reported when the item is converted, as other errors are
        return Annotation(item, header, None, report, other_size)
    except errors.DataError:
        return None
    return Annotation(item, header, features, report, other_size)
