"""The last lines of a conversion: what the records hold."""

from __future__ import annotations

import collections
from typing import Counter, Mapping, NamedTuple, Optional

from model_fns.datasets import records

_MOST_CLASSES = 50
_OBJECT_CLASSES, _IMAGE_CLASS = 'image/object/class/text', 'image/class/text'


class ImageSummary(NamedTuple):
    """The summary of a record.

    Attributes:
        classes: number of objects by class; of a classified image its class; None: no objects are
            listed, as with class ids of pixels.
        num_clipped: boxes cut at the border of the image.
        digest: of the encoded image.
    """

    classes: Optional[Mapping[str, int]]
    num_clipped: int
    digest: str


def summarize(features: records.Features, num_clipped: int) -> ImageSummary:
    """Return the summary of a record's features."""
    classes: Optional[Mapping[str, int]] = None
    if _OBJECT_CLASSES in features:
        classes = collections.Counter(features[_OBJECT_CLASSES])
    elif _IMAGE_CLASS in features:
        classes = {str(features[_IMAGE_CLASS]): 1}
    return ImageSummary(classes, num_clipped, str(features['image/key/sha256']))


class Summary:
    """The summaries of all records; its text has a line for each class."""

    def __init__(self) -> None:
        self._objects: Counter[str] = collections.Counter()
        self._images: Counter[str] = collections.Counter()
        self._digests: Counter[str] = collections.Counter()
        self._num_empty = self._num_clipped = 0

    def add(self, image: Optional[ImageSummary]) -> None:
        """Add a record."""
        if image is None:
            return
        self._digests[image.digest] += 1
        self._num_clipped += image.num_clipped
        if image.classes is not None:
            self._objects.update(image.classes)
            self._images.update(image.classes.keys())
            self._num_empty += not image.classes

    def __str__(self) -> str:
        names = [name for name, _ in self._objects.most_common(_MOST_CLASSES)]
        lines = [
            f'{name}: {_count(self._objects[name], "object")} in '
            f'{_count(self._images[name], "image")}'
            for name in names
        ]
        if len(self._objects) > len(names):
            lines.append(f'and {len(self._objects) - len(names)} classes with fewer objects')
        others = {
            'without objects': self._num_empty,
            'equal to another one': sum(self._digests.values()) - len(self._digests),
        }
        lines += [f'{_count(n, "image")} {what}' for what, n in others.items() if n]
        if self._num_clipped:
            lines.append(f'{_count(self._num_clipped, "object")} cut at the border of the image')
        return '\n'.join([f'converted {_count(sum(self._digests.values()), "image")}:', *lines])


def _count(number: int, what: str) -> str:
    return f'{number} {what}{"" if number == 1 else "s"}'
