"""Test-time augmentation of detectors: the fused boxes of several views of an image."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Tensors
from model_fns.detection import fields
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.detections import fusion
from model_fns.detection.detector import Detector
from model_fns.structures import views as views_lib
from model_fns.structures.views import Views
from protos import eval_pb2

tf1 = tf.compat.v1

Side = Union[int, tf.Tensor]  # int32 scalar, where it depends on the batch

# Networks halve their input up to 7 times, and add maps of several of the halves.
_LARGEST_STRIDE = 128
_MERGED = (
    fields.DETECTION_BOXES,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.NUM_DETECTIONS,
)


def build_views(config: eval_pb2.EvalConfig, model: Detector) -> Optional[Views]:
    """Return the views of evaluations and predictions; None: the image as it is.

    Raises:
        errors.ConfigError: the model has other outputs than axis-aligned boxes, or a scale is out
            of range.
    """
    views = views_lib.from_config(config)
    if views is None:
        return None
    others = sorted(model.outputs) or (['rotated boxes'] if model.family.IS_ROTATED else [])
    if others:
        raise errors.ConfigError(
            f'{views_lib.WHERE}: {model.where} has {", ".join(others)}; only axis-aligned boxes '
            'are fused. Expected no views.'
        )
    return views


def predict(
    model: Detector,
    images: tf.Tensor,
    true_shapes: Optional[tf.Tensor],
    views: Views,
    side_inputs: Optional[Tensors],
) -> Dict[str, tf.Tensor]:
    """Compute the raw predictions of all views, with the variables of the current scope.

    Args:
        model: the network, which already has variables.
        images: float32 [B, height, width, channels] in [0, 255], padded.
        true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
        views: the views.
        side_inputs: features by the names of `Detector.side_inputs`; None if there are none.

    Returns:
        By a prefix for the scale: its predictions, inputs, and true shapes if there are any.
    """
    predictions = {}
    sides = {name: views.tile(value) for name, value in (side_inputs or {}).items()} or None
    with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
        for index, scale in enumerate(views.scales):
            pixels, shapes = _resize(images, true_shapes, scale)
            # Both directions are one batch, so that the graph has each layer once for a scale.
            widths = None if shapes is None else shapes[:, 1]
            pixels = views.with_mirrored(pixels, widths)
            shapes = None if shapes is None else views.tile(shapes)
            pixels = model.preprocess(pixels, shapes)
            found = {
                **model.predict(pixels, shapes, None, False, sides),
                fields.PREPROCESSED: pixels,
                **({} if shapes is None else {fields.TRUE_IMAGE_SHAPE: shapes}),
            }
            predictions.update({_prefix(index) + name: value for name, value in found.items()})
    return predictions


def postprocess(
    model: Detector,
    predictions: Tensors,
    true_shapes: Optional[tf.Tensor],
    views: Optional[Views],
) -> Tensors:
    """Compute detections by names of `fields`: the fused ones of views, see `fusion.fuse`.

    Args:
        model: the network.
        predictions: those of the image as it is and, except in training, of `predict`.
        true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
        views: the views; None: the image as it is.
    """
    if views is None or _prefix(0) + fields.PREPROCESSED not in predictions:
        return model.postprocess(predictions, true_shapes)
    by_view: Dict[str, List[tf.Tensor]] = {}
    for index in range(len(views.scales)):
        prefix = _prefix(index)
        own = {
            name[len(prefix) :]: value
            for name, value in predictions.items()
            if name.startswith(prefix)
        }
        # Each view is suppressed by itself. Fusion then counts how many views have found a box.
        found = model.postprocess(own, own.pop(fields.TRUE_IMAGE_SHAPE, None))
        for name in _MERGED:
            halves = tf.split(found[name], 2) if views.mirrors else [found[name]]
            if name == fields.DETECTION_BOXES:
                # Detections are normalized to the image without padding, and the content alone was
                # mirrored, so its own frame is that of the flip.
                halves[1:] = [axis_aligned.flip(boxes, 1) for boxes in halves[1:]]
            by_view.setdefault(name, []).extend(halves)
    stacked = {name: tf.stack(values, 1) for name, values in by_view.items()}
    return fusion.fuse(
        stacked[fields.DETECTION_BOXES],
        stacked[fields.DETECTION_SCORES],
        stacked[fields.DETECTION_CLASSES],
        stacked[fields.NUM_DETECTIONS],
    )


def _prefix(index: int) -> str:
    return f'views_{index}/'


def _resize(
    images: tf.Tensor, true_shapes: Optional[tf.Tensor], scale: float
) -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
    """Resize a batch, and its sizes without padding."""
    if scale == 1.0:
        return images, true_shapes
    before = tf.unstack(tf.shape(images)[1:3])
    is_static = images.shape[1:3].is_fully_defined()
    height, width = images.shape[1:3] if is_static else before
    height, width = _scaled(height, width, scale)
    if true_shapes is not None:
        content, channels = tf.split(true_shapes, [2, 1], axis=1)
        factors = tf.stack([height, width]) / tf.stack(before)
        # float64 as Python's numbers of a static size: in float32 a product near a half may round
        # to another pixel.
        content = tf.cast(tf.round(tf.cast(content, tf.float64) * factors), tf.int32)
        true_shapes = tf.concat([tf.maximum(content, 1), channels], 1)
    return views_lib.resize(images, height, width), true_shapes


def _scaled(height: Side, width: Side, scale: float) -> Tuple[Side, Side]:
    """Return the size at a scale, of sides that can be halved as often as those of the input.

    They are multiples of the largest power of two in the input's sides: up to 128, and to a quarter
    of the shorter side, so that small inputs change at all.
    """
    bits = height | width | _LARGEST_STRIDE
    step = bits & -bits
    if isinstance(height, int):
        while step > 1 and 4 * step > min(height, width):
            step //= 2
    else:
        for _ in range(_LARGEST_STRIDE.bit_length() - 1):
            halves = tf.logical_and(step > 1, 4 * step > tf.minimum(height, width))
            step = tf.where(halves, step // 2, step)
    return _scaled_side(height, scale, step), _scaled_side(width, scale, step)


def _scaled_side(side: Side, scale: float, step: Side) -> Side:
    if isinstance(side, int):
        return step * max(1, views_lib.scale_side(side // step, scale))
    steps = tf.cast(tf.round(tf.cast(side // step, tf.float64) * scale), tf.int32)
    return step * tf.maximum(1, steps)
