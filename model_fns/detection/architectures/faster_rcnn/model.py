"""Two-stage detector: proposals of an image, and their classes and boxes (Ren et al. 2015)."""

from __future__ import annotations

import copy
import dataclasses
from typing import Collection, Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task_interfaces.deployable import Deployable, DeploymentOptions, Ops
from model_fns import layers
from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import (
    context_attention,
    regions,
    second_stage,
    stages,
    third_stage,
)
from model_fns.detection.boxes import anchors, axis_aligned, box_coders, targets
from model_fns.detection.boxes.family import BoxFamily, model_family
from model_fns.detection.data import image_resizers
from model_fns.detection.deployment import forms
from model_fns.detection.networks import object_paths

REGION_LOSSES = ('RPNLoss/localization_loss', 'RPNLoss/objectness_loss')
BOX_LOSSES = ('BoxClassifierLoss/localization_loss', 'BoxClassifierLoss/classification_loss')

# Coder of axis-aligned boxes of both stages, as published.
CODER = box_coders.FasterRcnnBoxCoder((10.0, 10.0, 5.0, 5.0))


class FasterRcnnModel(detector.Detector):
    """Two-stage detector, without inputs, metrics and class ids.

    Args:
        num_classes: C, without background.
        resizer: resizes images to inputs.
        backbone: the network.
        first: the first stage.
        second: the second stage; None: proposals are the detections.
        where: path of the config, for error messages.
        family: family of the boxes. Internally, anchors, proposals and boxes are those of
            `model_family`, in pixels of the input.
        coder: coder of the boxes of both stages.
    """

    last_layer_scopes = (f'{second_stage.HEAD_SCOPE}/',)

    def __init__(
        self,
        num_classes: int,
        resizer: image_resizers.ImageResizer,
        backbone: stages.Backbone,
        first: stages.FirstStage,
        second: Optional[stages.SecondStage],
        where: str = '',
        family: BoxFamily = axis_aligned,
        coder: box_coders.BoxCoder = CODER,
    ):
        self.num_classes = num_classes
        self.family = family
        self.resizer = resizer
        self.tells_classes = second is not None
        self.loss_names = REGION_LOSSES if second is None else (*REGION_LOSSES, *BOX_LOSSES)
        self.class_axes = {} if second is None else second.class_axes(num_classes, coder.code_size)
        if second is not None and second.third is not None:
            self.loss_names = (*self.loss_names, *second.third.loss_names)
            self.outputs = second.third.outputs | (second.outputs & {fields.REFRAMED_MASKS})
        if second is not None and second.context is not None:
            self.side_inputs = frozenset((fields.CONTEXT_FEATURES, fields.NUM_CONTEXT_FEATURES))
        self._backbone, self._first, self._second = backbone, first, second
        self.where = where
        self._model_family = model_family(family)
        self._coder = coder

    def preprocess(self, images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
        """Fill padding, then normalize images [B, height, width, channels], as published."""
        images = detector.fill_raw_padding(images, true_shapes, self.resizer.pad_values)
        images = self.resizer.to_network_channels(images)
        return self.channels.normalize(images, self._backbone.extractor.preprocess)

    def predict(
        self,
        images: tf.Tensor,
        true_shapes: Optional[tf.Tensor],
        groundtruth: Optional[targets.Groundtruth],
        is_training: bool,
        side_inputs: Optional[Dict[str, tf.Tensor]] = None,
    ) -> Dict[str, tf.Tensor]:
        """Compute raw predictions, by the names of `fields`.

        In training the second stage runs on a sample of the proposals, drawn by groundtruth, and
        masks are predicted for proposals. Otherwise masks are predicted for detections, which are
        computed here for that purpose.
        """
        features = self._backbone.features(images, is_training)
        predictions = self._regions(images, features, is_training)
        proposals = regions.propose(
            tf.stop_gradient(self._decoded_regions(predictions)),
            tf.stop_gradient(predictions[fields.RPN_OBJECTNESS]),
            self._first.rules,
            _windows(images, true_shapes),
        )
        if self._second is not None:
            if is_training and self._second.sampler is not None and groundtruth is not None:
                absolute = self._to_pixels(groundtruth, images)
                assigned = self._second.losses.targets(proposals.boxes, absolute)
                proposals = proposals.sampled(self._second.sampler, assigned, groundtruth.numbers())
            memory = context_attention.read_memory(side_inputs)
            predictions.update(self._boxes(images, features, proposals, memory, is_training))
        predictions[fields.PROPOSAL_BOXES] = proposals.boxes
        predictions[fields.PROPOSAL_SCORES] = proposals.scores
        predictions[fields.NUM_PROPOSALS] = proposals.counts
        if self._second is not None:
            if not is_training and self._second.looks_again:
                windows = _windows(images, true_shapes)
                predictions.update(self._final_boxes(images, features, predictions, windows))
            elif self._second.third is not None:
                predictions.update(
                    self._instances_of_proposals(images, features, predictions, groundtruth)
                )
        return predictions

    def losses(
        self,
        predictions: Dict[str, tf.Tensor],
        true_shapes: Optional[tf.Tensor],
        groundtruth: targets.Groundtruth,
    ) -> Dict[str, tf.Tensor]:
        """Compute the losses of all stages, scalars; anchors on padding are negatives."""
        del true_shapes
        groundtruth = self._to_pixels(groundtruth, predictions[fields.PREPROCESSED])
        region_losses = self._first.losses(
            predictions[fields.RPN_BOX_ENCODINGS],
            predictions[fields.RPN_OBJECTNESS],
            predictions[fields.ANCHORS],
            groundtruth,
        )
        values = dict(zip(REGION_LOSSES, region_losses))
        if self._second is not None:
            box_losses = self._second.losses(
                predictions[fields.REFINED_BOX_ENCODINGS],
                predictions[fields.CLASS_LOGITS],
                predictions[fields.PROPOSAL_BOXES],
                predictions[fields.NUM_PROPOSALS],
                groundtruth,
            )
            values.update(zip(BOX_LOSSES, box_losses))
            if self._second.third is not None:
                boxes = predictions[fields.INSTANCE_BOXES]
                assigned = self._second.losses.targets(boxes, groundtruth)
                values.update(self._second.third.losses(predictions, assigned, groundtruth))
        return values

    def select_example(
        self, predictions: Dict[str, tf.Tensor], index: tf.Tensor
    ) -> Dict[str, tf.Tensor]:
        """Select the predictions of one image; those of instances have rows of all images."""
        logits = {fields.MASK_LOGITS, fields.KEYPOINT_LOGITS} & predictions.keys()
        by_box = {fields.BOX_FEATURES, fields.INSTANCE_ROWS, *logits}
        by_image = {name: value for name, value in predictions.items() if name not in by_box}
        selected = super().select_example(by_image, index)
        if fields.INSTANCE_ROWS in predictions:
            rows, boxes = predictions[fields.INSTANCE_ROWS], predictions[fields.INSTANCE_BOXES]
            own = tf.equal(rows // boxes.shape[1], index)
            selected[fields.INSTANCE_ROWS] = tf.boolean_mask(rows, own) - index * boxes.shape[1]
            selected.update({name: tf.boolean_mask(predictions[name], own) for name in logits})
        return selected

    def postprocess(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> Dict[str, tf.Tensor]:
        """Convert raw predictions to detections."""
        windows = _windows(predictions[fields.PREPROCESSED], true_shapes)
        if self._second is None:
            return self._proposals_as_detections(predictions, windows)
        if fields.DETECTION_BOXES in predictions:
            names = [name for name in fields.DETECTIONS if name in predictions]
            detections = {name: predictions[name] for name in names}
        else:
            detections = self._detections(predictions, windows)
        proposals = predictions[fields.PROPOSAL_BOXES]
        shown = self.family.from_boxes(proposals, *_far_sides(windows))
        return {**detections, fields.SHOWN_PROPOSALS: shown}

    def deployable(self, ops: Ops, options: DeploymentOptions) -> Deployable:
        """Build the deployable form of the detector, whose suppressions have no loops."""
        model = copy.copy(self)
        if self._second is None:
            rules = forms.change_rules(self._first.rules, options)
            model._first = dataclasses.replace(self._first, rules=rules)
            return forms.build(model, ops, options, rules)
        proposing = dataclasses.replace(self._first.rules, portable=True)
        model._first = dataclasses.replace(self._first, rules=proposing)
        rules = forms.change_rules(self._second.post_processor.rules, options)
        model._second = dataclasses.replace(
            self._second,
            post_processor=self._second.post_processor.with_rules(rules),
            outputs=self._second.outputs & {fields.REFRAMED_MASKS},
        )
        find = None if self._second.third is not None else model._candidates
        return forms.build(model, ops, options, rules, find)

    def _candidates(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> forms.Candidates:
        """Compute the boxes and scores that are suppressed; scores are 0 without a proposal."""
        windows = _windows(predictions[fields.PREPROCESSED], true_shapes)
        proposals = predictions[fields.PROPOSAL_BOXES]
        codes = predictions[fields.REFINED_BOX_ENCODINGS]
        boxes = self._coder.decode(codes, proposals[:, :, tf.newaxis])
        height, width = _far_sides(windows)
        boxes = self.family.from_boxes(boxes, height[:, tf.newaxis], width[:, tf.newaxis])
        scores = self._second.post_processor.class_scores(predictions[fields.CLASS_LOGITS])
        valid = tf.sequence_mask(predictions[fields.NUM_PROPOSALS], proposals.shape[1])
        return forms.Candidates(boxes, tf.where(valid[..., tf.newaxis], scores, 0.0))

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Map names of a checkpoint to the variables of both feature extractors."""
        by_name = {variable_name(variable): variable for variable in variables}
        return self._backbone.extractor.restore_map(by_name, checkpoint_type)

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Map paths of an object-based checkpoint to variables."""
        extractor = self._backbone.extractor
        where = f'{self.where}.feature_extractor'
        object_paths.require_objects(extractor.type_name, where)
        is_classifier = checkpoint_type == 'classification'
        rules = extractor.object_rules(variables, whole=is_classifier)
        if checkpoint_type != 'full':
            starts = tuple(f'{scope}/' for scope in extractor.scopes)
            variables = [
                variable for variable in variables if variable_name(variable).startswith(starts)
            ]
            return object_paths.map_paths(variables, rules, complete=not is_classifier)
        drops = self._second is not None and self._second.drops_features
        heads = object_paths.two_stage_head_rules(variables, drops, self._enlarged_layer())
        return object_paths.map_paths(variables, [*rules, *heads])

    def _enlarged_layer(self) -> Optional[int]:
        """Return the number of the mask convolution on enlarged features; None: there is none."""
        third = None if self._second is None else self._second.third
        if third is None or third.masks is None:
            return None
        head = third.masks.build_head(False)
        return head.num_layers - 1 if head.enlarges_late else None

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe why a checkpoint is of the other generation; empty if it is not."""
        return self._backbone.extractor.foreign_checkpoint(names)

    def anchor_fit(self, images: tf.Tensor, boxes: tf.Tensor) -> Optional[detector.AnchorFit]:
        """Compute the similarity of boxes, [B, N, K], and the best anchors of training.

        The first stage also forces worse matches, so the threshold is that of the second stage.
        """
        features = self._backbone.features(images, is_training=False)
        anchors_used = self._regions(images, features, is_training=True)[fields.ANCHORS]
        height, width = _sides(images)
        in_pixels = self.family.to_boxes(boxes, height, width)
        similarity = self._first.losses.assigner.best_similarity(anchors_used, in_pixels)
        normalized = self.family.from_boxes(anchors_used, height, width)
        least = second_stage.MATCHED if self._second is None else self._second.losses.matched
        meaning = 'what the second stage takes for an object'
        return detector.AnchorFit(similarity, normalized, least, meaning)

    def _detections(
        self, predictions: Dict[str, tf.Tensor], windows: tf.Tensor
    ) -> Dict[str, tf.Tensor]:
        """Convert the predictions of the second stage to detections."""
        proposals = predictions[fields.PROPOSAL_BOXES]
        boxes = self._coder.decode(
            predictions[fields.REFINED_BOX_ENCODINGS], proposals[:, :, tf.newaxis]
        )
        detections = self._second.post_processor.apply(
            boxes, predictions[fields.CLASS_LOGITS], windows, predictions[fields.NUM_PROPOSALS]
        )
        names = fields.DETECTION_BOXES, fields.RAW_DETECTION_BOXES
        boxes, raw = (
            self.family.from_boxes(detections[name], *_far_sides(windows)) for name in names
        )
        raw = self.family.clip_to_window(raw, tf.constant([0.0, 0.0, 1.0, 1.0]))
        return {**detections, **dict(zip(names, (boxes, raw)))}

    def _regions(
        self, images: tf.Tensor, features: Sequence[tf.Tensor], is_training: bool
    ) -> Dict[str, tf.Tensor]:
        """Compute the first stage's predictions for its anchors."""
        generator = self._first.anchor_generator
        per_cell = generator.anchors_per_location()
        codes, logits = self._first.build_head(is_training).predict(features, per_cell)
        size = anchors.spatial_size(images)
        generated = generator.generate([anchors.spatial_size(level) for level in features], size)
        boxes = tf.convert_to_tensor(generated)
        if is_training and not (self._first.clips_anchors or generator.keeps_outside):
            where = f'{self.where}.first_stage_anchor_generator'
            rows = regions.rows_inside(generator.enclosing_boxes(generated), size, where)
            boxes = tf.gather(boxes, rows)
            codes, logits = (tf.gather(values, rows, axis=1) for values in (codes, logits))
        elif not generator.keeps_outside:
            boxes = self._model_family.clip_to_window(boxes, _windows(images, None)[0])
        return {
            fields.RPN_BOX_ENCODINGS: codes,
            fields.RPN_OBJECTNESS: logits,
            fields.ANCHORS: boxes,
        }

    def _decoded_regions(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Decode the box of each anchor, [B, A, K]."""
        return self._coder.decode(
            predictions[fields.RPN_BOX_ENCODINGS], predictions[fields.ANCHORS]
        )

    def _boxes(
        self,
        images: tf.Tensor,
        features: Sequence[tf.Tensor],
        proposals: regions.Proposals,
        memory: Optional[context_attention.Memory],
        is_training: bool,
    ) -> Dict[str, tf.Tensor]:
        """Compute the second stage's predictions for its proposals."""
        sides = _sides(images)
        head, context = self._second.build_head(is_training), self._second.context
        if not (is_training or context or self._second.crops is None):
            return self._boxes_of_valid(features, proposals, sides)
        if self._second.crops is None:
            box_features = self._backbone.box_features(features[0], is_training)
            codes, logits = head.predict(
                box_features, self.family.from_boxes(proposals.boxes, *sides)
            )
        else:
            crops = self._second.crops(features, proposals.boxes, sides)
            if context is not None and context.on_crops:
                crops = context(crops, proposals.counts, memory, is_training)
            box_features = self._backbone.box_features(crops, is_training)
            if context is not None and not context.on_crops:
                box_features = context(box_features, proposals.counts, memory, is_training)
            codes, logits = head.predict(box_features)
        count = proposals.boxes.shape[1]
        return {
            fields.BOX_FEATURES: box_features,
            fields.REFINED_BOX_ENCODINGS: tf.reshape(codes, [-1, count, *codes.shape[1:]]),
            fields.CLASS_LOGITS: tf.reshape(logits, [-1, count, *logits.shape[1:]]),
        }

    def _boxes_of_valid(
        self,
        features: Sequence[tf.Tensor],
        proposals: regions.Proposals,
        sides: Tuple[tf.Tensor, tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Compute the second stage's predictions in inference; 0 for rows without a proposal.

        The network does not run for these rows, as images may have fewer proposals than rows.
        """
        count = proposals.boxes.shape[1]
        marks = tf.sequence_mask(proposals.counts, count)
        rows = third_stage.true_rows(marks)
        boxes = third_stage.take_rows(proposals.boxes, rows)
        crops = self._second.crops.crop_rows(features, boxes, rows // count, sides)
        box_features = self._backbone.box_features(crops, is_training=False)
        codes, logits = self._second.build_head(False).predict(box_features)
        return {
            fields.REFINED_BOX_ENCODINGS: third_stage.spread(codes, rows, marks),
            fields.CLASS_LOGITS: third_stage.spread(logits, rows, marks),
        }

    def _instances_of_proposals(
        self,
        images: tf.Tensor,
        features: Sequence[tf.Tensor],
        predictions: Dict[str, tf.Tensor],
        groundtruth: Optional[targets.Groundtruth],
    ) -> Dict[str, tf.Tensor]:
        """Compute logits of masks and keypoints of the proposals that hold an object.

        All proposals have them if batch norm uses their statistics.
        """
        third = self._second.third
        boxes = predictions[fields.PROPOSAL_BOXES]
        marks = tf.fill(tf.shape(boxes)[:2], True)
        if groundtruth is not None and third.is_by_row:
            absolute = self._to_pixels(groundtruth, images)
            marks = self._second.losses.targets(boxes, absolute).matches >= 0
        rows = third_stage.true_rows(marks)
        if third.crops is None:
            row_features = tf.gather(predictions[fields.BOX_FEATURES], rows)
        else:
            place = third_stage.take_rows(boxes, rows), rows // tf.shape(boxes)[1], _sides(images)
            row_features = third.crops.crop_rows(features, *place)
        logits = third.predict(row_features, is_training=True)
        return {fields.INSTANCE_BOXES: boxes, fields.INSTANCE_ROWS: rows, **logits}

    def _final_boxes(
        self,
        images: tf.Tensor,
        features: Sequence[tf.Tensor],
        predictions: Dict[str, tf.Tensor],
        windows: tf.Tensor,
    ) -> Dict[str, tf.Tensor]:
        """Compute detections with their masks, keypoints and features.

        All are 0 for rows without a detection.
        """
        second, detections = self._second, self._detections(predictions, windows)
        # Convert normalized boxes to pixels of the input.
        boxes = self.family.to_boxes(detections[fields.DETECTION_BOXES], *_far_sides(windows))
        count = tf.shape(boxes)[1]
        marks = (
            tf.range(tf.cast(count, tf.float32)) < detections[fields.NUM_DETECTIONS][:, tf.newaxis]
        )
        rows = third_stage.true_rows(marks)
        row_boxes = third_stage.take_rows(boxes, rows)
        place = row_boxes, rows // count, _sides(images)
        crops = second.crops.crop_rows(features, *place)
        box_features = self._backbone.box_features(crops, is_training=False)
        values = {fields.DETECTION_FEATURES: box_features, fields.CROPPED_FEATURES: crops}
        values = {name: value for name, value in values.items() if name in second.outputs}
        instances: Dict[str, tf.Tensor] = {}
        if second.third is not None:
            row_features = box_features
            if second.third.crops is not None:
                row_features = second.third.crops.crop_rows(features, *place)
            logits = second.third.predict(row_features, is_training=False)
            instances = {fields.INSTANCE_BOXES: boxes, fields.INSTANCE_ROWS: rows, **logits}
            classes = third_stage.take_rows(detections[fields.DETECTION_CLASSES], rows)
            values.update(second.third.detect(logits, row_boxes, tf.cast(classes, tf.int32)))
        spread = {
            name: third_stage.spread(layers.to_float32(value), rows, marks)
            for name, value in values.items()
        }
        if fields.DETECTION_KEYPOINTS in spread:
            spread[fields.DETECTION_KEYPOINTS] /= windows[:, tf.newaxis, tf.newaxis, 2:]
        return {**detections, **instances, **spread}

    def _proposals_as_detections(
        self, predictions: Dict[str, tf.Tensor], windows: tf.Tensor
    ) -> Dict[str, tf.Tensor]:
        """Convert proposals of a one-stage model to detections of unknown classes."""
        scores = predictions[fields.PROPOSAL_SCORES]
        boxes, raw = (
            self.family.from_boxes(boxes, *_far_sides(windows))
            for boxes in (predictions[fields.PROPOSAL_BOXES], self._decoded_regions(predictions))
        )
        return {
            fields.DETECTION_BOXES: boxes,
            fields.DETECTION_SCORES: scores[..., 1],
            fields.DETECTION_CLASSES: tf.zeros_like(scores[..., 1]),
            fields.NUM_DETECTIONS: tf.cast(predictions[fields.NUM_PROPOSALS], tf.float32),
            fields.DETECTION_MULTICLASS_SCORES: scores,
            fields.RAW_DETECTION_BOXES: raw,
            fields.RAW_DETECTION_SCORES: tf.nn.softmax(predictions[fields.RPN_OBJECTNESS]),
        }

    def _to_pixels(
        self, groundtruth: targets.Groundtruth, images: tf.Tensor
    ) -> targets.Groundtruth:
        """Convert groundtruth from normalized coordinates to pixels of the padded input."""
        sides = _sides(images)
        keypoints = groundtruth.keypoints
        return dataclasses.replace(
            groundtruth,
            boxes=self.family.to_boxes(groundtruth.boxes, *sides),
            keypoints=None if keypoints is None else keypoints * tf.stack(sides),
        )


def _sides(images: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return height and width of [B, height, width, channels], float32 scalars."""
    height, width = tf.unstack(tf.cast(tf.shape(images)[1:3], tf.float32))
    return height, width


def _windows(images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
    """Compute the image without padding in pixels: float32 [B, 4], or [1, 4] of whole inputs.

    Args:
        images: [B, height, width, channels].
        true_shapes: int32 [B, 3]; None: there is no padding.
    """
    if true_shapes is None:
        true_shapes = tf.shape(images)[tf.newaxis, 1:]
    far = tf.cast(true_shapes[:, :2], tf.float32)
    return tf.concat([tf.zeros_like(far), far], axis=1)


def _far_sides(windows: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return height and width [B, 1] of windows [B, 4], which begin at (0, 0)."""
    return windows[:, 2:3], windows[:, 3:4]
