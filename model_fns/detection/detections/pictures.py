"""Pictures of detections, next to the groundtruth."""

from __future__ import annotations

import collections
import dataclasses
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np
from PIL import Image

from estimator_lib import errors
from estimator_lib.drawing import colors, visualization
from estimator_lib.drawing.colors import Color
from estimator_lib.task import Arrays, Shown
from model_fns.detection import fields
from model_fns.detection.detections import descriptions
from model_fns.detection.detections.masks import binary_windows
from model_fns.structures.label_map import LabelMap, to_id
from protos import eval_pb2

# The least longer side of a picture in pixels: text would not be readable in smaller pictures.
_LEAST_SIDE = 600
# Number of proposals that are drawn, those with the highest scores.
_MOST_PROPOSALS = 50
_PROPOSAL_COLOR = (255, 255, 0)
# The least score of drawn detections, if neither a config nor an evaluation has one.
LEAST_SCORE = eval_pb2.EvalConfig().min_score_threshold
_PIXELS_PER_SCALE = 400  # lines and letters are larger in larger pictures
# They are smaller at objects below this longer side times the scale, which they would cover. The
# number of objects does not matter: it changes from frame to frame of a video.
_PIXELS_OF_FULL_SCALE = 80
_LEAST_SHARE = 0.4  # of the picture's scale, at the smallest objects

_FLAGS = {fields.IS_CROWD: 'crowd', fields.GROUP_OF: 'group', fields.DIFFICULT: 'difficult'}


@dataclasses.dataclass
class _Objects:
    """Objects that are drawn in one image.

    Attributes:
        boxes: [n, 4], normalized to the image, or corners [n, 8] of rotated boxes. The most
            important box is last and covers the others.
        texts: text of each object, '' for none.
        colors: color of each object.
        names: name of each object's class, for the legend; '' for none.
        masks: n parts of the picture: first row, first column, and bool [h, w]; None without.
        keypoints: [n, k, 2], normalized to the image, NaN for missing ones; None without.
    """

    boxes: np.ndarray
    texts: Sequence[str]
    colors: Sequence[Color]
    names: Sequence[str] = ()
    masks: Optional[Sequence[Tuple[int, int, np.ndarray]]] = None
    keypoints: Optional[np.ndarray] = None


@dataclasses.dataclass(frozen=True)
class Drawer:
    """Drawing of boxes with names and scores, and of masks and keypoints if there are any.

    Attributes:
        class_names: names of classes by id; an id without a name is shown as a number.
        min_score: the least score of drawn detections; None: not configured, `LEAST_SCORE`.
        max_boxes: number of detections that are drawn, those with the highest scores.
        show_scores: True: texts of detections have their score.
        show_labels: True: texts have names.
        groundtruth_color: color of groundtruth boxes among the detections; None: they are not drawn
            there.
        keypoint_edges: pairs of indices of keypoints that are connected by a line.
        class_indices: see `Shown`.
    """

    class_names: Mapping[int, str]
    min_score: Optional[float] = None
    max_boxes: int = 20
    show_scores: bool = True
    show_labels: bool = True
    groundtruth_color: Optional[Color] = None
    keypoint_edges: Sequence[Tuple[int, int]] = ()
    class_indices: Optional[Sequence[int]] = None

    @property
    def least_score(self) -> float:
        """The least score of drawn detections."""
        return LEAST_SCORE if self.min_score is None else self.min_score

    def showing(self, shown: Shown) -> Drawer:
        """Return a drawer with the selection of `shown`."""
        return dataclasses.replace(
            self,
            min_score=self.min_score if shown.least_score is None else shown.least_score,
            max_boxes=shown.top_k or self.max_boxes,
            class_indices=shown.class_indices,
        )

    def draw(
        self, features: Arrays, outputs: Arrays, labels: Optional[Arrays] = None
    ) -> np.ndarray:
        """Draw a picture of one example.

        Args:
            features: `IMAGE` [height, width, 1 or 3] in [0, 255]. `TRUE_IMAGE_SHAPE` is its size
                without padding at the bottom and right. With `ORIGINAL_SHAPE` the picture gets the
                aspect ratio of the original.
            outputs: detections, with boxes normalized to the image. If empty, the groundtruth is
                drawn in the image without restoring its original aspect ratio.
            labels: groundtruth, with boxes normalized to the image.

        Returns:
            uint8 [height, width, 3]: the detections. With labels the detections are on the left,
            the groundtruth on the right, and the best proposals, if any, between them.
        """
        if not outputs:
            return self._targets(features, labels)
        picture = _background(features)
        size = picture.shape[:2]
        detections = self._detections(outputs, size)
        if labels is None:
            self._draw(picture, detections)
            return picture
        share = _content_share(features)
        truth = self._groundtruth(labels, share, size)
        beside = picture.copy()
        if self.groundtruth_color is not None:
            # Its texts are in the picture of the groundtruth.
            for box in truth.boxes:
                self._draw(picture, _Objects(box[np.newaxis], [''], [self.groundtruth_color]))
        panels = {'detections': (picture, detections)}
        if fields.SHOWN_PROPOSALS in outputs:
            panels['best proposals'] = beside.copy(), _proposals(outputs)
        panels['groundtruth'] = beside, truth
        for panel, objects in panels.values():
            self._draw(panel, objects)
        return visualization.grid(
            [
                visualization.captioned(
                    panel, [f'{name}: {len(objects.boxes)}'], legend=_legend(objects)
                )
                for name, (panel, objects) in panels.items()
            ],
            columns=len(panels),
        )

    def _targets(self, features: Arrays, labels: Arrays) -> np.ndarray:
        as_fed = dict(features)
        as_fed.pop(fields.ORIGINAL_SHAPE, None)
        picture = _background(as_fed)
        truth = self._groundtruth(labels, _content_share(as_fed), picture.shape[:2])
        self._draw(picture, truth)
        text = f'groundtruth: {len(truth.boxes)}'
        return visualization.captioned(picture, [text], legend=_legend(truth))

    def _detections(self, outputs: Arrays, size: Tuple[int, int]) -> _Objects:
        """Select the detections to draw, the highest score last."""
        count = int(outputs[fields.NUM_DETECTIONS])
        scores = np.asarray(outputs[fields.DETECTION_SCORES])[:count]
        best = np.argsort(-scores, kind='stable')
        if self.class_indices is not None:
            best = best[descriptions.of_classes(outputs, self.class_indices)[best]]
        best = best[: self.max_boxes]
        shown = best[scores[best] >= self.least_score][::-1]
        classes = np.asarray(outputs[fields.DETECTION_CLASSES])[shown].astype(int)
        name = fields.DETECTION_BOXES
        if fields.DETECTION_CORNERS in outputs:
            name = fields.DETECTION_CORNERS
        boxes = np.asarray(outputs[name])[shown]
        masks, keypoints = None, None
        if fields.DETECTION_MASKS in outputs:
            per_box = np.asarray(outputs[fields.DETECTION_MASKS])[shown]
            masks = list(binary_windows(per_box, boxes, size))
        if fields.DETECTION_KEYPOINTS in outputs:
            keypoints = np.asarray(outputs[fields.DETECTION_KEYPOINTS])[shown]
        texts = [
            self._text(class_id, f'{score:.0%}' if self.show_scores else '')
            for class_id, score in zip(classes, scores[shown])
        ]
        names = [self._text(class_id, '') for class_id in classes]
        return _Objects(boxes, texts, _colors(classes), names, masks, keypoints)

    def _groundtruth(self, labels: Arrays, share: np.ndarray, size: Tuple[int, int]) -> _Objects:
        """Select groundtruth that is not padding; masks have the size of the padded input."""
        count = int(labels[fields.NUM_BOXES])
        rows = {name: np.asarray(labels[name])[:count] for name in fields.PER_BOX if name in labels}
        classes = to_id(rows[fields.CLASSES].argmax(axis=-1))
        masks, keypoints = None, None
        if fields.MASKS in rows:
            whole = _resized_masks(rows[fields.MASKS], share, size)
            # For objects without a mask only the box is drawn.
            whole &= (rows.get(fields.MASK_WEIGHTS, np.ones(count)) > 0)[:, None, None]
            masks = [(0, 0, mask) for mask in whole]
        if fields.KEYPOINTS in rows:
            keypoints = rows[fields.KEYPOINTS]
        flags = [
            ' '.join(word for name, word in _FLAGS.items() if name in rows and rows[name][row])
            for row in range(count)
        ]
        texts = [self._text(class_id, flag) for class_id, flag in zip(classes, flags)]
        names = [self._text(class_id, '') for class_id in classes]
        return _Objects(rows[fields.BOXES], texts, _colors(classes), names, masks, keypoints)

    def _text(self, class_id: int, more: str) -> str:
        name = self.class_names.get(class_id, str(class_id)) if self.show_labels else ''
        return ' '.join(part for part in (name, more) if part)

    def _draw(self, picture: np.ndarray, objects: _Objects) -> None:
        """Draw masks, then boxes, then keypoints, then texts."""
        pixels = np.array(picture.shape[:2])
        boxes = objects.boxes * np.tile(pixels, objects.boxes.shape[1] // 2)
        scales = _scales(boxes, max(1, round(max(picture.shape) / _PIXELS_PER_SCALE)))
        # Masks first: they would cover the lines of boxes.
        for (top, left, mask), color in zip(objects.masks or (), objects.colors):
            part = picture[top : top + mask.shape[0], left : left + mask.shape[1]]
            visualization.tint(part, mask > 0, color)
        with visualization.canvas(picture) as image:
            for box, color, scale in zip(boxes, objects.colors, scales):
                _draw_box(image, box, color, max(1, round(scale)))
            if objects.keypoints is not None:
                points_of_all = objects.keypoints * pixels
                for points, color, scale in zip(points_of_all, objects.colors, scales):
                    self._draw_keypoints(image, points, color, max(1, round(scale)))
            for box, text, color, scale in zip(boxes, objects.texts, objects.colors, scales):
                if text:
                    # The tag of a rotated box is at its topmost corner.
                    top, left = min(zip(box[::2], box[1::2])) if len(box) == 8 else box[:2]
                    visualization.draw_tag(image, text, round(top), round(left), color, scale)

    def _draw_keypoints(
        self, image: Image.Image, points: np.ndarray, color: Color, scale: int
    ) -> None:
        there = np.isfinite(points).all(axis=1)
        for start, end in self.keypoint_edges:
            if max(start, end) < len(points) and there[start] and there[end]:
                visualization.draw_line(image, points[start], points[end], color, scale)
        for point in points[there]:
            visualization.draw_dot(image, point, color, 3 * scale)


def build_drawer(config: eval_pb2.EvalConfig, label_map: Optional[LabelMap]) -> Drawer:
    """Build the drawer that an evaluation config describes.

    Raises:
        errors.ConfigError: the groundtruth's color is unknown.
    """
    color = None
    if config.visualize_groundtruth_boxes:
        try:
            color = colors.named(config.groundtruth_box_visualization_color)
        except errors.ConfigError as error:
            raise errors.ConfigError(
                f'eval_config.groundtruth_box_visualization_color: {error}'
            ) from None
    return Drawer(
        {} if label_map is None else label_map.names,
        min_score=(config.min_score_threshold if config.HasField('min_score_threshold') else None),
        max_boxes=config.max_num_boxes_to_visualize,
        show_scores=not config.skip_scores,
        show_labels=not config.skip_labels,
        groundtruth_color=color,
        keypoint_edges=tuple((edge.start, edge.end) for edge in config.keypoint_edge),
    )


def _background(features: Arrays) -> np.ndarray:
    """Remove padding, enlarge the image and restore its original aspect ratio."""
    image = np.asarray(features[fields.IMAGE])[..., :3]
    if fields.TRUE_IMAGE_SHAPE in features:
        height, width = features[fields.TRUE_IMAGE_SHAPE][:2]
        image = image[:height, :width]
    if image.dtype != np.uint8:
        image = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
    if image.shape[2] == 1:
        image = np.repeat(image, 3, axis=2)
    shape = np.array(features.get(fields.ORIGINAL_SHAPE, image.shape[:2]), np.float64)
    drawn = round(max(image.shape[:2]) * visualization.drawn_share(*image.shape[:2]))
    longer = max(_LEAST_SIDE, drawn)
    height, width = np.maximum(np.rint(shape * (longer / shape.max())), 1).astype(int)
    return visualization.resized(image, height, width)


def _content_share(features: Arrays) -> np.ndarray:
    """Compute the fraction of the input's height and width that is not padding."""
    size = np.array(np.shape(features[fields.IMAGE])[:2], np.float64)
    return np.array(features.get(fields.TRUE_IMAGE_SHAPE, size)[:2]) / size


def _proposals(outputs: Arrays) -> _Objects:
    """Select the best proposals, the best one last."""
    boxes = np.asarray(outputs[fields.SHOWN_PROPOSALS])
    # y and x alternate in corners too.
    is_there = (np.ptp(boxes[:, ::2], axis=1) > 0) & (np.ptp(boxes[:, 1::2], axis=1) > 0)
    boxes = boxes[is_there][:_MOST_PROPOSALS][::-1]
    return _Objects(boxes, [''] * len(boxes), [_PROPOSAL_COLOR] * len(boxes))


def _draw_box(image: Image.Image, box: np.ndarray, color: Color, scale: int) -> None:
    """Draw an axis-aligned box [4], or the corners [8] of a rotated box, in pixels.

    A rotated box has a dot at its front, the positive end of its width, so that a wrong direction
    is visible.
    """
    if len(box) == 4:
        visualization.draw_box(image, box, color, scale)
        return
    corners = box.reshape([4, 2])
    for start, end in zip(corners, np.roll(corners, -1, axis=0)):
        visualization.draw_line(image, start, end, color, scale)
    visualization.draw_dot(image, (corners[1] + corners[2]) / 2, color, 4 * scale)


def _scales(boxes: np.ndarray, most: int) -> List[float]:
    """Return the scale of lines and letters of each object: smaller at small objects.

    Args:
        boxes: [n, 4] or corners [n, 8] in pixels, y and x in turns.
        most: scale of large objects in this picture.
    """
    if not len(boxes):
        return []
    sides = np.maximum(np.ptp(boxes[:, ::2], axis=1), np.ptp(boxes[:, 1::2], axis=1))
    least = max(1.0, _LEAST_SHARE * most)
    return np.clip(sides / _PIXELS_OF_FULL_SCALE, least, most).tolist()


def _legend(objects: _Objects) -> visualization.Legend:
    """Return the classes of the objects with their numbers and colors, the most frequent first."""
    counts = collections.Counter(zip(objects.names, objects.colors))
    return [(f'{name} {count}', color) for (name, color), count in counts.most_common() if name]


def _colors(classes: np.ndarray) -> List[Color]:
    return [colors.class_color(int(class_id)) for class_id in classes]


def _resized_masks(masks: np.ndarray, share: np.ndarray, size: Tuple[int, int]) -> np.ndarray:
    """Resize masks [n, height, width] of the padded input to the picture."""
    rows, columns = (
        np.floor((np.arange(pixels) + 0.5) / pixels * part * count).astype(int)
        for pixels, part, count in zip(size, share, masks.shape[1:])
    )
    return masks[:, rows][:, :, columns] > 0
