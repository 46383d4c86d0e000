"""Interface of detection evaluators: they take images one by one and finally compute scalars."""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, TypeVar

import numpy as np

from model_fns.detection.metrics.run_length_masks import RunLengthMasks

_Rows = TypeVar('_Rows', 'Groundtruth', 'Detections')


def _no_ids() -> np.ndarray:
    return np.zeros([0], np.int64)


@dataclasses.dataclass(frozen=True)
class Groundtruth:
    """Groundtruth of an image. Arrays may be views of a batch: an evaluator copies what it keeps.

    Attributes:
        boxes: float32 [n, 4], ymin, xmin, ymax, xmax in pixels of the original image. Rotated
            boxes are float64 [n, 4, 2], y and x of their corners.
        classes: int64 [n], ids from 1.
        is_crowd: bool [n]: several objects as one; their detections are not counted.
        difficult: bool [n]: optional objects (Pascal VOC).
        group_of: bool [n]: five or more objects as one (Open Images).
        areas: float32 [n], pixels of the object; not positive if unknown.
        image_classes: int64 [k]: ids of the classes whose presence or absence in the image was
            verified; empty if the record has none.
        masks: mask of each object; None if no evaluator needs them.
        mask_weights: float32 [n]; 0 for an object without a mask, whose box is used instead.
        keypoints: float32 [n, k, 2], y and x in pixels, NaN for unlabeled keypoints; None if no
            evaluator needs them.
        absent_classes: int64 [k]: ids of classes that were verified to be absent (LVIS).
        incomplete_classes: int64 [k]: ids of classes of which an image lacks objects (LVIS).
    """

    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    difficult: np.ndarray
    group_of: np.ndarray
    areas: np.ndarray
    image_classes: np.ndarray
    masks: Optional[RunLengthMasks] = None
    mask_weights: Optional[np.ndarray] = None
    keypoints: Optional[np.ndarray] = None
    absent_classes: np.ndarray = dataclasses.field(default_factory=_no_ids)
    incomplete_classes: np.ndarray = dataclasses.field(default_factory=_no_ids)

    def kept(self, rows: np.ndarray) -> Groundtruth:
        """Return the objects with a True in bool [n], or those at some indices."""
        whole = ('image_classes', 'absent_classes', 'incomplete_classes')
        return _kept(self, rows, whole=whole)


@dataclasses.dataclass(frozen=True)
class Detections:
    """Detections of an image. Arrays may be views of a batch.

    Attributes:
        boxes: float32 [n, 4] or float64 [n, 4, 2], in pixels of the original image.
        scores: float32 [n].
        classes: int64 [n], ids from 1.
        masks: mask of each detection; None if no evaluator needs them.
        keypoints: float32 [n, k, 2], y and x in pixels; None if no evaluator needs them.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: Optional[RunLengthMasks] = None
    keypoints: Optional[np.ndarray] = None

    def kept(self, rows: np.ndarray) -> Detections:
        """Return the detections with a True in bool [n], or those at some indices."""
        return _kept(self, rows)


class Evaluator(abc.ABC):
    """Evaluator of one set of metrics, which only keeps what these need of an image.

    Args:
        class_names: names by id, from 1.

    Attributes:
        needs: names of `fields` of the labels that it uses besides boxes: masks, keypoints.
    """

    needs: FrozenSet[str] = frozenset()

    def __init__(self, class_names: Mapping[int, str]):
        self.class_names = dict(class_names)

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """List the metrics that `evaluate` may return."""

    def summary_names(self) -> Sequence[str]:
        """List the metrics that are NaN, not omitted, if there are no objects to find."""
        return ()

    @abc.abstractmethod
    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Add one image; the caller makes sure that no image is added twice."""

    @abc.abstractmethod
    def evaluate(self) -> Dict[str, float]:
        """Compute the metrics of all images; undefined metrics are omitted."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Discard all images by assigning new state, which a shallow copy does not share."""

    @property
    def class_ids(self) -> List[int]:
        """All class ids, sorted."""
        return sorted(self.class_names)


def _kept(table: _Rows, rows: np.ndarray, whole: Sequence[str] = ()) -> _Rows:
    """Select rows of all attributes that have rows."""
    selected = {}
    for field in dataclasses.fields(table):
        values = getattr(table, field.name)
        if values is not None and field.name not in whole:
            is_masks = isinstance(values, RunLengthMasks)
            selected[field.name] = values.kept(rows) if is_masks else np.asarray(values)[rows]
    return dataclasses.replace(table, **selected)
