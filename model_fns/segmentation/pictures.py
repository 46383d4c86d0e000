"""Pictures of segmentations: the image, its labels and the predictions, in colors."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.drawing import colors, visualization
from estimator_lib.drawing.tiling import Window
from estimator_lib.task import AS_CONFIGURED, Arrays, Description, Presentation, Region, Shown
from model_fns.segmentation import fields, instances, merging
from model_fns.segmentation.data.presets import Dataset
from model_fns.structures import id_maps, run_lengths
from model_fns.structures.label_map import with_class_name
from protos import segmentation_pb2

_DIMMED = 0.35  # brightness of the image below a heat map
_HEAT = np.array([255.0, 90.0, 40.0])
_MOST_GRAY = 65535  # of a PNG of 16 bits
_PIXELS_PER_OUTLINE = 800  # outlines are thicker in larger pictures
_NOTHING = np.full([1, 1, 3], visualization.PAPER, np.uint8)

# Output and label of each further head that is drawn.
_HEADS = (
    (fields.INSTANCE_PREDICTIONS, fields.INSTANCES),
    (fields.INSTANCE_CENTERS, fields.CENTER),
    (fields.EDGE_PREDICTIONS, fields.EDGE),
)


class SegmentationPresentation(Presentation):
    """Presentation of segmentations.

    Args:
        dataset: names and colors of the classes.
        model: the config message; None: the default one.
        grouping: grouping of pixels to instances; None: there is none.
    """

    merges_whole_image = False  # each pixel is in a tile, at its own size

    def __init__(
        self,
        dataset: Dataset,
        model: Optional[segmentation_pb2.Segmentation] = None,
        grouping: Optional[instances.InstanceGrouping] = None,
    ):
        self.class_names = dataset.class_names
        self.described_outputs = {fields.SEMANTIC_PREDICTIONS: (None, None)}
        self.tiled_outputs = () if model is None else merging.tiled_outputs(model)
        self._dataset, self._grouping = dataset, grouping
        self._saves_raw = model is not None and model.evaluation.save_raw_predictions

    def metric_title(self, name: str) -> str:
        """Return the title of a metric, with the name of its class."""
        return with_class_name(name, self.class_names)

    def merge_tiles(self, tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int]) -> Arrays:
        """Merge the outputs of tiles, see `merging.merge`."""
        return merging.merge(tiles, size, self._grouping.things() if self._grouping else None)

    def files(self, features: Arrays, outputs: Arrays) -> Dict[str, bytes]:
        """Return the predicted classes as a PNG, where the config asks for them."""
        if not self._saves_raw:
            return {}
        return {'_raw.png': visualization.encode_png(self.raw_classes(features, outputs))}

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """Return the pixels of each class, the number of instances, and PNGs of their ids.

        The outputs themselves would be a hundred megabytes of text for an image.
        """
        _refuse_threshold(shown)
        numbers, rows = self.numbers(outputs, shown.top_k), self.rows(outputs, shown.top_k)
        picture = self.draw(features, outputs)
        return Description(numbers, rows, picture, self.id_pngs(features, outputs))

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> np.ndarray:
        """Draw one example: a row for the classes, and one for each further head.

        Args:
            features: `IMAGE` [height, width, 3] in [0, 255], with padding at the bottom and right
                where `TRUE_IMAGE_SHAPE` is smaller.
            outputs: of the same size, see `fields`.
            labels: of the same size; they are drawn beside the predictions.
            shown: not used: all classes are drawn.

        Returns:
            uint8 [height, width, 3].
        """
        image = _image(features)
        step = visualization.drawn_step(*image.shape[:2])
        drawn = tuple(slice(0, side, step) for side in image.shape[:2])
        image = image[drawn]
        outputs = {name: np.asarray(values)[drawn] for name, values in outputs.items()}
        labels = {name: np.asarray(values)[drawn] for name, values in (labels or {}).items()}
        rows = [[visualization.captioned(image, ['image'], legend=())]]
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
        """Return the predicted classes of one example as `Dataset.to_submission_ids` has them.

        Args:
            features: `IMAGE` [height, width, 3], padded where `TRUE_IMAGE_SHAPE` is smaller.
            outputs: with `SEMANTIC_PREDICTIONS`.

        Returns:
            uint8 or uint16 [height, width], without padding.
        """
        return self._dataset.to_submission_ids(_unpadded_classes(features, outputs))

    def numbers(self, outputs: Arrays, top_k: Optional[int] = None) -> Dict[str, Any]:
        """Return the size of one example, its classes (see `rows`), and its number of instances.

        Args:
            outputs: `SEMANTIC_PREDICTIONS` and optionally `INSTANCE_PREDICTIONS`.
            top_k: number of classes; None: all.
        """
        height, width = np.shape(outputs[fields.SEMANTIC_PREDICTIONS])
        classes = self.rows(outputs, top_k)
        numbers: Dict[str, Any] = {'height': height, 'width': width, 'classes': classes}
        if fields.INSTANCE_PREDICTIONS in outputs:
            ids = np.asarray(outputs[fields.INSTANCE_PREDICTIONS])
            numbers['instances'] = int(np.count_nonzero(id_maps.count_pixels(ids)[1:]))
        return numbers

    def rows(self, outputs: Arrays, top_k: Optional[int] = None) -> List[Dict[str, Any]]:
        """Return the classes of one example and their numbers of pixels, the largest first.

        Args:
            outputs: `SEMANTIC_PREDICTIONS`, integers [height, width].
            top_k: number of classes; None: all.
        """
        counts = id_maps.count_pixels(np.asarray(outputs[fields.SEMANTIC_PREDICTIONS]))
        largest = [index for index in np.argsort(-counts, kind='stable') if counts[index]]
        names = self._dataset.class_names
        return [
            {'class': names[index], 'id': int(index), 'pixels': int(counts[index])}
            for index in largest[:top_k]
        ]

    def regions(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Sequence[Region]:
        """Return each instance, else each class, the largest first, with the box around it."""
        _refuse_threshold(shown)
        classes = np.asarray(outputs[fields.SEMANTIC_PREDICTIONS])
        ids, first = classes, 0
        if fields.INSTANCE_PREDICTIONS in outputs:
            ids, first = np.asarray(outputs[fields.INSTANCE_PREDICTIONS]), 1
        counts, boxes = id_maps.count_pixels(ids), id_maps.enclosing_boxes(ids)
        counts[:first] = 0
        largest = [index for index in np.argsort(-counts, kind='stable') if counts[index]]
        return [_region(classes, ids, index, boxes[index]) for index in largest[: shown.top_k]]

    def coco_results(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Sequence[Mapping[str, Any]]:
        """Return the run lengths of the regions; scores are 1."""
        size = np.shape(outputs[fields.SEMANTIC_PREDICTIONS])
        return [
            {
                'category_id': region.class_index,
                'segmentation': run_lengths.encode(region.mask, region.origin, size),
                'score': 1.0,
            }
            for region in self.regions(features, outputs, shown)
        ]

    def id_pngs(self, features: Arrays, outputs: Arrays) -> Dict[str, bytes]:
        """Encode the ids of classes, and of instances if any, as gray PNGs, by suffix of the name.

        Args:
            features: `IMAGE` [height, width, 3], padded where `TRUE_IMAGE_SHAPE` is smaller.
            outputs: `SEMANTIC_PREDICTIONS` and optionally `INSTANCE_PREDICTIONS`.
        """
        files = {'_classes.png': visualization.encode_png(_unpadded_classes(features, outputs))}
        if fields.INSTANCE_PREDICTIONS in outputs:
            ids = np.asarray(outputs[fields.INSTANCE_PREDICTIONS])
            files['_instances.png'] = visualization.encode_png(_ids_to_pixels(ids))
        return files

    def _classes(self, classes: np.ndarray, title: str) -> np.ndarray:
        picture = self._dataset.colored(classes)
        return visualization.captioned(picture, [title], legend=self._legend(classes))

    def _legend(self, classes: np.ndarray) -> visualization.Legend:
        """Return the names of the classes in a map with their colors, the largest first."""
        known = (classes >= 0) & (classes < self._dataset.num_classes)
        known &= classes != self._dataset.ignore_label
        counts = np.bincount(classes[known].ravel())
        largest = [index for index in np.argsort(-counts, kind='stable') if counts[index]]
        shown = self._dataset.colored(np.array([largest], np.int64))[0].tolist()
        return [
            (self._dataset.class_names[index], (red, green, blue))
            for index, (red, green, blue) in zip(largest, shown)
        ]

    def _head(self, image: np.ndarray, head: str, values: np.ndarray, title: str) -> np.ndarray:
        if head == fields.INSTANCE_PREDICTIONS:
            count = np.count_nonzero(id_maps.count_pixels(values)[1:])
            return visualization.captioned(
                _instances(image, values), [title, f'instances: {count}']
            )
        if head == fields.INSTANCE_CENTERS:
            return visualization.captioned(_heat(image, values), [title, 'centers'])
        return visualization.captioned(self._edges(image, values), [title, 'edges'])

    def _edges(self, image: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Draw edges over the image: white, or in the colors of their classes."""
        picture = (image * _DIMMED).astype(np.uint8)
        is_edge = (edges > 0) & (edges != self._dataset.ignore_label)
        of_classes = bool(is_edge.any()) and edges[is_edge].max() > 1
        shown = self._dataset.colored(np.where(is_edge, edges, 0))
        picture[is_edge] = shown[is_edge] if of_classes else visualization.WHITE
        return picture


def _image(features: Arrays) -> np.ndarray:
    """Return the image without padding: uint8 [height, width, 3]."""
    image = np.asarray(features[fields.IMAGE])[..., :3]
    if fields.TRUE_IMAGE_SHAPE in features:
        height, width = features[fields.TRUE_IMAGE_SHAPE][:2]
        image = image[:height, :width]
    if image.dtype != np.uint8:
        image = np.rint(np.clip(np.nan_to_num(image), 0, 255)).astype(np.uint8)
    return image


def _unpadded_classes(features: Arrays, outputs: Arrays) -> np.ndarray:
    """Return the predicted classes without padding: uint8 or uint16 [height, width]."""
    height, width = _image(features).shape[:2]
    classes = np.asarray(outputs[fields.SEMANTIC_PREDICTIONS])[:height, :width]
    return classes.astype(np.uint8 if classes.max(initial=0) <= 255 else np.uint16)


def _instances(image: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Draw instances over the image, each in its own color and with an outline."""
    present = np.flatnonzero(id_maps.count_pixels(ids))
    shown = np.zeros([int(ids.max(initial=0)) + 1, 3], np.float32)
    shown[present] = [colors.class_color(number) for number in range(len(present))]
    picture = image.copy()
    for row, part in zip(ids, picture):
        inside = row > 0
        part[inside] = np.rint(0.6 * part[inside] + 0.4 * shown[row[inside]])
    outline = _outline(ids, max(1, round(max(ids.shape) / _PIXELS_PER_OUTLINE)))
    picture[outline] = shown[ids[outline]]
    return picture


def _region(classes: np.ndarray, ids: np.ndarray, index: int, box: np.ndarray) -> Region:
    """Return the pixels of an id as a region, with the class of most of them."""
    top, left, bottom, right = box.tolist()
    mask = ids[top:bottom, left:right] == index
    class_index = int(np.bincount(classes[top:bottom, left:right][mask]).argmax())
    return Region(class_index, box.astype(float).tolist(), mask=mask, origin=(top, left))


def _ids_to_pixels(ids: np.ndarray) -> np.ndarray:
    """Return ids as gray values of 16 bits; larger ones as red + 256 * green + 65536 * blue."""
    if ids.max(initial=0) <= _MOST_GRAY:
        return ids.astype(np.uint16)
    return np.stack([(ids >> shift).astype(np.uint8) for shift in (0, 8, 16)], axis=-1)


def _outline(ids: np.ndarray, thickness: int = 1) -> np.ndarray:
    """Find the pixels of an instance near a pixel outside of it: bool [height, width].

    Args:
        ids: of instances, [height, width].
        thickness: of the outline in pixels.
    """
    by = thickness
    padded = np.pad(ids, by, mode='edge')
    rows, columns = padded[:, by:-by], padded[by:-by]
    neighbors = (rows[: -2 * by], rows[2 * by :], columns[:, : -2 * by], columns[:, 2 * by :])
    differs = np.any([neighbor != ids for neighbor in neighbors], axis=0)
    return differs & (ids > 0)


def _heat(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Draw a heat map from 0 to 1 over the darkened image."""
    share = np.clip(np.nan_to_num(heat), 0.0, 1.0)[..., np.newaxis]
    return np.rint(image * _DIMMED * (1.0 - share) + _HEAT * share).astype(np.uint8)


def _refuse_threshold(shown: Shown) -> None:
    """Refuse a threshold of scores, which segmentation does not have, and a choice of classes.

    Raises:
        errors.ConfigError: there is one.
    """
    if shown.class_indices is not None:
        raise errors.ConfigError(
            f'--only_class: {len(shown.class_indices)} of the classes, but segmentation gives each '
            'pixel a class; expected the values of all.'
        )
    if shown.least_score is not None:
        raise errors.ConfigError(
            f'--score_threshold={shown.least_score:g}: segmentation gives each pixel a class and '
            'no score; expected none.'
        )
