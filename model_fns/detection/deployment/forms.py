"""Forms of a detector in files of core ops: with its suppression, or without it.

Without it a file has boxes and scores, for a program or a plugin to suppress.

`--suppression=efficient_nms` adds the node `EfficientNMS_TRT` of TensorRT's plugins. Its attributes
and outputs: https://github.com/NVIDIA/TensorRT, `plugin/efficientNMSPlugin`.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, NamedTuple, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Arrays, Features, Tensors
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.deployable import DeploymentOptions, Ops, PluginNode
from model_fns.detection import detector, fields
from model_fns.detection.deployment import file_agreement, whole
from model_fns.detection.detections import suppression

STANDARD, NONE, EFFICIENT = DeploymentOptions.STANDARD, 'none', 'efficient_nms'
KINDS = (STANDARD, NONE, EFFICIENT)
_OPTIONS = ('max_detections', 'fast_nms', 'suppression')

_RAW_MEANINGS = {
    fields.RAW_DETECTION_BOXES: (
        '[batch, A, 1 or classes, values]: ymin, xmin, ymax, xmax (or y and x of four corners) '
        'normalized to the image, which they may exceed'
    ),
    fields.RAW_DETECTION_SCORES: '[batch, A, classes], from 0 to 1, without background',
}
_MEANINGS = {
    fields.NUM_DETECTIONS: 'number of rows of the others that are detections',
    fields.DETECTION_BOXES: 'ymin, xmin, ymax, xmax normalized to the image, which they may exceed',
    fields.DETECTION_SCORES: 'from 0 to 1',
    fields.DETECTION_CLASSES: 'counted from 0, as in labels.txt',
}


_OUTPUTS = tuple(_RAW_MEANINGS)
_ROWS = 'boxes and scores'


class Candidates(NamedTuple):
    """Boxes before suppression.

    Attributes:
        boxes: float32 [B, A, q, K], normalized to the image; q is 1, or C for boxes by class.
        scores: float32 [B, A, C].
    """

    boxes: tf.Tensor
    scores: tf.Tensor


# (predictions, true_shapes) -> candidates; see `detector.Detector.postprocess`.
Find = Callable[[Tensors, Optional[tf.Tensor]], Candidates]


class UnsuppressedDeployable(whole.DetectorDeployable):
    """Deployable form of a detector whose file ends before suppression.

    Args:
        model: the detector.
        find: computes boxes and scores.
        rules: what the plugin does; None: there is no plugin.
    """

    def __init__(self, model: detector.Detector, find: Find, rules: Optional[suppression.Rules]):
        super().__init__(model)
        self.meanings = _RAW_MEANINGS if rules is None else _MEANINGS
        self.contents = {}
        self.report = ()
        self._find = find
        self._rules = rules

    def select(self, predictions: Tensors, true_shapes: Optional[tf.Tensor]) -> Tensors:
        """Compute boxes and scores."""
        found = self._find(predictions, true_shapes)
        return {
            fields.RAW_DETECTION_BOXES: found.boxes,
            fields.RAW_DETECTION_SCORES: found.scores,
        }

    def plugin_node(self) -> Optional[PluginNode]:
        """Describe the node of TensorRT's plugin."""
        rules = self._rules
        if rules is None:
            return None
        rows = rules.max_total
        return PluginNode(
            op='EfficientNMS_TRT',
            domain='TRT',
            inputs=(fields.RAW_DETECTION_BOXES, fields.RAW_DETECTION_SCORES),
            outputs={
                fields.NUM_DETECTIONS: ('int32', (1,)),
                fields.DETECTION_BOXES: ('float32', (rows, self._model.family.SIZE)),
                fields.DETECTION_SCORES: ('float32', (rows,)),
                fields.DETECTION_CLASSES: ('int32', (rows,)),
            },
            attributes={
                'plugin_version': '1',
                # Scores come without the column of background.
                'background_class': -1,
                # The plugin calls the first number x. An IoU is the same with exchanged axes, and
                # boxes are returned as they came.
                'box_coding': 0,  # corners
                'class_agnostic': int(rules.class_agnostic),
                'iou_threshold': rules.iou_threshold,
                'max_output_boxes': rows,
                # Scores are probabilities already. 1 would apply a sigmoid.
                'score_activation': 0,
                'score_threshold': rules.score_threshold,
            },
        )

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Refuse to return detections.

        Raises:
            errors.UserError: always; such a file ends before its suppression.
        """
        raise errors.UserError(
            'a file without suppression has no detections; expected one of --suppression=standard.'
        )

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare boxes and scores, and the raw predictions that they are computed from.

        Those of a second stage have the order of the proposals, which may differ.
        """
        parts = file_agreement.compare_raw(expected, found, exact)
        if file_agreement.PROPOSALS in parts:
            rows = file_agreement.compare_rows(expected, found, _OUTPUTS)
            chosen = file_agreement.chosen_by_both(expected, found, parts)
            return {**parts, _ROWS: min(rows / chosen, 1.0)}
        return {**parts, **agreement.compare(_outputs(expected), _outputs(found), exact)}

    def largest_differences(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Compute the largest difference of each output."""
        return agreement.largest_differences(_outputs(expected), _outputs(found))


def _outputs(images: Sequence[Arrays]) -> Sequence[Arrays]:
    """Return boxes and scores of each image, without raw predictions."""
    return [{name: outputs[name] for name in _OUTPUTS} for outputs in images]


def check_options(ops: Ops, options: DeploymentOptions) -> None:
    """Check that detectors and a format have the options of an export.

    Raises:
        errors.UserError: one is of another task or format.
    """
    options.refuse_others(_OPTIONS, 'detection does not know it')
    if options.suppression != STANDARD and ops is not Ops.CORE:
        raise errors.UserError(
            f'--suppression={options.suppression} is of --format=onnx; leave it out.'
        )


def change_rules(rules: suppression.Rules, options: DeploymentOptions) -> suppression.Rules:
    """Return the rules of suppression in a file.

    Args:
        rules: those of the config.
        options: `max_detections` and `fast_nms` change them.
    """
    return dataclasses.replace(
        rules,
        portable=True,
        max_total=options.max_detections or rules.max_total,
        class_agnostic=rules.class_agnostic or options.fast_nms,
    )


def build(
    model: detector.Detector,
    ops: Ops,
    options: DeploymentOptions,
    rules: Optional[suppression.Rules],
    find: Optional[Find] = None,
) -> whole.DetectorDeployable:
    """Build the deployable form of a detector for a format.

    Args:
        model: the detector, whose rules are portable.
        ops: ops of the format.
        options: checked options; `suppression` is one of `KINDS`.
        rules: rules of its suppression; None: it suppresses nothing.
        find: computes boxes and scores before suppression; None: further outputs depend on the
            detections.

    Raises:
        errors.UserError: the format does not support a part of the model, or the model an option;
            the message names the field.
    """
    _check(model, ops, options, rules)
    kind = options.suppression
    if kind == STANDARD:
        found = whole.DetectorDeployable(model)
        if rules is not None and find is not None and not model.family.IS_ROTATED:
            found.notes = (whole.OPENCV_NOTE,)
        return found
    if rules is None:
        raise errors.UserError(
            f'--suppression={kind}: {model.where} has no post_processing, and suppresses nothing; '
            'leave it out.'
        )
    if find is None:
        raise errors.UserError(
            f'--suppression={kind}: masks, keypoints and proposals of {model.where} are those of '
            f'its detections; expected {STANDARD}.'
        )
    if kind == EFFICIENT and model.family.IS_ROTATED:
        raise errors.UserError(
            f'--suppression={kind}: the plugin has no rotated boxes; expected {STANDARD} or {NONE}.'
        )
    return UnsuppressedDeployable(model, find, rules if kind == EFFICIENT else None)


def _check(
    model: detector.Detector,
    ops: Ops,
    options: DeploymentOptions,
    rules: Optional[suppression.Rules],
) -> None:
    """Check that a format has what a detector needs.

    Raises:
        errors.UserError: it does not support a part of the model; the message names the field.
    """
    if ops is Ops.TFLITE:
        _check_tflite(model, rules)
    if rules is None and options.fast_nms:
        raise errors.UserError(f'--fast_nms: {model.where} has no post_processing; leave it out.')
    if model.side_inputs:
        raise errors.ConfigError(
            f'{model.where}.context_config: a file takes an image, and no features of others; '
            'expected a model without it, or --format=saved_model.'
        )
    if rules is not None and rules.soft_sigma > 0:
        raise errors.ConfigError(
            f'{model.where}: soft_nms_sigma: {rules.soft_sigma:g}: files for small devices have no '
            'soft NMS; expected 0, or --format=saved_model.'
        )


def _check_tflite(model: detector.Detector, rules: Optional[suppression.Rules]) -> None:
    """Refuse what TFLite has no op for, and images of several sizes."""
    if rules is not None:
        raise errors.ConfigError(
            f'{model.where}: such a detector has no place in a TFLite file, whose only suppression '
            'by class is that of single-shot detectors; expected a single-shot detector of '
            'axis-aligned boxes (model.ssd), a CenterNet without post_processing, or '
            '--format=onnx.'
        )
    if model.resizer.pads or model.resizer.static_size is None:
        raise errors.ConfigError(
            f'{model.where}.image_resizer: a TFLite file takes images of one size, without '
            'padding; expected fixed_shape_resizer, or --format=onnx.'
        )
