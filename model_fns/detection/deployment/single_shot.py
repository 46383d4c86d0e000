"""Single-shot detectors in files that end with an op of suppression.

Other formats and programs know such files. The network is apart from its suppression, whose op
depends on the format. The image comes in the size of the input, padding included.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Features, Tensors
from estimator_lib.task_interfaces.deployable import Ops
from model_fns.detection import detector, fields
from model_fns.detection.boxes import axis_aligned, box_coders
from model_fns.detection.deployment import file_suppression, whole
from model_fns.detection.detections import post_processing, suppression

_SCORES = 'class_predictions'  # raw, after the score converter
_RAW = (fields.BOX_ENCODINGS, _SCORES, fields.ANCHORS)
# Boxes are normalized to the input, of which the image may take a part.
_INPUT_FRAME = ('frame = np.array(size) * pixels.shape[:2] / content',)
# The converter of TensorFlow 2.15 to 2.21 does not write `detections_per_class` into the file, and
# 100 is what the op takes then.
_MOST_PER_CLASS = 100
_CODERS: Mapping[type, str] = {
    box_coders.MeanStddevBoxCoder: 'mean_stddev_box_coder',
    box_coders.SquareBoxCoder: 'square_box_coder',
}


class SingleShotDeployable(whole.DetectorDeployable):
    """Deployable form of a single-shot detector.

    Args:
        model: the detector, of which `find_problem` finds no problem.
        coder: coder of its boxes.
        converter: converts logits to scores.
        rules: portable rules of the file's suppression.
    """

    tflite_ops = (file_suppression.TFLITE_OP,)

    def __init__(
        self,
        model: detector.Detector,
        coder: box_coders.FasterRcnnBoxCoder,
        converter: post_processing.ScoreConverter,
        rules: suppression.Rules,
    ):
        super().__init__(model)
        self.input_shape = (*model.resizer.static_size, model.channels.total)
        self.meanings = {
            **self.meanings,
            fields.DETECTION_BOXES: (
                'ymin, xmin, ymax, xmax normalized to the input, highest score first; they may '
                'exceed it'
            ),
        }
        if self.resize is not None and model.resizer.pads:
            self.resize = self.resize._replace(padding=_padding_color(model))
        self.report = whole.report_lines(fields.DETECTION_BOXES, _INPUT_FRAME)
        self._coder, self._converter, self._rules = coder, converter, rules

    def pixels(self, features: Features) -> tf.Tensor:
        """Return the input pixels; padding gets the color that normalization turns into padding.

        Returns:
            float32 [B, height, width, channels].
        """
        images = features[fields.IMAGE]
        if self._model.resizer.pads:
            # The file normalizes its whole input, while the detector fills its padding after
            # normalization.
            color = _padding_pixel(self._model)
            images = detector.fill_padding(images, features[fields.TRUE_IMAGE_SHAPE], color)
        return super().pixels({**features, fields.IMAGE: images})

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
        codes, scores, anchors = (raw[name] for name in _RAW)
        num_classes, rules = self._model.num_classes, self._rules
        if ops is Ops.CORE:
            boxes = self._coder.decode(codes, anchors)
            scores = scores[..., scores.shape[-1] - num_classes :]
            return file_suppression.suppress_in_one_op(boxes, scores, rules)
        if ops is Ops.TFLITE_INT8:
            # Coordinates would have steps of a hundredth: a thin box would seem to have no area.
            rules = dataclasses.replace(rules, drop_empty=False)
        return file_suppression.suppress_in_tflite(
            codes, scores, anchors, self._coder, num_classes, rules
        )

    def intermediates(self, raw: Tensors) -> Tensors:
        """Return codes and scores of all anchors: [B, A, 4] and [B, A, classes]."""
        return {name: raw[name] for name in (fields.BOX_ENCODINGS, _SCORES)}

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Convert the file's detections to those of the task, without raw predictions."""
        windows = tf.constant([[0.0, 0.0, 1.0, 1.0]])
        if self._model.resizer.pads:
            shapes = features[fields.TRUE_IMAGE_SHAPE]
            windows = detector.content_windows(shapes, features[fields.IMAGE])
        scores = found[fields.DETECTION_SCORES]
        rows = scores.shape[1] or tf.shape(scores)[1]
        counts = tf.cast(found[fields.NUM_DETECTIONS], tf.int32)
        valid = tf.sequence_mask(counts, rows)
        detections = suppression.Detections(
            boxes=found[fields.DETECTION_BOXES],
            scores=tf.where(valid, scores, tf.constant(-float('inf'))),
            classes=found[fields.DETECTION_CLASSES],
            anchors=tf.zeros_like(scores, tf.int32),  # of no output
            counts=counts,
        )
        kept = suppression.keep_best(detections, rows, self._rules, windows)
        kept_outputs = {
            fields.DETECTION_BOXES: kept.boxes,
            fields.DETECTION_CLASSES: kept.classes,
            fields.DETECTION_SCORES: kept.scores,
            fields.NUM_DETECTIONS: tf.cast(kept.counts, tf.float32),
        }
        return super().outputs(kept_outputs, features)


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
) -> SingleShotDeployable:
    """Build the deployable form of a detector for a format.

    Args:
        model: `model.ssd`.
        coder: coder of its boxes.
        post_processor: converts raw predictions to detections, by portable rules.
        ops: ops of the format.

    Raises:
        errors.ConfigError: the format does not support a part of the model; the message names the
            field.
    """
    rules = post_processor.rules
    problem = find_problem(model, coder, rules)
    if problem:
        other = 'saved_model' if rules.soft_sigma > 0 else 'onnx'
        raise errors.ConfigError(f'{problem}, or --format={other}.')
    most = min(rules.max_total, rules.max_per_class)
    if model.num_classes == 1:
        # One class is suppressed in the same way, and without the bound below.
        agnostic = rules.class_agnostic or ops is Ops.TFLITE
        rules = dataclasses.replace(rules, max_total=most, class_agnostic=agnostic)
    if ops is Ops.TFLITE and not rules.class_agnostic and most > _MOST_PER_CLASS:
        raise errors.ConfigError(
            f"model.ssd.post_processing: {most} detections of a class; TFLite's op keeps "
            f'{_MOST_PER_CLASS}. Expected --max_detections={_MOST_PER_CLASS}, --fast_nms or '
            '--format=onnx.'
        )
    assert isinstance(coder, box_coders.FasterRcnnBoxCoder)  # no other is left
    form = SingleShotDeployable(model, coder, post_processor.converter, rules)
    form.notes = (whole.OPENCV_NOTE,) if ops is Ops.CORE else ()
    return form


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
            f'{where}.box_coder: {_CODERS.get(type(coder), type(coder).__name__)} has '
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
