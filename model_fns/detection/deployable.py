"""Single-shot detectors in exports for small devices: pixels in, detections out."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, Mapping, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Arrays, Features, Tensors
from estimator_lib.task_interfaces import deployable as interface
from estimator_lib.task_interfaces.deployable import Ops
from model_fns.detection import detector, fields, file_agreement
from model_fns.detection.boxes import axis_aligned, box_coders
from model_fns.detection.detections import device_suppression, post_processing, suppression
from model_fns.structures import label_map as label_maps

_SCORES = 'class_predictions'  # raw, after the score converter
_MEANINGS = {
    fields.DETECTION_BOXES: (
        'ymin, xmin, ymax, xmax normalized to the input, highest score first; they may exceed it'
    ),
    fields.DETECTION_CLASSES: 'counted from 0, as in labels.txt',
    fields.DETECTION_SCORES: 'from 0 to 1',
    fields.NUM_DETECTIONS: 'number of rows of the others that are detections',
}
CONTENTS = {
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
# They are normalized to the input, of which the image may take a part.
_INPUT_FRAME = ('frame = np.array(size) * pixels.shape[:2] / content',)


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
    """Network of a detector, whose files are compared by their detections."""

    kind = 'detect'

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


class SingleShotDeployable(DetectorDeployable):
    """Deployable form of a single-shot detector.

    Args:
        model: the detector.
        converter: converts logits to scores.
        rules: rules of the file's suppression.
        changes_frame: True: boxes are normalized to the image; False: to the padded input.
        drops_empty: True: boxes without area inside the image are dropped.
    """

    def __init__(
        self,
        model: detector.Detector,
        converter: post_processing.ScoreConverter,
        rules: device_suppression.Rules,
        changes_frame: bool,
        drops_empty: bool,
    ):
        # The network's graph makes colors gray.
        self.input_shape = (*model.resizer.static_size, model.channels.total)
        self.meanings, self.contents = _MEANINGS, CONTENTS
        self.resize = model.resizer.rule
        if self.resize is not None and model.resizer.pads:
            self.resize = self.resize._replace(padding=_padding_color(model))
        self.report = report_lines(fields.DETECTION_BOXES, _INPUT_FRAME)
        self._model = model
        self._converter = converter
        self._rules = rules
        self._changes_frame = changes_frame
        self._drops_empty = drops_empty

    def pixels(self, features: Features) -> tf.Tensor:
        """Return the input pixels; padding gets the color that normalization turns into padding.

        Returns:
            float32 [B, height, width, channels].
        """
        images = tf.ensure_shape(features[fields.IMAGE], [None, *self.input_shape])
        if self._model.resizer.pads:
            color = _padding_pixel(self._model)
            # The file normalizes its whole input, while the detector fills its padding after
            # normalization.
            images = detector.fill_padding(images, features[fields.TRUE_IMAGE_SHAPE], color)
        return tf.clip_by_value(images, 0.0, 255.0)

    def network(self, pixels: tf.Tensor) -> Tensors:
        """Compute codes [1, A, 4], scores [1, A, C'] and anchors [A, 4]."""
        images = self._model.preprocess(pixels, None)
        predictions = self._model.predict(images, None, None, False)
        return {
            fields.BOX_ENCODINGS: predictions[fields.BOX_ENCODINGS],
            _SCORES: self._converter(predictions[fields.CLASS_LOGITS]),
            fields.ANCHORS: predictions[fields.ANCHORS],
        }

    def finish(self, raw: Tensors, ops: Ops) -> Tensors:
        """Suppress overlapping boxes by the op of the format."""
        suppress, rules = device_suppression.suppress_in_tflite, self._rules
        if ops is Ops.CORE:
            suppress = device_suppression.suppress_in_one_op
        elif ops is Ops.TFLITE_INT8:
            # Coordinates would have steps of a hundredth: a thin box would seem to have no area.
            rules = dataclasses.replace(rules, drops_empty=False)
        detections = suppress(raw[fields.BOX_ENCODINGS], raw[_SCORES], raw[fields.ANCHORS], rules)
        return {
            fields.DETECTION_BOXES: detections.boxes,
            fields.DETECTION_CLASSES: detections.classes,
            fields.DETECTION_SCORES: detections.scores,
            fields.NUM_DETECTIONS: detections.count,
        }

    def intermediates(self, raw: Tensors) -> Tensors:
        """Return codes and scores of all anchors: [B, A, 4] and [B, A, classes]."""
        return {name: raw[name] for name in (fields.BOX_ENCODINGS, _SCORES)}

    def custom_ops(self, ops: Ops) -> FrozenSet[str]:
        """Name the custom ops of a format."""
        return frozenset({device_suppression.TFLITE_OP} if ops is Ops.TFLITE else ())

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Convert the file's detections to those of the task, without raw predictions."""
        boxes = found[fields.DETECTION_BOXES]
        if self._model.resizer.pads:
            true_shapes = features[fields.TRUE_IMAGE_SHAPE]
            far = detector.content_shares(true_shapes, features[fields.IMAGE])
            windows = tf.concat([tf.zeros_like(far), far], axis=1)[:, tf.newaxis]
            boxes = axis_aligned.clip_to_window(boxes, windows)
            if self._changes_frame:
                boxes = axis_aligned.change_frame(boxes, windows)
        else:
            boxes = tf.clip_by_value(boxes, 0.0, 1.0)
        scores = found[fields.DETECTION_SCORES]
        counts = tf.cast(found[fields.NUM_DETECTIONS], tf.int32)
        valid = tf.sequence_mask(counts, tf.shape(scores)[1])
        if self._drops_empty:
            valid = tf.logical_and(valid, axis_aligned.area(boxes) > 0)
        # Valid rows move up, in order.
        rows = tf.argsort(tf.cast(tf.logical_not(valid), tf.int32), stable=True)
        boxes, scores, classes, valid = (
            tf.gather(values, rows, batch_dims=1)
            for values in (boxes, scores, found[fields.DETECTION_CLASSES], valid)
        )
        return {
            fields.DETECTION_BOXES: tf.where(valid[..., tf.newaxis], boxes, 0.0),
            fields.DETECTION_CLASSES: label_maps.to_id(tf.where(valid, classes, 0.0)),
            fields.DETECTION_SCORES: tf.where(valid, scores, 0.0),
            fields.NUM_DETECTIONS: tf.reduce_sum(tf.cast(valid, tf.float32), axis=1),
        }


def _padding_pixel(model: detector.Detector) -> tf.Tensor:
    """Compute the color that the normalization, which is affine, turns into padding.

    Returns:
        float32 [3], or [1] for a network with gray inputs.
    """
    black = tf.zeros([1, 1, 1, model.channels.total])
    lowest, following = (model.preprocess(pixel, None) for pixel in (black, black + 1.0))
    # An image of size 0 consists of padding only.
    padding = model.preprocess(black, tf.zeros([1, 3], tf.int32))
    return ((padding - lowest) / (following - lowest))[0, 0, 0]


def _padding_color(model: detector.Detector) -> Tuple[float, ...]:
    """Return the color of padding as numbers."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return tuple(session.run(_padding_pixel(model)).tolist())


def build(
    model: detector.Detector,
    coder: box_coders.BoxCoder,
    post_processor: post_processing.PostProcessor,
    ops: Ops,
    options: Mapping[str, Any],
) -> SingleShotDeployable:
    """Build the deployable form of a detector for a format.

    Args:
        model: `model.ssd`.
        coder: coder of its boxes.
        post_processor: converts raw predictions to detections.
        ops: ops of the format.
        options: `max_detections` (default: that of the config), `fast_nms` and, with core ops,
            `suppression`.

    Raises:
        errors.UserError: an option is unknown, or the format does not support a part of the model;
            the message names the field.
    """
    unknown = {name: value for name, value in options.items() if name not in _OPTIONS}
    interface.refuse_options(unknown, 'detection does not know it')
    if 'suppression' in options and ops is not Ops.CORE:
        raise errors.UserError(
            f'--suppression={options["suppression"]} is of --format=onnx; leave it out.'
        )
    problem = find_problem(model, coder, post_processor.rules)
    if problem:
        other = 'saved_model' if post_processor.rules.soft_sigma > 0 else 'onnx'
        raise errors.ConfigError(f'{problem}, or --format={other}.')
    kept = post_processor.rules
    most = options.get('max_detections') or kept.max_total
    fast = kept.class_agnostic or bool(options.get('fast_nms'))
    if model.num_classes == 1:
        most = min(most, kept.max_per_class)
        # One class is suppressed in the same way, and without the bound below.
        fast = fast or ops is Ops.TFLITE
    if ops is Ops.TFLITE and not fast and min(most, kept.max_per_class) > _MOST_PER_CLASS:
        raise errors.ConfigError(
            f'model.ssd.post_processing: {min(most, kept.max_per_class)} detections of a class; '
            f"TFLite's op keeps {_MOST_PER_CLASS}. Expected --max_detections={_MOST_PER_CLASS}, "
            '--fast_nms or --format=onnx.'
        )
    rules = device_suppression.Rules(
        num_classes=model.num_classes,
        max_detections=most,
        max_per_class=kept.max_per_class,
        score_threshold=kept.score_threshold,
        iou_threshold=kept.iou_threshold,
        fast=fast,
        scales=coder.scales,
        drops_empty=kept.drop_empty,
    )
    found = SingleShotDeployable(
        model, post_processor.converter, rules, kept.change_frame, kept.drop_empty
    )
    found.notes = (OPENCV_NOTE,) if ops is Ops.CORE else ()
    return found


_OPTIONS = ('max_detections', 'fast_nms', 'suppression')
# The converter of TensorFlow 2.15 to 2.21 does not write `detections_per_class` into the file, and
# 100 is what the op takes then.
_MOST_PER_CLASS = 100


def find_problem(
    model: detector.Detector, coder: box_coders.BoxCoder, rules: suppression.Rules
) -> str:
    """Describe the first setting that the op of a file does not support; empty: none."""
    where = model.where
    suppresses = f'{where}.post_processing.batch_non_max_suppression'
    refused = (
        (
            model.resizer.static_size is None,
            f'{where}.image_resizer: inputs differ in size, and a file for small devices has one; '
            'expected fixed_shape_resizer, or keep_aspect_ratio_resizer with '
            'pad_to_max_dimension: true',
        ),
        (
            model.family is not axis_aligned,
            f'{where}.box_type: ROTATED; expected AXIS_ALIGNED, as rotated boxes have no place '
            'in a TFLite file',
        ),
        (
            type(coder) is not box_coders.FasterRcnnBoxCoder,
            f'{where}.box_coder: {_NAMES.get(type(coder), type(coder).__name__)} has '
            'no place in a file for small devices; expected faster_rcnn_box_coder',
        ),
        (
            rules.soft_sigma > 0,
            f'{suppresses}.soft_nms_sigma: {rules.soft_sigma:g}: files for small devices have no '
            'soft NMS; expected 0',
        ),
        (
            rules.max_classes_per_box > 1,
            f'{suppresses}.max_classes_per_detection: {rules.max_classes_per_box}: in files for '
            'small devices a box has one class; expected 1',
        ),
    )
    return next((message for is_refused, message in refused if is_refused), '')


_NAMES: Mapping[type, str] = {
    box_coders.MeanStddevBoxCoder: 'mean_stddev_box_coder',
    box_coders.SquareBoxCoder: 'square_box_coder',
}
