"""Object detection as a task of the engine."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.rules import ConfigRules
from estimator_lib.drawing.tiling import Window
from estimator_lib.export.deployable import Deployable, Ops
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import (
    AS_CONFIGURED,
    Arrays,
    DataReport,
    Description,
    Example,
    Features,
    Labels,
    Metric,
    Shown,
    Task,
    Tensors,
)
from model_fns import class_report
from model_fns.detection import box_report, detector, fields, metrics
from model_fns.detection import rules as config_rules
from model_fns.detection.boxes import targets
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data import augmentation, first_examples, inputs, sequences
from model_fns.detection.detections import descriptions, masks, merging, pictures
from model_fns.detection.metrics import best_f1
from model_fns.layers import quantization
from model_fns.structures import label_map as label_maps
from model_fns.structures import label_map_files
from protos import pipeline_pb2

ModeKeys = tf.estimator.ModeKeys

# Groundtruth that only a detector with such outputs learns from.
_LEARNED_FOR = {
    fields.MASKS: fields.DETECTION_MASKS,
    fields.MASK_WEIGHTS: fields.DETECTION_MASKS,
    fields.KEYPOINTS: fields.DETECTION_KEYPOINTS,
    fields.KEYPOINT_VISIBILITIES: fields.DETECTION_KEYPOINTS,
}


class DetectionTask(Task):
    """Images to boxes with a class and a score.

    Args:
        model: the network, its targets, losses and detections.
        reader: how records are decoded.
        augment: example and seed -> example.
        evaluator: what is measured.
        drawer: how detections are drawn.
        load_all_variables: whether a detection checkpoint gives all variables of the same name,
            not the feature extractor's alone.
        label_map: names of the classes.
        across_replicas: see `Task.across_replicas`.
        augmentations: see `Task.augmentations`.
    """

    def __init__(
        self,
        model: detector.Detector,
        reader: inputs.Reader,
        augment: augmentation.Augmentation,
        evaluator: metrics.Metrics,
        drawer: pictures.Drawer,
        load_all_variables: bool = False,
        label_map: Optional[label_maps.LabelMap] = None,
        across_replicas: Sequence[str] = (),
        augmentations: Sequence[str] = (),
    ):
        self._model = model
        self._reader = reader
        self._augment = augment
        self._evaluator = evaluator
        self._drawer = drawer
        self._load_all_variables = load_all_variables
        self._label_map = label_map
        self._across_replicas = tuple(across_replicas)
        self._augmentations = tuple(augmentations)

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ConfigRules:
        """See `config_rules`."""
        return config_rules.select_rules(config.model)

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> DetectionTask:
        """The task that the config's `model` describes.

        Raises:
            errors.ConfigError: a part is missing or unknown, or a field is not honored.
        """
        model = detector.build_detector(
            config.model, quantization.from_config(config.graph_rewriter)
        )
        label_map = label_map_files.of_readers(config, model.num_classes)
        options = config.train_config.data_augmentation_options
        return cls(
            model,
            inputs.build_reader(config, model.num_classes, label_map, model.family),
            augmentation.build_augmentation(options),
            metrics.build_metrics(
                config.eval_config,
                model.num_classes,
                label_map,
                model.outputs,
                model.family.IS_ROTATED,
            ),
            pictures.build_drawer(config.eval_config, label_map),
            config.train_config.load_all_detection_checkpoint_vars,
            label_map,
            config_rules.synchronized_fields(config.model),
            [option.WhichOneof('preprocessing_step') for option in options],
        )

    @property
    def name(self) -> str:
        """See `Task`."""
        return 'detection'

    def decode(self, serialized: tf.Tensor) -> Example:
        """See `inputs.Reader.decode`."""
        return self._reader.decode(serialized)

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """See `augmentation`."""
        return self._augment(example, seed)

    def augmentations(self) -> Sequence[str]:
        """Returns the steps of `train_config.data_augmentation_options`, see `Task`."""
        return self._augmentations

    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """See `inputs.Reader.prepare`: resized images, padded groundtruth.

        Training batches are without masks and keypoints that nothing is learned from.
        """
        if mode == ModeKeys.TRAIN:
            example = {
                name: value
                for name, value in example.items()
                if name not in _LEARNED_FOR or _LEARNED_FOR[name] in self._model.outputs
            }
        return self._reader.prepare(example, self._model.resizer, mode)

    def largest_input(self) -> Optional[Tuple[int, int]]:
        """See `Task`: images in landscape stand for those in portrait."""
        return self._model.resizer.largest_size

    def pads_batches(self) -> bool:
        """See `Task`: where inputs differ in size, or examples in their number of masks."""
        return self._model.resizer.static_size is None or self._reader.mask_type is not None

    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Raw predictions: see `detector.Detector.predict`."""
        true_shapes = self._true_shapes(features)
        images = self._model.preprocess(tf.cast(features[fields.IMAGE], tf.float32), true_shapes)
        groundtruth = None if labels is None else self._groundtruth(features, labels)
        training = mode == ModeKeys.TRAIN
        side_inputs = {name: features[name] for name in self._model.side_inputs} or None
        predictions = self._model.predict(images, true_shapes, groundtruth, training, side_inputs)
        return {fields.PREPROCESSED: images, **predictions}

    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """See `detector.Detector.losses`."""
        groundtruth = self._groundtruth(features, labels)
        return self._model.losses(predictions, self._true_shapes(features), groundtruth)

    def loss_names(self) -> Sequence[str]:
        """See `Task`."""
        return self._model.loss_names

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Detections by the names of `fields`; class ids are those of the label map."""
        detections = self._model.postprocess(predictions, self._true_shapes(features))
        classes = label_maps.to_id(detections[fields.DETECTION_CLASSES])
        found = {**detections, fields.DETECTION_CLASSES: classes}
        if self._model.family.IS_ROTATED:
            found = _with_corners(found, self._model.family, features[fields.ORIGINAL_SHAPE])
        if fields.SERVED_SHAPE in features:
            found[fields.REFRAMED_MASKS] = masks.binary_batch(
                detections[fields.DETECTION_MASKS],
                detections[fields.DETECTION_BOXES],
                features[fields.SERVED_SHAPE],
            )
        return found

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """See `metrics`; where the model tells no classes all groundtruth is of the first too."""
        if not self._model.tells_classes:
            first = tf.zeros(tf.shape(labels[fields.CLASSES])[:2], tf.int32)
            labels = {**labels, fields.CLASSES: tf.one_hot(first, self._model.num_classes)}
        return self._evaluator.create(outputs, features, labels)

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """See `metrics`."""
        return self._evaluator.finish(values)

    def metric_names(self) -> Sequence[str]:
        """See `Task`."""
        return self._evaluator.names()

    def worth_showing(self, metrics: Mapping[str, float]) -> Shown:
        """See `Task`: from the score of the best F1 on, unless the config has a score for it."""
        if self._drawer.min_score is not None:
            return AS_CONFIGURED
        return Shown(least_score=metrics.get(best_f1.SCORE_THRESHOLD))

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """Detections, with the groundtruth beside them where it is known."""
        return self._drawer.showing(shown).draw(features, outputs, labels)

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """The detections with names and boxes in pixels; the picture has the best of them."""
        drawer = self._drawer.showing(shown)
        found = descriptions.find(outputs, features[fields.IMAGE].shape, drawer.least_score, shown)
        rows = descriptions.rows(found, drawer.class_names)
        return Description(descriptions.values(found, rows), rows, drawer.draw(features, outputs))

    def nothing_found(self, shown: Shown, worth_showing: Shown) -> str:
        """Names the threshold, and where it is from; see `Task`."""
        score, source = self._drawer.least_score, 'the default of eval_config.min_score_threshold'
        if shown.least_score is not None:
            score, source = shown.least_score, '--score_threshold'
        elif worth_showing.least_score is not None:
            score, source = worth_showing.least_score, 'the best F1 in the evaluation'
        elif self._drawer.min_score is not None:
            source = 'eval_config.min_score_threshold'
        return f'0 detections reached {score:.3g} (from {source}); --score_threshold lowers it'

    def coco_results(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Sequence[Mapping[str, Any]]:
        """See `descriptions.coco_results`."""
        shape = features[fields.IMAGE].shape
        return descriptions.coco_results(descriptions.find(outputs, shape, 0.0, shown))

    def submission_lines(
        self, stem: str, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Mapping[str, Sequence[str]]]:
        """See `Task`: rotated boxes as DOTA takes them."""
        if not self._model.family.IS_ROTATED:
            return None
        found = descriptions.find(outputs, features[fields.IMAGE].shape, 0.0, shown)
        return descriptions.dota_lines(stem, found, self._reader.class_names())

    def merge_tiles(
        self, tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int]
    ) -> Optional[Arrays]:
        """See `merging`; masks and keypoints of tiles are not put together."""
        return None if self._model.outputs else merging.merge(tiles, size)

    def serving_features(self, images: tf.Tensor) -> Features:
        """Each image at the network's input size."""
        signature = {
            fields.IMAGE: tf.TensorSpec(
                [*(self._model.resizer.static_size or (None, None)), None], tf.float32
            ),
            fields.TRUE_IMAGE_SHAPE: tf.TensorSpec([3], tf.int32),
        }

        @tf.autograph.experimental.do_not_convert
        def resized(image: tf.Tensor) -> Features:
            one = self._model.resizer.resize(image)
            return {fields.IMAGE: one.image, fields.TRUE_IMAGE_SHAPE: one.true_shape}

        features = tf.map_fn(resized, images, fn_output_signature=signature)
        if self._model.family.IS_ROTATED:
            # Sides and angles are of the image as it came, whatever resizing made of it.
            batch, height, width, _ = tf.unstack(tf.shape(images))
            shapes = tf.tile(tf.stack([[height, width]]), [batch, 1])
            features[fields.ORIGINAL_SHAPE] = shapes
        features[fields.IMAGE].set_shape([None, None, None, images.shape[-1]])
        if fields.REFRAMED_MASKS in self._model.outputs:
            batch, height, width, _ = tf.unstack(tf.shape(images))
            features[fields.SERVED_SHAPE] = tf.tile([[height, width]], [batch, 1])
        return features

    def serving_side_inputs(
        self, batch_size: tf.Tensor, examples: Optional[tf.Tensor]
    ) -> Tuple[Features, Tensors]:
        """Features of other images, of the records or of two inputs that may be left out."""
        context = self._reader.context
        if context is None:
            return {}, {}
        if examples is not None:
            return context.of_examples(examples), {}
        received = context.received(batch_size)
        return received, received

    def deployable(self, ops: Ops, options: Mapping[str, Any]) -> Deployable:
        """See `detector.Detector.deployable`."""
        return self._model.deployable(ops, options)

    def class_names(self) -> Sequence[str]:
        """See `Task`: of the ids from 1 on; an id that no class has is its name."""
        names, first = self._reader.class_names(), label_maps.FIRST_ID
        ids = range(first, first + self._model.num_classes)
        return [names.get(one, str(one)) for one in ids]

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """See `detector.Detector.export_outputs`."""
        return self._model.export_outputs(outputs)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """See `detector.Detector.restore_map`; a `classification` checkpoint is the default."""
        kind = self._checkpoint_type(checkpoint_type)
        if kind == 'full':
            return {variable_name(variable): variable for variable in variables}
        return self._model.restore_map(variables, kind)

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """See `detector.Detector.object_paths`."""
        kind = 'full' if checkpoint_type is None else self._checkpoint_type(checkpoint_type)
        return self._model.object_paths(variables, kind)

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """See `Task`."""
        return self._model.foreign_checkpoint(names)

    def _checkpoint_type(self, named: str) -> str:
        """`full`, `detection` or `classification`, whatever it is called in the config."""
        kind = named or 'classification'
        if kind not in detector.CHECKPOINT_TYPES:
            raise errors.ConfigError(
                f'train_config.fine_tune_checkpoint_type: {kind!r} is unknown'
                f'{errors.did_you_mean(kind, detector.CHECKPOINT_TYPES)}'
            )
        kind = 'detection' if kind == 'fine_tune' else kind
        return 'full' if kind == 'detection' and self._load_all_variables else kind

    def across_replicas(self) -> Sequence[str]:
        """See `Task`."""
        return self._across_replicas

    def last_layer_scopes(self) -> Sequence[str]:
        """See `Task`."""
        return self._model.last_layer_scopes

    def asset_files(self) -> Mapping[str, str]:
        """See `Task`."""
        return label_map_files.asset_files(self._label_map)

    def split_sequence(self, serialized: bytes) -> Sequence[bytes]:
        """See `Task`."""
        return sequences.split(serialized)

    def check_example(self, serialized: bytes) -> Optional[str]:
        """See `Task`."""
        return self._reader.problem_with(serialized)

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Counts boxes of unknown classes; see `Task`."""
        return first_examples.check(records, are_all, self._reader)

    def examine(self, serialized: bytes) -> box_report.Record:
        """The size of the image, and its boxes."""
        reader = self._reader
        return box_report.examine(serialized, reader.family, reader.label_map, reader.num_classes)

    def data_report(self, examined: Mapping[str, Sequence[box_report.Record]]) -> DataReport:
        """Objects and images of each class; how well boxes and anchors go together."""
        names = self._reader.class_names()
        counts = {name: [one.counts() for one in records] for name, records in examined.items()}
        classes = class_report.class_report(counts, names, 'objects')
        boxes = box_report.box_report(self._model, examined)
        room = {name: self._reader.room(name == 'train_input_reader') for name in examined}
        left_out = box_report.doubts(examined, room)
        return DataReport(
            [*classes.lines, *boxes.lines],
            [*left_out, *classes.warnings, *boxes.warnings],
            [*classes.problems, *boxes.problems],
        )

    def _true_shapes(self, features: Features) -> Optional[tf.Tensor]:
        """int32 [B, 3]; None where no input can hold padding."""
        return features[fields.TRUE_IMAGE_SHAPE] if self._model.resizer.pads else None

    def _groundtruth(self, features: Features, labels: Labels) -> targets.Groundtruth:
        """The groundtruth of a batch, normalized to the padded input."""
        boxes, keypoints = labels[fields.BOXES], labels.get(fields.KEYPOINTS)
        valid = tf.range(tf.shape(boxes)[1]) < labels[fields.NUM_BOXES][:, tf.newaxis]
        if self._model.resizer.pads:
            true_shapes = features[fields.TRUE_IMAGE_SHAPE]
            shares = detector.content_shares(true_shapes, features[fields.IMAGE])[:, tf.newaxis]
            boxes = self._model.family.scale(boxes, shares[..., 0], shares[..., 1])
            if keypoints is not None:
                keypoints *= shares[:, tf.newaxis]
        return targets.Groundtruth(
            boxes=boxes,
            classes=labels[fields.CLASSES],
            weights=labels[fields.WEIGHTS],
            valid=valid,
            examples=features.get(fields.HASH),
            masks=labels.get(fields.MASKS),
            mask_weights=labels.get(fields.MASK_WEIGHTS),
            keypoints=keypoints,
            keypoint_visibilities=labels.get(fields.KEYPOINT_VISIBILITIES),
        )


def _with_corners(detections: Tensors, family: BoxFamily, shapes: tf.Tensor) -> Tensors:
    """Detections of rotated boxes as the numbers of a record, and their corners.

    Args:
        detections: with boxes [B, N, 8], normalized.
        family: of the boxes.
        shapes: int32 [B, 2]: height and width of the images as they came.
    """
    height, width = tf.split(tf.cast(shapes, tf.float32), 2, axis=1)
    boxes = {
        name: family.to_record(detections[name], height, width)
        for name in (fields.DETECTION_BOXES, fields.RAW_DETECTION_BOXES)
    }
    return {**detections, **boxes, fields.DETECTION_CORNERS: detections[fields.DETECTION_BOXES]}
