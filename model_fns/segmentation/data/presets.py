"""Known data sets: names and colors of their classes, and their ignore labels.

A pipeline names one (`model.segmentation.dataset`), or has its own fields and a label map.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing import colors
from estimator_lib.drawing.colors import Color
from estimator_lib.registry import Registry
from model_fns.segmentation import fields
from model_fns.segmentation.data import preset_tables as tables
from model_fns.segmentation.data import targets
from model_fns.structures.label_map import LabelMap
from protos import field_rules, segmentation_pb2

IGNORED_COLOR: Color = (224, 224, 224)
BACKGROUND_COLOR: Color = (0, 0, 0)
_CLASSES = segmentation_pb2.Segmentation.DESCRIPTOR.fields_by_name['num_classes']


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Labels of a data set.

    Attributes:
        name: of the data set; '' without one.
        class_names: in the order of the classes, from 0.
        ignore_label: value of ignored pixels. It may be one of the classes (ADE20K).
        class_colors: of each class.
        submission_ids: id of each class in files for the data set's evaluation server; empty where
            it is the class itself.
    """

    name: str
    class_names: Tuple[str, ...]
    ignore_label: int
    class_colors: Tuple[Color, ...]
    submission_ids: Tuple[int, ...] = ()

    @property
    def num_classes(self) -> int:
        """The number of classes, the background included."""
        return len(self.class_names)

    def unify_ignored(self, labels: Mapping[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        """Return labels of a program's own input_fn as records have them.

        Args:
            labels: [batch, height, width], by the names of `fields`; 255 of `SEMANTIC` becomes the
                ignore label.
        """
        classes = labels[fields.SEMANTIC]
        unified = targets.unify_ignored(classes, self.num_classes, self.ignore_label)
        return {**labels, fields.SEMANTIC: unified}

    def color_map(self) -> np.ndarray:
        """Return the colors of the classes and of ignored pixels: uint8 [num_classes + 1, 3]."""
        return np.array([*self.class_colors, IGNORED_COLOR], np.uint8)

    def colored(self, classes: np.ndarray) -> np.ndarray:
        """Map classes to colors.

        Args:
            classes: int [height, width]; the ignore label and other values that are no class get
                `IGNORED_COLOR`.

        Returns:
            uint8 [height, width, 3].
        """
        known = (classes >= 0) & (classes < self.num_classes) & (classes != self.ignore_label)
        return self.color_map()[np.where(known, classes, self.num_classes)]

    def to_submission_ids(self, classes: np.ndarray) -> np.ndarray:
        """Map classes to the ids of the data set's evaluation server.

        Args:
            classes: int [height, width], all from 0 to num_classes - 1.

        Returns:
            uint8 [height, width]; uint16 where ids are above 255.
        """
        if self.submission_ids:
            classes = np.array(self.submission_ids)[classes]
        return classes.astype(np.uint8 if classes.max(initial=0) <= 255 else np.uint16)


PRESETS: Registry[Dataset] = Registry('segmentation data set')


def get_dataset(name: str, where: str = 'model.segmentation.dataset') -> Dataset:
    """Return the known data set of that name.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    return PRESETS.get(name, where)


def from_config(
    config: segmentation_pb2.Segmentation, label_map: Optional[LabelMap] = None
) -> Dataset:
    """Return the labels that a config describes: its fields over those of its `dataset`.

    Args:
        config: `model.segmentation`.
        label_map: names of the classes; 0 is the background where it has no name.

    Raises:
        errors.ConfigError: the data set is unknown; there is neither a data set nor a number of
            classes; or the ignore label cannot be one.
        errors.DataError: the label map has a class beyond the last one.
    """
    known = get_dataset(config.dataset) if config.dataset else None
    if known is None and not config.num_classes:
        raise errors.ConfigError(
            'model.segmentation: neither num_classes nor dataset is set; expected the number of '
            'classes with the background, or a data set: ' + ', '.join(PRESETS) + '.'
        )
    num_classes = config.num_classes or known.num_classes
    ignore_label = config.ignore_label
    if known is not None and not config.HasField('ignore_label'):
        ignore_label = known.ignore_label
    _check_numbers(num_classes, ignore_label)
    names = [f'class {index}' for index in range(num_classes)]
    shown = list(generated_colors(num_classes))
    if known is not None:
        names[: known.num_classes] = known.class_names[:num_classes]
        shown[: known.num_classes] = known.class_colors[:num_classes]
    if label_map is not None:
        _put_names(names, label_map, known)
    submission_ids = known.submission_ids if known and num_classes == known.num_classes else ()
    return Dataset(config.dataset, tuple(names), ignore_label, tuple(shown), submission_ids)


def _put_names(names: List[str], label_map: LabelMap, known: Optional[Dataset]) -> None:
    """Overwrite names with those of a label map, in place; it may have no item for class 0."""
    last = len(names) - 1
    if label_map.max_id > last:
        item = label_map.item(label_map.max_id)
        raise errors.DataError(
            f'{label_map.path or "label map"}: item {item.name!r} has id {item.id}, but the model '
            f'has {len(names)} classes with the background; ids must be from 0 to {last}.'
        )
    if known is None:
        names[0] = 'background'
    for class_id, name in label_map.names.items():
        names[class_id] = name


def _check_numbers(num_classes: int, ignore_label: int) -> None:
    if num_classes < 2:
        raise errors.ConfigError(
            f'model.segmentation.num_classes: {num_classes}; expected at least 2, one of them the '
            'background.'
        )
    allowed = field_rules.get_range(_CLASSES)
    if allowed is not None and not allowed.holds(num_classes):  # Each class gets a name below.
        raise errors.ConfigError(
            f'model.segmentation.num_classes: {num_classes}; expected {allowed}.'
        )
    if not 0 <= ignore_label <= 65535:
        raise errors.ConfigError(
            f'model.segmentation.ignore_label: {ignore_label}; expected a value that a label image '
            'can have, from 0 to 65535.'
        )


def bit_colors(count: int) -> Tuple[Color, ...]:
    """Return the colors of Pascal VOC: a channel has every third bit of the class, reversed."""
    bits = (np.arange(count)[:, np.newaxis] >> np.arange(24)) & 1  # [count, bit]
    weights = 128 >> np.arange(8)
    channels = [(bits[:, channel::3] * weights).sum(axis=1) for channel in range(3)]
    return tuple((int(red), int(green), int(blue)) for red, green, blue in zip(*channels))


def generated_colors(count: int) -> Tuple[Color, ...]:
    """Return black for class 0, and distinct bright colors for the other classes."""
    others = [colors.class_color(index) for index in range(1, count)]
    return (BACKGROUND_COLOR, *others)


def _add(
    name: str,
    names: Sequence[str],
    ignore_label: int,
    class_colors: Sequence[Color],
    submission_ids: Sequence[int] = (),
) -> None:
    dataset = Dataset(name, tuple(names), ignore_label, tuple(class_colors), tuple(submission_ids))
    PRESETS.add(name, dataset)


def _paired(pairs: Dict[str, Color]) -> Dict[str, Sequence]:
    return {'names': list(pairs), 'class_colors': list(pairs.values())}


_add('pascal_voc', tables.PASCAL_VOC, 255, bit_colors(len(tables.PASCAL_VOC)))
_add(
    'cityscapes',
    **_paired(tables.CITYSCAPES),
    ignore_label=255,
    submission_ids=tables.CITYSCAPES_LABEL_IDS,
)
_add('ade20k', tables.ADE20K, 0, (BACKGROUND_COLOR, *tables.ADE20K_COLORS))
_add('camvid', **_paired(tables.CAMVID), ignore_label=11)
