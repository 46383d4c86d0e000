"""Detectors of any kind in files of core ops: the file computes all that a SavedModel does.

A network with a second stage, or with keypoints, is not separable from its suppression. So the file
has the detector's own post-processing, whose suppression is in one pass, and detections are
normalized to the image. The image comes resized and without padding: what the network needs to know
about padding follows from the size of the input.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.task import Arrays, Features, Tensors
from estimator_lib.task_interfaces import deployable as interface
from estimator_lib.task_interfaces.deployable import Ops
from model_fns.detection import detector, fields
from model_fns.detection.deployment import file_agreement
from model_fns.detection.detections import post_processing

_MEANINGS = {
    fields.DETECTION_BOXES: ('ymin, xmin, ymax, xmax normalized to the image, highest score first'),
    fields.DETECTION_CORNERS: (
        'y and x of the four corners normalized to the image, highest score first'
    ),
    fields.DETECTION_CLASSES: 'counted from 0, as in labels.txt',
    fields.DETECTION_SCORES: 'from 0 to 1',
    fields.NUM_DETECTIONS: 'number of rows of the others that are detections',
    fields.DETECTION_MASKS: 'from 0 to 1, from border to border of the box',
    fields.DETECTION_KEYPOINTS: 'y, x normalized to the image',
    fields.DETECTION_KEYPOINT_SCORES: 'from 0 to 1',
}
# Before the names of raw predictions beside detections.
_RAW = 'raw/'
_ALWAYS = (fields.DETECTION_CLASSES, fields.DETECTION_SCORES, fields.NUM_DETECTIONS)
_CONTENTS = {
    fields.DETECTION_BOXES: interface.Content.BOXES,
    fields.DETECTION_CLASSES: interface.Content.CLASS_NUMBERS,
    fields.DETECTION_SCORES: interface.Content.BOX_SCORES,
    fields.NUM_DETECTIONS: interface.Content.COUNT,
}
# Measured with OpenCV 5.1 and a single-shot detector: 5.6 s and 0.06 s an image.
OPENCV_NOTE = (
    "OpenCV's cv2.dnn takes seconds for the suppression in the file; for it, write one with "
    '--suppression=none, and suppress with cv2.dnn.NMSBoxes.'
)
_FRAME = ('frame = np.array(size, float)',)  # boxes are normalized to the image


def report_lines(boxes: str, frame: Sequence[str] = _FRAME) -> Sequence[str]:
    """Return the lines of a program that list detections, with boxes in pixels of the image.

    Args:
        boxes: output with the boxes: [1, N, 4], or corners [1, N, 8].
        frame: lines that compute the height and width that boxes are normalized to.
    """
    sides = 4 if boxes == fields.DETECTION_BOXES else 8
    inside = (
        # Parts outside of the image are cut off, and boxes that lie there are none.
        'boxes = np.clip(boxes, 0, np.tile(size, 2))',
        'kept &= (boxes[:, 2:] > boxes[:, :2]).all(axis=1)',
    )
    return (
        *frame,
        f"count = int(outputs['{fields.NUM_DETECTIONS}'].reshape(-1)[0])",
        f"boxes = outputs['{boxes}'][0][:count] * np.tile(frame, {sides // 2})",
        f"numbers = outputs['{fields.DETECTION_CLASSES}'][0][:count].astype(int)",
        f"scores = outputs['{fields.DETECTION_SCORES}'][0][:count]",
        'kept = scores >= threshold',
        *(inside if sides == 4 else ()),
        'results = [',
        "    {'class': names[number], 'score': round(float(score), 6), 'box': box.tolist()}",
        '    for number, score, box in zip(numbers[kept], scores[kept], boxes[kept].round(2))',
        ']',
    )


class DetectorDeployable(interface.Deployable):
    """Deployable form of a detector with its post-processing.

    Args:
        model: the detector, without loops.
    """

    def __init__(self, model: detector.Detector):
        self._model = model
        size = None if model.resizer.pads else model.resizer.static_size
        # The network's graph makes colors gray.
        self.input_shape = (*(size or (None, None)), model.channels.total)
        boxes = fields.DETECTION_CORNERS if model.family.IS_ROTATED else fields.DETECTION_BOXES
        further = model.outputs - {fields.REFRAMED_MASKS}
        if fields.DETECTION_KEYPOINTS in further:
            further |= {fields.DETECTION_KEYPOINT_SCORES}
        self.meanings = {name: _MEANINGS[name] for name in (boxes, *_ALWAYS, *sorted(further))}
        self.kind = _kind(model)
        self.resize = model.resizer.rule
        self.report = report_lines(boxes)
        self.contents = {
            name: content for name, content in _CONTENTS.items() if name in self.meanings
        }

    def pixels(self, features: Features) -> tf.Tensor:
        """Return the resized images: float32 [B, height, width, channels]."""
        images = tf.ensure_shape(features[fields.IMAGE], [None, *self.input_shape])
        return tf.clip_by_value(images, 0.0, 255.0)

    def content_sizes(self, features: Features) -> Optional[tf.Tensor]:
        """Return sizes without padding, int32 [B, 2], where padding is not a part of the input."""
        is_padded = self._model.resizer.pads and None in self.input_shape
        return features[fields.TRUE_IMAGE_SHAPE][:, :2] if is_padded else None

    def network(self, pixels: tf.Tensor) -> Tensors:
        """Compute detections; classes are from 0."""
        images, true_shapes = self._padded(pixels)
        images = self._model.preprocess(images, true_shapes)
        predictions = self._model.predict(images, true_shapes, None, False)
        # Detections alone say nothing where a network finds nothing. These are outputs only while
        # the file is checked.
        raw = {f'{_RAW}{name}': predictions[name] for name in _compared(predictions)}
        predictions = {**predictions, fields.PREPROCESSED: images}
        return {**self.select(predictions, true_shapes), **raw}

    def finish(self, raw: Tensors, ops: Ops) -> Tensors:
        """Return the detections."""
        return {name: value for name, value in raw.items() if not name.startswith(_RAW)}

    def intermediates(self, raw: Tensors) -> Tensors:
        """Return raw predictions."""
        return {name[len(_RAW) :]: value for name, value in raw.items() if name.startswith(_RAW)}

    def select(self, predictions: Tensors, true_shapes: Optional[tf.Tensor]) -> Tensors:
        """Compute the outputs of the file.

        Args:
            predictions: outputs of the detector's `predict`.
            true_shapes: int32 [B, 3]; None: there is no padding.
        """
        found = self._model.postprocess(predictions, true_shapes)
        if self._model.family.IS_ROTATED:
            found = {**found, fields.DETECTION_CORNERS: found[fields.DETECTION_BOXES]}
        return {name: found[name] for name in self.meanings}

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Convert the file's detections to those of the task, without raw predictions."""
        if self._model.family.IS_ROTATED:
            found = {**found, fields.DETECTION_BOXES: found[fields.DETECTION_CORNERS]}
        return post_processing.to_outputs(found, self._model.family, features)

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare detections, see `file_agreement`."""
        return file_agreement.compare(expected, found, exact)

    def largest_differences(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Compute the largest differences of sorted scores, and of raw predictions."""
        return file_agreement.largest_differences(expected, found)

    def _padded(self, pixels: tf.Tensor) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
        """Pad images as the resizer does; return them and int32 [B, 3], sizes without padding."""
        batch, height, width, channels = tf.unstack(tf.shape(pixels))
        padded = self._model.resizer.padded_size(height, width)
        if not self._model.resizer.pads or padded is None:
            return pixels, None
        spare = [[0, 0], [0, padded[0] - height], [0, padded[1] - width], [0, 0]]
        images = tf.pad(pixels, spare)
        size = self._model.resizer.static_size or (None, None)
        # tf.pad by tensors forgets the static size, without which anchors are no constants of the
        # file.
        images.set_shape([pixels.shape[0], *size, pixels.shape[-1]])
        return images, tf.tile(tf.stack([[height, width, channels]]), [batch, 1])


def _kind(model: detector.Detector) -> str:
    """Return what the model finds, as other programs call it."""
    if model.family.IS_ROTATED:
        return 'obb'
    if fields.DETECTION_KEYPOINTS in model.outputs:
        return 'pose'
    return 'segment' if fields.DETECTION_MASKS in model.outputs else 'detect'


def _compared(predictions: Tensors) -> Sequence[str]:
    """Name the raw predictions of `Detector.predict` that a file is compared by."""
    if fields.PROPOSAL_BOXES in predictions:
        names = (fields.RPN_BOX_ENCODINGS, fields.RPN_OBJECTNESS, *file_agreement.OF_PROPOSALS)
        return [name for name in names if name in predictions]
    others = (*fields.OF_ALL_IMAGES, fields.PREPROCESSED)
    return [name for name in predictions if name not in others]
