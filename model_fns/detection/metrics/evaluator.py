"""What a detection evaluator is: images go in one by one, scalars come out at the end."""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, TypeVar

import numpy as np

from model_fns.detection.metrics.run_length_masks import RunLengthMasks

_Rows = TypeVar('_Rows', 'Groundtruth', 'Detections')


@dataclasses.dataclass(frozen=True)
class Groundtruth:
    """What an image shows. Arrays may be views of a batch: an evaluator copies what it keeps.

    Attributes:
        boxes: float32 [n, 4], ymin, xmin, ymax, xmax in pixels of the original image; of rotated
            boxes float64 [n, 4, 2], the y and x of their corners.
        classes: int64 [n], ids from 1.
        is_crowd: bool [n]: several objects as one; detections of it count for nothing.
        difficult: bool [n]: finding or missing it counts for nothing (Pascal VOC).
        group_of: bool [n]: five or more objects as one (Open Images).
        areas: float32 [n], pixels of the object; not positive where it is not known.
        image_classes: int64 [k]: ids of the classes that somebody looked for in the image, and
            found or not; empty where the record does not say.
        masks: of each object; None where no evaluator needs them.
        mask_weights: float32 [n]; 0 where an object has no mask, and its box stands for it.
        keypoints: float32 [n, k, 2], y and x in pixels, NaN where a keypoint is not labeled; None
            where no evaluator needs them.
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

    def kept(self, which: np.ndarray) -> Groundtruth:
        """Return the objects for which `which`, bool [n], is true."""
        return _kept(self, which, whole=('image_classes',))


@dataclasses.dataclass(frozen=True)
class Detections:
    """What a model found in an image. Arrays may be views of a batch.

    Attributes:
        boxes: float32 [n, 4] or float64 [n, 4, 2], in pixels of the original image.
        scores: float32 [n].
        classes: int64 [n], ids from 1.
        masks: of each; None where no evaluator needs them.
        keypoints: float32 [n, k, 2], y and x in pixels; None where no evaluator needs them.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: Optional[RunLengthMasks] = None
    keypoints: Optional[np.ndarray] = None

    def kept(self, which: np.ndarray) -> Detections:
        """Those for which `which`, bool [n], is true, or those at its places."""
        return _kept(self, which)


class Evaluator(abc.ABC):
    """One set of metrics. It keeps no more of an image than they need.

    Args:
        class_names: names by id, from 1.

    Attributes:
        needs: the names of `fields` in labels beyond boxes that it looks at: masks, keypoints.
    """

    needs: FrozenSet[str] = frozenset()

    def __init__(self, class_names: Mapping[int, str]):
        self.class_names = dict(class_names)

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """Return the metrics that `evaluate` may return."""

    def summary_names(self) -> Sequence[str]:
        """Return the metrics that are NaN, not left out, where there is nothing to find."""
        return ()

    @abc.abstractmethod
    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Take one image; the caller sees to it that no image comes twice."""

    @abc.abstractmethod
    def evaluate(self) -> Dict[str, float]:
        """Return the metrics of all images; one that the data cannot tell is left out."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Forget all images, by new empty state: a shallow copy keeps what it has."""

    @property
    def class_ids(self) -> List[int]:
        """All class ids, sorted."""
        return sorted(self.class_names)


def _kept(rows: _Rows, which: np.ndarray, whole: Sequence[str] = ()) -> _Rows:
    """Return some of the rows of all that has a row each."""
    chosen = {}
    for field in dataclasses.fields(rows):
        values = getattr(rows, field.name)
        if values is not None and field.name not in whole:
            of_masks = isinstance(values, RunLengthMasks)
            chosen[field.name] = values.kept(which) if of_masks else np.asarray(values)[which]
    return dataclasses.replace(rows, **chosen)
