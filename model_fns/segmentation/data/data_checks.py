"""Checks of segmentation records: classes of pixels, and what the values of masks mean."""

from __future__ import annotations

from typing import Callable, Collection, List, Optional, Sequence

from model_fns.class_checks import ClassChecks
from model_fns.class_report import Record
from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue
from model_fns.datasets.meaning.pixels import PixelValues
from model_fns.segmentation.data import inputs
from model_fns.segmentation.data.presets import Dataset
from model_fns.structures import images
from model_fns.structures.channels import THREE_COLORS, Channels

_HINT = f'Expected the number of a class at each pixel of {inputs.CLASSES_KEY}'
_MOST_FIRST = 20  # masks that the start of a run decodes


class SegmentationChecks(ClassChecks):
    """Data checks of segmentation.

    Args:
        dataset: the classes.
        are_named: whether a label map names the classes.
        reads_instances: whether the model learns instances.
        channels: of the images.
        max_pixels: limit of the size of a decoded image.
        check_sizes: refuses images that exceed the size of evaluations.
    """

    def __init__(
        self,
        dataset: Dataset,
        are_named: bool = True,
        reads_instances: bool = False,
        channels: Channels = THREE_COLORS,
        max_pixels: int = images.MAX_PIXELS,
        check_sizes: Callable[[], None] = lambda: None,
    ):
        super().__init__(dict(enumerate(dataset.class_names)), 'pixels')
        self._dataset = dataset
        self._are_ids = not are_named and not dataset.name  # nobody named the classes
        self._reads_instances = reads_instances
        self._channels, self._max_pixels = channels, max_pixels
        self._check_sizes = check_sizes

    def check_evaluation(self) -> None:
        """Check, once, that no image exceeds the size of evaluations in the config."""
        self._check_sizes()

    def check_example(self, serialized: bytes) -> Optional[str]:
        """Describe the first problem of a record's keys and headers; None: it has none."""
        return inputs.find_problem(serialized, self._reads_instances, self._channels)

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Check what the values of the first masks mean."""
        are_all = are_all and len(records) <= _MOST_FIRST
        return super().check_first_examples(records[:_MOST_FIRST], are_all)

    def examine(self, serialized: bytes) -> Record:
        """Count the pixels of each value in a valid record."""
        annotated = inputs.annotate(serialized)
        return Record(annotated.pixels, annotated)

    def list_classes(self, serialized: bytes) -> Collection[int]:
        """Return the classes of the pixels of an image."""
        classes = self._dataset.num_classes, self._dataset.ignore_label
        return inputs.list_classes(serialized, *classes, self._max_pixels)

    def annotate(self, serialized: bytes) -> Optional[Annotated]:
        """Return the values of a mask; None: the record has no valid one."""
        return inputs.annotate(serialized)

    def find_issues(self, images: Sequence[Annotated]) -> List[Issue]:
        """Return the issues of values that are no classes."""
        values = PixelValues(self._dataset.ignore_label, self._are_ids, _HINT)
        return checks.find(images, more=[values])
