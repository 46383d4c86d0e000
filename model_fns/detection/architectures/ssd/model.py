"""Single-shot meta-architecture: one network pass from an image to boxes (Liu et al. 2016)."""

from __future__ import annotations

import copy
import dataclasses
from typing import Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import MOVING_AVERAGE
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from estimator_lib.task_interfaces.deployable import Deployable, DeploymentOptions, Ops
from model_fns.detection import detector, fields, generations
from model_fns.detection.boxes import (
    anchors,
    axis_aligned,
    box_coders,
    matchers,
    quadrilaterals,
    rotated,
    targets,
)
from model_fns.detection.boxes.family import BoxFamily, model_family
from model_fns.detection.data import image_resizers
from model_fns.detection.deployment import forms, single_shot
from model_fns.detection.detections import post_processing
from model_fns.detection.losses import losses, mining
from model_fns.detection.networks import box_predictors, object_paths
from model_fns.detection.networks.feature_extractors import extractor

CLASSIFICATION_LOSS = 'classification_loss'
LOCALIZATION_LOSS = 'localization_loss'


@dataclasses.dataclass(frozen=True)
class LossRules:
    """Rules that combine the losses of anchors to the losses of a batch.

    Attributes:
        localization: localization loss of each anchor.
        classification: classification loss of each anchor.
        reduction: selects and weights anchors; see `mining`.
        localization_weight: factor of the localization loss.
        classification_weight: factor of the classification loss.
        by_matches: True: both are divided by the sum of the matched anchors' weights.
        by_code_size: True: the localization loss is divided by the length of the box code too.
        scores_overlap: True: the classification loss takes the overlaps of predicted boxes.
    """

    localization: losses.LocalizationLoss
    classification: losses.ClassificationLoss
    reduction: mining.Reduction
    localization_weight: float = 1.0
    classification_weight: float = 1.0
    by_matches: bool = True
    by_code_size: bool = False
    scores_overlap: bool = False


class SsdModel(detector.Detector):
    """Single-shot detector, without inputs, metrics and class ids.

    Args:
        num_classes: C, without background.
        resizer: resizes images to inputs.
        build_extractor: is_training -> feature extractor.
        build_predictor: (is_training, code size, class columns) -> head.
        anchor_generator: generates anchors.
        assigner: assigns targets to anchors.
        box_coder: coder of predicted boxes.
        post_processor: converts raw predictions to detections.
        loss_rules: see `LossRules`.
        background_column: True: the first column of class logits is background.
        background_is_zeros: True: the class target of an unmatched anchor is all zeros.
        family: family of the boxes.
        where: path of the config, for error messages.
    """

    loss_names = (CLASSIFICATION_LOSS, LOCALIZATION_LOSS)
    last_layer_scopes = ('ClassPredictor', 'BoxEncodingPredictor', 'BoxPredictor/')

    def __init__(
        self,
        num_classes: int,
        resizer: image_resizers.ImageResizer,
        build_extractor: Callable[[bool], extractor.FeatureExtractor],
        build_predictor: Callable[[bool, int, int], box_predictors.BoxPredictor],
        anchor_generator: anchors.AnchorGenerator,
        assigner: targets.TargetAssigner,
        box_coder: box_coders.BoxCoder,
        post_processor: post_processing.PostProcessor,
        loss_rules: LossRules,
        background_column: bool = True,
        background_is_zeros: bool = False,
        family: BoxFamily = axis_aligned,
        where: str = '',
    ):
        self.num_classes = num_classes
        self.resizer = resizer
        self.family = family
        self._model_family = model_family(family)
        self.where = where
        self._class_width = num_classes + int(background_column)
        self._build_extractor = build_extractor
        self._build_predictor = build_predictor
        self._anchor_generator = anchor_generator
        self._assigner = assigner
        self._box_coder = box_coder
        self._post_processor = post_processor
        self._rules = loss_rules
        axis = ClassAxis(num_classes, before=int(background_column), repeats=True)
        # The depthwise weights of a separable head have an axis of channels, not of classes.
        self.class_axes = {r'(^|/)ClassPredictor/(?!depthwise)': axis}
        self._background = np.zeros(self._class_width, np.float32)
        if background_column and not background_is_zeros:
            self._background[0] = 1.0

    @property
    def backbone_scope(self) -> str:
        """Scope of the backbone's variables inside that of the feature extractor."""
        return self._build_extractor(False).backbone_scope

    def preprocess(self, images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
        """Normalize images, then fill their padding, as published.

        Returns:
            float32 [B, height, width, channels].
        """
        # In this order padding is 0 in normalized values: all 11,869 recorded values of an
        # EfficientDet's padding are. Two-stage detectors pad first.
        images = self.channels.normalize(images, self._build_extractor(False).preprocess)
        if true_shapes is not None:
            images = detector.fill_padding(images, true_shapes, self.resizer.pad_values)
        return self.resizer.to_network_channels(images)

    def predict(
        self,
        images: tf.Tensor,
        true_shapes: Optional[tf.Tensor],
        groundtruth: Optional[targets.Groundtruth],
        is_training: bool,
        side_inputs: Optional[Dict[str, tf.Tensor]] = None,
    ) -> Dict[str, tf.Tensor]:
        """Compute raw predictions, which depend neither on padding nor on groundtruth.

        Returns:
            `BOX_ENCODINGS` [B, A, code size], `CLASS_LOGITS` [B, A, C'] and `ANCHORS` [A, K]; and
            `GRIDS` if the matcher needs them.

        Raises:
            errors.ConfigError: the anchors do not fit the feature maps.
        """
        del true_shapes, groundtruth
        maps, grids, boxes = self._extract(images, is_training)
        code_size = self._box_coder.code_size
        predictor = self._build_predictor(is_training, code_size, self._class_width)
        codes, logits = predictor.predict(maps, self._anchor_generator.anchors_per_location())
        raw = {fields.BOX_ENCODINGS: codes, fields.CLASS_LOGITS: logits, fields.ANCHORS: boxes}
        return {**raw, fields.GRIDS: tf.stack(grids)} if self._assigner.needs_scene else raw

    def _extract(
        self, images: tf.Tensor, is_training: bool
    ) -> Tuple[Sequence[tf.Tensor], List[anchors.Size], tf.Tensor]:
        """Compute the feature maps, their sizes in cells, and their anchors."""
        maps = self._build_extractor(is_training).extract(images)
        count = len(self._anchor_generator.anchors_per_location())
        if count != len(maps):
            raise errors.ConfigError(
                f'{self.where}.anchor_generator: anchors for {count} feature maps, and the '
                f'feature extractor has {len(maps)}; expected as many.'
            )
        grids = [anchors.spatial_size(features) for features in maps]
        boxes = self._anchor_generator.generate(grids, anchors.spatial_size(images))
        return maps, grids, tf.convert_to_tensor(boxes)

    def anchor_fit(self, images: tf.Tensor, boxes: tf.Tensor) -> Optional[detector.AnchorFit]:
        """Compute the similarity of boxes [M, K] and their best anchors.

        None where the matcher has no threshold and may leave boxes without an anchor.
        """
        adapts = self._assigner.needs_scene
        if self._assigner.threshold is None and not adapts:
            return None
        _, grids, used = self._extract(images, False)
        similarity = self._assigner.best_similarity(used, boxes)
        return detector.AnchorFit(similarity, used, self._assigner.threshold, grids=grids)

    def targets(
        self, predictions: Dict[str, tf.Tensor], groundtruth: targets.Groundtruth
    ) -> targets.Targets:
        """Assign targets to anchors."""
        scene = self._scene(predictions) if self._assigner.needs_scene else None
        return self._assigner.assign(
            predictions[fields.ANCHORS], groundtruth, background=self._background, scene=scene
        )

    def _scene(self, predictions: Dict[str, tf.Tensor]) -> matchers.Scene:
        """Return what matchers know of the feature maps and the predictions."""
        predicted = None
        if self._assigner.needs_predictions:
            boxes = self._box_coder.decode(
                predictions[fields.BOX_ENCODINGS], predictions[fields.ANCHORS]
            )
            predicted = matchers.Predicted(
                tf.stop_gradient(boxes[..., : self._model_family.SIZE]),
                tf.stop_gradient(predictions[fields.CLASS_LOGITS][..., -self.num_classes :]),
            )
        return matchers.Scene(
            grids=predictions[fields.GRIDS],
            per_cell=self._anchor_generator.anchors_per_location(),
            image_size=_sides(predictions[fields.PREPROCESSED]),
            is_normalized=not self._anchor_generator.in_pixels,
            predicted=predicted,
        )

    def losses(
        self,
        predictions: Dict[str, tf.Tensor],
        true_shapes: Optional[tf.Tensor],
        groundtruth: targets.Groundtruth,
    ) -> Dict[str, tf.Tensor]:
        """Compute the classification and localization loss; anchors on padding are negatives.

        Returns:
            float32 scalars.
        """
        del true_shapes
        rules = self._rules
        assigned = self.targets(predictions, groundtruth)
        by_overlap = isinstance(rules.localization, losses.OverlapLoss)
        # Targets are codes. Losses of overlaps decode both sides of the pair by the same anchors.
        pair = predictions[fields.BOX_ENCODINGS], assigned.box_targets
        boxes = self._decode_pair(predictions, pair) if by_overlap or rules.scores_overlap else pair
        overlaps = [self._overlaps(boxes, assigned)] if rules.scores_overlap else []
        class_losses = rules.classification(
            predictions[fields.CLASS_LOGITS],
            assigned.class_targets,
            assigned.class_weights,
            *overlaps,
        )
        box_losses = rules.localization(*(boxes if by_overlap else pair), assigned.box_weights)
        classification, localization = rules.reduction.reduce(
            mining.AnchorLosses(class_losses, box_losses),
            assigned,
            lambda: self._mined(predictions),
        )
        normalizer = tf.constant(1.0)
        if rules.by_matches:
            # Of the batch of one replica, as published, not of each image.
            normalizer = tf.maximum(tf.reduce_sum(assigned.box_weights), 1.0)
        code_size = self._box_coder.code_size if rules.by_code_size else 1
        return {
            LOCALIZATION_LOSS: localization
            * (rules.localization_weight / (normalizer * code_size)),
            CLASSIFICATION_LOSS: classification * (rules.classification_weight / normalizer),
        }

    def _decode_pair(
        self, predictions: Dict[str, tf.Tensor], codes: Tuple[tf.Tensor, tf.Tensor]
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Decode the predicted boxes of the anchors and those of their objects: [B, A, K] each."""
        size = self._model_family.SIZE  # codes may have keypoints too
        predicted, expected = (
            self._box_coder.decode(each, predictions[fields.ANCHORS])[..., :size] for each in codes
        )
        return predicted, expected

    def _overlaps(self, boxes: Tuple[tf.Tensor, tf.Tensor], assigned: targets.Targets) -> tf.Tensor:
        """Compute the IoU of predicted boxes and objects: [B, A], 1 without an object."""
        overlaps = self._model_family.elementwise_iou(*boxes)
        return tf.where(assigned.matches >= 0, tf.stop_gradient(overlaps), 1.0)

    def _decoded(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Decode the predicted boxes [B, A, K]."""
        return self._box_coder.decode(
            predictions[fields.BOX_ENCODINGS], predictions[fields.ANCHORS]
        )[..., : self.family.SIZE]

    def _mined(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Decode axis-aligned boxes [B, A, 4], by which mining finds near duplicates."""
        return self._decoded(predictions)

    def postprocess(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> Dict[str, tf.Tensor]:
        """Convert raw predictions to detections."""
        windows = None
        if true_shapes is not None:
            windows = detector.content_windows(true_shapes, predictions[fields.PREPROCESSED])
        return self._post_processor.apply(
            self._decoded(predictions)[:, :, tf.newaxis, :],
            predictions[fields.CLASS_LOGITS],
            windows,
        )

    def deployable(self, ops: Ops, options: DeploymentOptions) -> Deployable:
        """Build the deployable form of the detector.

        In core ops there is a form for what the op of other files has no place for, and for files
        without suppression.
        """
        model = copy.copy(self)
        rules = forms.change_rules(self._post_processor.rules, options)
        model._post_processor = self._post_processor.with_rules(rules)
        if ops is Ops.CORE and (
            options.suppression != options.STANDARD
            or single_shot.find_problem(model, self._box_coder, rules)
        ):
            return forms.build(model, ops, options, rules, model._candidates)
        return single_shot.build(model, self._box_coder, model._post_processor, ops)

    def _candidates(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> forms.Candidates:
        """Compute the boxes and scores that are suppressed."""
        boxes = self._decoded(predictions)
        if true_shapes is not None and self._post_processor.rules.change_frame:
            far = detector.content_shares(true_shapes, predictions[fields.PREPROCESSED])
            boxes = boxes / tf.tile(far, [1, 2])[:, tf.newaxis]
        scores = self._post_processor.class_scores(predictions[fields.CLASS_LOGITS])
        return forms.Candidates(boxes[:, :, tf.newaxis], scores)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Map names of a checkpoint to the feature extractor's variables."""
        features = self._build_extractor(False)
        found = detector.strip_scope(variables, features.scope, checkpoint_type)
        if features.averages_classifier and checkpoint_type == 'classification':
            return {f'{name}/{MOVING_AVERAGE}': variable for name, variable in found.items()}
        return found

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Map paths of an object-based checkpoint to variables."""
        features = self._build_extractor(False)
        object_paths.require_objects(features.settings.type_name, f'{self.where}.feature_extractor')
        predictor = self._build_predictor(False, self._box_coder.code_size, self._class_width)
        return object_paths.map_single_shot_paths(
            variables,
            features.network,
            features.scope,
            pads=features.settings.padding == 'FIXED',
            drops=predictor.class_head.dropout_keep_prob < 1.0,
            checkpoint_type=checkpoint_type,
            last_layer=features.last_layer,
        )

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe why a checkpoint is of the other generation; empty if it is not."""
        features = self._build_extractor(False)
        residual = features.network.scope if features.has_residual_backbone else ''
        kind = features.settings.type_name
        exists = generations.counterpart(kind) in extractor.extractor_types()
        return generations.foreign(names, extractor.SCOPE, kind, residual, exists)


class RotatedSsdModel(SsdModel):
    """Single-shot detector of rotated boxes.

    Its groundtruth and its detections are `quadrilaterals`, normalized. Internally, anchors and
    boxes are `rotated`, in pixels of the input. `ANCHORS` are [A, 5].
    """

    def anchor_fit(self, images: tf.Tensor, boxes: tf.Tensor) -> Optional[detector.AnchorFit]:
        """Compute the similarity of boxes [M, 8] and their best anchors, which are normalized."""
        sides = _sides(images)
        fit = super().anchor_fit(images, quadrilaterals.to_boxes(boxes, *sides))
        return fit and fit._replace(anchors=quadrilaterals.from_boxes(fit.anchors, *sides))

    def targets(
        self, predictions: Dict[str, tf.Tensor], groundtruth: targets.Groundtruth
    ) -> targets.Targets:
        """Assign targets to anchors."""
        sides = _sides(predictions[fields.PREPROCESSED])
        boxes = quadrilaterals.to_boxes(groundtruth.boxes, *sides)
        return super().targets(predictions, dataclasses.replace(groundtruth, boxes=boxes))

    def postprocess(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> Dict[str, tf.Tensor]:
        """Convert raw predictions to detections; boxes are not clipped to the image."""
        detections = self._post_processor.apply(
            self._decoded(predictions)[:, :, tf.newaxis, :], predictions[fields.CLASS_LOGITS]
        )
        height, width = _true_sides(predictions[fields.PREPROCESSED], true_shapes)
        for name in (fields.DETECTION_BOXES, fields.RAW_DETECTION_BOXES):
            detections[name] = quadrilaterals.from_boxes(detections[name], height, width)
        return detections

    def _candidates(
        self, predictions: Dict[str, tf.Tensor], true_shapes: Optional[tf.Tensor]
    ) -> forms.Candidates:
        """Compute the boxes and scores that are suppressed."""
        height, width = _true_sides(predictions[fields.PREPROCESSED], true_shapes)
        boxes = quadrilaterals.from_boxes(self._decoded(predictions), height, width)
        scores = self._post_processor.class_scores(predictions[fields.CLASS_LOGITS])
        return forms.Candidates(boxes[:, :, tf.newaxis], scores)

    def _decoded(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Decode the predicted boxes [B, A, 5], in pixels."""
        return self._box_coder.decode(
            predictions[fields.BOX_ENCODINGS], predictions[fields.ANCHORS]
        )

    def _mined(self, predictions: Dict[str, tf.Tensor]) -> tf.Tensor:
        return rotated.enclosing_boxes(self._decoded(predictions))


def _sides(images: tf.Tensor) -> Sequence[tf.Tensor]:
    """Return height and width of an input, float32."""
    return tf.unstack(tf.cast(tf.shape(images)[1:3], tf.float32))


def _true_sides(images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> Sequence[tf.Tensor]:
    """Return height and width without padding, float32: scalars, or [B, 1]."""
    if true_shapes is None:
        return _sides(images)
    return tf.split(tf.cast(true_shapes[:, :2], tf.float32), 2, axis=1)
