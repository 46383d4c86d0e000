"""What a detection evaluator is: images go in one by one, scalars come out at the end."""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, List, Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Groundtruth:
    """What an image shows. Arrays may be views of a batch: an evaluator copies what it keeps.

    Attributes:
        boxes: float32 [n, 4], ymin, xmin, ymax, xmax in pixels of the original image.
        classes: int64 [n], ids from 1.
        is_crowd: bool [n]: several objects as one; detections of it count for nothing.
        difficult: bool [n]: finding or missing it counts for nothing (Pascal VOC).
        group_of: bool [n]: five or more objects as one (Open Images).
        areas: float32 [n], pixels of the object; not positive where it is not known.
        image_classes: int64 [k]: ids of the classes that somebody looked for in the image, and
            found or not; empty where the record does not say.
    """

    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    difficult: np.ndarray
    group_of: np.ndarray
    areas: np.ndarray
    image_classes: np.ndarray


@dataclasses.dataclass(frozen=True)
class Detections:
    """What a model found in an image. Arrays may be views of a batch.

    Attributes:
        boxes: float32 [n, 4], in pixels of the original image.
        scores: float32 [n].
        classes: int64 [n], ids from 1.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray

    def kept(self, which: np.ndarray) -> Detections:
        """Those for which `which`, bool [n], is true."""
        return Detections(self.boxes[which], self.scores[which], self.classes[which])


class Evaluator(abc.ABC):
    """One set of metrics. It keeps no more of an image than they need.

    Args:
        class_names: names by id, from 1.
    """

    def __init__(self, class_names: Mapping[int, str]):
        self.class_names = dict(class_names)

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """The metrics that `evaluate` may return."""

    @abc.abstractmethod
    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Takes one image; the caller sees to it that no image comes twice."""

    @abc.abstractmethod
    def evaluate(self) -> Dict[str, float]:
        """The metrics of all images; one that the data cannot tell is left out."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Forgets all images, by new empty state: a shallow copy keeps what it has."""

    @property
    def class_ids(self) -> List[int]:
        """All class ids, sorted."""
        return sorted(self.class_names)
