"""Pictures of segmentations: the image, its labels and what is predicted, in colors."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional

import numpy as np

from estimator_lib.drawing import colors, visualization
from estimator_lib.task import Arrays
from model_fns.segmentation import fields
from model_fns.segmentation.data.presets import Dataset
from model_fns.structures import run_lengths

_MOST_NAMES = 6  # classes that a caption names
_DIMMED = 0.35  # of the image, below a heat map
_HEAT = np.array([255.0, 90.0, 40.0])
_NOTHING = np.full([1, 1, 3], visualization.PAPER, np.uint8)

# What is drawn of a further head: its output, and the label beside it.
_HEADS = (
    (fields.INSTANCE_PREDICTIONS, fields.INSTANCES),
    (fields.INSTANCE_CENTERS, fields.CENTER),
    (fields.EDGE_PREDICTIONS, fields.EDGE),
)


@dataclasses.dataclass(frozen=True)
class Drawer:
    """Draws examples.

    Attributes:
        dataset: names and colors of the classes.
    """

    dataset: Dataset

    def draw(
        self, features: Arrays, outputs: Arrays, labels: Optional[Arrays] = None
    ) -> np.ndarray:
        """A picture of one example: a row for the classes, and one for each further head.

        Args:
            features: `IMAGE` [height, width, 3] in [0, 255]; with `TRUE_IMAGE_SHAPE` what is below
                and to the right of it is padding.
            outputs: of the same size, see `fields`.
            labels: of the same size; they are drawn beside what is predicted.

        Returns:
            uint8 [height, width, 3].
        """
        image = _image(features)
        content = tuple(slice(side) for side in image.shape[:2])
        outputs = {name: np.asarray(values)[content] for name, values in outputs.items()}
        labels = {name: np.asarray(values)[content] for name, values in (labels or {}).items()}
        rows = [[visualization.captioned(image, ['image'])]]
        if fields.SEMANTIC in labels:
            rows[0].append(self._classes(labels[fields.SEMANTIC], 'label'))
        if fields.SEMANTIC_PREDICTIONS in outputs:
            rows[0].append(self._classes(outputs[fields.SEMANTIC_PREDICTIONS], 'prediction'))
        for output, label in _HEADS:
            if output not in outputs:
                continue
            row = [_NOTHING]  # below the image
            if fields.SEMANTIC in labels:
                is_known = label in labels
                row.append(
                    self._head(image, output, labels[label], 'label') if is_known else _NOTHING
                )
            row.append(self._head(image, output, outputs[output], 'prediction'))
            rows.append(row)
        lines = [visualization.grid(row, columns=len(row)) for row in rows]
        return visualization.grid(lines, columns=1)

    def raw_classes(self, features: Arrays, outputs: Arrays) -> np.ndarray:
        """The predicted classes of one example, for programs: see `Dataset.for_submission`.

        Args:
            features: see `draw`.
            outputs: with `SEMANTIC_PREDICTIONS`.

        Returns:
            uint8 or uint16 [height, width], without padding.
        """
        return self.dataset.for_submission(_unpadded_classes(features, outputs))

    def raw_png(self, features: Arrays, outputs: Arrays) -> bytes:
        """Returns `raw_classes` as a gray PNG file."""
        return visualization.encode_png(self.raw_classes(features, outputs))

    def numbers(self, outputs: Arrays, top_k: Optional[int] = None) -> Dict[str, Any]:
        """The size of one example, its classes (see `rows`), and how many instances it has.

        Args:
            outputs: with `SEMANTIC_PREDICTIONS`, perhaps with `INSTANCE_PREDICTIONS`.
            top_k: see `rows`.
        """
        height, width = np.shape(outputs[fields.SEMANTIC_PREDICTIONS])
        classes = self.rows(outputs, top_k)
        numbers: Dict[str, Any] = {'height': height, 'width': width, 'classes': classes}
        if fields.INSTANCE_PREDICTIONS in outputs:
            ids = np.asarray(outputs[fields.INSTANCE_PREDICTIONS])
            numbers['instances'] = np.unique(ids[ids > 0]).size
        return numbers

    def rows(self, outputs: Arrays, top_k: Optional[int] = None) -> List[Dict[str, Any]]:
        """The classes that are in one example, the largest first, and how many pixels each has.

        Args:
            outputs: see `numbers`.
            top_k: so many classes; None: all.
        """
        counts = np.bincount(np.asarray(outputs[fields.SEMANTIC_PREDICTIONS]).ravel())
        largest = [index for index in np.argsort(-counts, kind='stable') if counts[index]]
        names = self.dataset.class_names
        return [
            {'class': names[index], 'id': int(index), 'pixels': int(counts[index])}
            for index in largest[:top_k]
        ]

    def coco_results(self, outputs: Arrays, top_k: Optional[int]) -> List[Dict[str, Any]]:
        """Run lengths of each instance where there are any, else of each class; scores are 1.

        Args:
            outputs: see `numbers`.
            top_k: so many, the largest; None: all.
        """
        classes = np.asarray(outputs[fields.SEMANTIC_PREDICTIONS])
        regions = np.asarray(outputs.get(fields.INSTANCE_PREDICTIONS, classes + 1))
        ids, counts = np.unique(regions[regions > 0], return_counts=True)
        masks = [regions == ids[index] for index in np.argsort(-counts, kind='stable')[:top_k]]
        return [
            {
                'category_id': int(np.bincount(classes[mask]).argmax()),
                'segmentation': run_lengths.encode(mask),
                'score': 1.0,
            }
            for mask in masks
        ]

    def id_pngs(self, features: Arrays, outputs: Arrays) -> Dict[str, bytes]:
        """Gray PNG files of ids by the end of their names: classes, and instances where found.

        Args:
            features: see `draw`.
            outputs: see `numbers`.
        """
        files = {'_classes.png': visualization.encode_png(_unpadded_classes(features, outputs))}
        if fields.INSTANCE_PREDICTIONS in outputs:
            ids = np.asarray(outputs[fields.INSTANCE_PREDICTIONS]).astype(np.uint16)
            files['_instances.png'] = visualization.encode_png(ids)
        return files

    def _classes(self, classes: np.ndarray, title: str) -> np.ndarray:
        picture = self.dataset.colored(classes)
        return visualization.captioned(picture, [title, self._names(classes)])

    def _names(self, classes: np.ndarray) -> str:
        """The classes that are there, the largest first."""
        known = (classes >= 0) & (classes < self.dataset.num_classes)
        known &= classes != self.dataset.ignore_label
        counts = np.bincount(classes[known].ravel())
        largest = [index for index in np.argsort(-counts, kind='stable') if counts[index]]
        names = [self.dataset.class_names[index] for index in largest[:_MOST_NAMES]]
        return ', '.join(names) + (', ..' if len(largest) > _MOST_NAMES else '')

    def _head(self, image: np.ndarray, head: str, values: np.ndarray, title: str) -> np.ndarray:
        if head == fields.INSTANCE_PREDICTIONS:
            count = np.unique(values[values > 0]).size
            return visualization.captioned(
                _instances(image, values), [title, f'instances: {count}']
            )
        if head == fields.INSTANCE_CENTERS:
            return visualization.captioned(_heat(image, values), [title, 'centers'])
        return visualization.captioned(self._edges(image, values), [title, 'edges'])

    def _edges(self, image: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Edges over the image: white, or in the colors of the classes that they bound."""
        picture = (image * _DIMMED).astype(np.uint8)
        is_edge = (edges > 0) & (edges != self.dataset.ignore_label)
        of_classes = bool(is_edge.any()) and edges[is_edge].max() > 1
        shown = self.dataset.colored(np.where(is_edge, edges, 0))
        picture[is_edge] = shown[is_edge] if of_classes else visualization.WHITE
        return picture


def _image(features: Arrays) -> np.ndarray:
    """The image without padding, uint8 [height, width, 3]."""
    image = np.asarray(features[fields.IMAGE])
    if fields.TRUE_IMAGE_SHAPE in features:
        height, width = features[fields.TRUE_IMAGE_SHAPE][:2]
        image = image[:height, :width]
    if image.dtype != np.uint8:
        image = np.rint(np.clip(np.nan_to_num(image), 0, 255)).astype(np.uint8)
    return image


def _unpadded_classes(features: Arrays, outputs: Arrays) -> np.ndarray:
    """Returns the predicted classes, counted from 0: uint8 or uint16 [height, width]."""
    height, width = _image(features).shape[:2]
    classes = np.asarray(outputs[fields.SEMANTIC_PREDICTIONS])[:height, :width]
    return classes.astype(np.uint8 if classes.max(initial=0) <= 255 else np.uint16)


def _instances(image: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Instances mixed into the image, each in a color of its own and with an outline."""
    present, places = np.unique(ids, return_inverse=True)
    places = places.reshape(ids.shape)
    shown = np.array([colors.class_color(number) for number in range(len(present))], np.float32)
    own = shown[places]
    picture = np.where((ids > 0)[..., np.newaxis], 0.6 * image + 0.4 * own, image)
    outline = _outline(ids)
    picture[outline] = own[outline]
    return np.rint(picture).astype(np.uint8)


def _outline(ids: np.ndarray) -> np.ndarray:
    """Bool [height, width]: pixels of an instance beside one that is not of it."""
    padded = np.pad(ids, 1, mode='edge')
    neighbors = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    differs = np.any([neighbor != ids for neighbor in neighbors], axis=0)
    return differs & (ids > 0)


def _heat(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """A map from 0 to 1 glowing on the darkened image."""
    share = np.clip(np.nan_to_num(heat), 0.0, 1.0)[..., np.newaxis]
    return np.rint(image * _DIMMED * (1.0 - share) + _HEAT * share).astype(np.uint8)
