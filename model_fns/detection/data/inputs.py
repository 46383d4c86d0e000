"""Conversion of detection records to images and padded groundtruth of static shapes."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple, Union

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.config import validation
from estimator_lib.data import record_sources
from estimator_lib.task import Example, Features, Labels
from model_fns.detection import fields, metrics
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data import (
    class_targets,
    context_features,
    crowded_images,
    instance_checks,
    keypoints,
    record_checks,
    record_repair,
)
from model_fns.detection.data.examples import fill_missing, keep_boxes
from model_fns.detection.data.image_resizers import ImageResizer, SmallImageResizer
from model_fns.detection.data.keypoints import KeypointDecoder
from model_fns.detection.data.masks import decode_masks
from model_fns.structures import channels as image_channels
from model_fns.structures import images, label_map_files
from model_fns.structures import label_map as label_maps
from model_fns.structures.channels import THREE_COLORS, Channels
from protos import input_reader_pb2, pipeline_pb2

ModeKeys = tf_estimator.ModeKeys

_STRING = tf.io.FixedLenFeature([], tf.string, '')


def _list_feature(dtype: tf.DType) -> tf.io.FixedLenSequenceFeature:
    return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)


_KEYS: Dict[str, Any] = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/source_id': _STRING,
    'image/filename': _STRING,
    'image/object/class/label': _list_feature(tf.int64),
    'image/object/class/text': _list_feature(tf.string),
    'image/object/difficult': _list_feature(tf.int64),
    'image/object/is_crowd': _list_feature(tf.int64),
    'image/object/group_of': _list_feature(tf.int64),
    'image/object/area': _list_feature(tf.float32),
    'image/object/weight': _list_feature(tf.float32),
}
_CONFIDENCES = 'image/class/confidence'
_IMAGE_CLASS_KEYS = {
    'image/class/label': _list_feature(tf.int64),
    'image/class/text': _list_feature(tf.string),
    _CONFIDENCES: _list_feature(tf.float32),
}
# Lists of class ids of an image for LVIS, by the names of labels.
_LVIS_KEYS = {
    fields.ABSENT_CLASSES: 'image/neg_category_ids',
    fields.INCOMPLETE_CLASSES: 'image/not_exhaustive_category_ids',
}
_MASK_DTYPES = {
    input_reader_pb2.NUMERICAL_MASKS: tf.float32,
    input_reader_pb2.PNG_MASKS: tf.string,
}

_FLAGS = {
    input_reader_pb2.InputReader.CROWD: fields.IS_CROWD,
    input_reader_pb2.InputReader.DIFFICULT: fields.DIFFICULT,
    input_reader_pb2.InputReader.GROUP_OF: fields.GROUP_OF,
}

# Key, type and default of the values of a box that a record may omit.
_DEFAULTS = {
    fields.DIFFICULT: ('image/object/difficult', tf.bool, False),
    fields.IS_CROWD: ('image/object/is_crowd', tf.bool, False),
    fields.GROUP_OF: ('image/object/group_of', tf.bool, False),
    fields.WEIGHTS: ('image/object/weight', tf.float32, 1.0),
}

Resizer = Union[ImageResizer, SmallImageResizer]

_MAX_BOXES = 'max_number_of_boxes'


@dataclasses.dataclass(frozen=True)
class Reader:
    """Decoder of detection records, which also prepares examples for a network.

    Attributes:
        num_classes: number of classes without background.
        max_boxes: number of rows that groundtruth is padded or truncated to.
        label_map: map from class names to ids; None if records have ids.
        use_display_name: True: records contain the display names of classes.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
        keypoints: decoder of keypoints; None: they are not read.
        image_classes: True: labels contain the classes whose presence in an image was verified.
        absent_classes: True: labels contain the classes that LVIS verified to be absent, and those
            that lack objects.
        labeled_classes: True: labels contain the classes that were looked for in an image.
        max_train_boxes: replaces `max_boxes` in training; None: the same number.
        family: family of the boxes.
        max_pixels: largest number of pixels of an image that is decoded.
        context: reader of features of other images; None: they are not read.
        ignored: names in `fields` of the flags of boxes that training ignores.
        ignored_coverage: see `targets.Groundtruth`.
        class_scores: True: training learns the scores of all classes that records have.
        merges_boxes: True: training merges equal boxes to one with all of their classes.
        hierarchy: relations of the classes; None: a box has one class.
        channels: of the images.
    """

    num_classes: int
    max_boxes: int = 100
    label_map: Optional[label_maps.LabelMap] = None
    use_display_name: bool = False
    mask_type: Optional[int] = None
    keypoints: Optional[KeypointDecoder] = None
    image_classes: bool = False
    absent_classes: bool = False
    labeled_classes: bool = False
    max_train_boxes: Optional[int] = None
    family: BoxFamily = axis_aligned
    max_pixels: int = images.MAX_PIXELS
    context: Optional[context_features.ContextFeatures] = None
    ignored: Tuple[str, ...] = ()
    ignored_coverage: float = 0.0
    class_scores: bool = False
    merges_boxes: bool = False
    hierarchy: Optional[class_targets.Hierarchy] = None
    channels: Channels = THREE_COLORS

    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode one record, without boxes that are NaN or of an unknown class.

        Args:
            serialized: string scalar, a `tf.train.Example`.

        Returns:
            Tensors by the names of `fields`: `IMAGE` uint8 [height, width, channels], `BOXES`
            [n, K], `CLASSES` [n] from 0, and so on. Running them fails if lists differ in length,
            or if a box is inverted or far outside of the image; `find_problem` describes why.
        """
        parsed = tf.io.parse_single_example(serialized, self._keys())
        numbers = [parsed[key] for key in self.family.RECORD_KEYS]
        numbers = self._sound(tf.stack(numbers, axis=1), parsed)
        image = self.channels.decode(parsed, self.max_pixels)
        boxes = self.family.from_record(numbers, *tf.unstack(tf.shape(image)[:2]))
        count = tf.shape(boxes)[0]
        example = {
            fields.IMAGE: image,
            fields.SOURCE_ID: tf.where(
                tf.equal(parsed['image/source_id'], ''),
                parsed['image/filename'],
                parsed['image/source_id'],
            ),
            fields.ORIGINAL_SHAPE: tf.shape(image)[:2],
            fields.BOXES: boxes,
            fields.CLASSES: self._classes(parsed, count),
            fields.AREA: self._areas(parsed['image/object/area'], boxes, image),
        }
        for name, (key, dtype, default) in _DEFAULTS.items():
            example[name] = fill_missing(tf.cast(parsed[key], dtype), count, default)
        if self.class_scores:
            example[fields.CLASS_SCORES] = class_targets.decode_scores(
                parsed[class_targets.SCORES], example[fields.CLASSES], self.num_classes
            )
        if self.mask_type is not None:
            encoded = parsed[instance_checks.MASK]
            example[fields.MASKS] = decode_masks(encoded, count, self.mask_type, image)
            weights = parsed[instance_checks.MASK_WEIGHT]
            example[fields.MASK_WEIGHTS] = fill_missing(weights, count, 1.0)
        if self.keypoints is not None:
            example.update(self.keypoints.decode(parsed, count))
        if self.image_classes:
            example[fields.IMAGE_CLASSES] = self._image_classes(parsed)
        if self.labeled_classes:
            names = parsed[record_sources.LABELED]
            hot = self._k_hot(self.label_map.lookup(names, self.use_display_name))
            example[fields.LABELED_CLASSES] = tf.where(tf.size(names) > 0, hot, tf.ones_like(hot))
        for name, key in _LVIS_KEYS.items() if self.absent_classes else ():
            example[name] = self._k_hot(parsed[key])
        if self.context is not None:
            example.update(self.context.decode(parsed))
        example = keep_boxes(example, self._is_usable(example))
        return example if self.hierarchy is None else self.hierarchy.expand_boxes(example)

    def prepare(self, example: Example, resizer: Resizer, mode: str) -> Tuple[Features, Labels]:
        """Resize an example to the network's input, and pad its groundtruth to a number of boxes.

        Boxes and keypoints stay normalized to the image without padding.

        Args:
            example: from `decode` or an augmentation of it.
            resizer: resizes the image to an input.
            mode: in training, boxes without area are dropped because no anchor can match them, and
                a warning names images with too many boxes.
        """
        training = mode == ModeKeys.TRAIN
        if training:
            example = keep_boxes(example, self.family.has_area(example[fields.BOXES]))
            for flag in self.ignored:
                weights = tf.where(example[flag], 0.0, example[fields.WEIGHTS])
                example = {**example, fields.WEIGHTS: weights}
        example = self._with_class_targets(example, training)
        max_boxes = self.room(training)
        masks = example.get(fields.MASKS)
        # Masks of dropped boxes need not be resized.
        masks = None if masks is None else masks[:max_boxes]
        resized = resizer.resize(example[fields.IMAGE], masks)
        features = {
            fields.IMAGE: resized.image,
            fields.TRUE_IMAGE_SHAPE: resized.true_shape,
            fields.ORIGINAL_SHAPE: example[fields.ORIGINAL_SHAPE],
            fields.SOURCE_ID: example[fields.SOURCE_ID],
            fields.HASH: _hash(example[fields.SOURCE_ID]),
        }
        if self.context is not None:
            features.update(self.context.prepare(example))
        labels = self._labels(example, resized.masks, max_boxes)
        if training:
            crowded = crowded_images.CrowdedImages(max_boxes)
            labels[fields.NUM_LEFT_OUT] = crowded.counted(
                labels[fields.NUM_LEFT_OUT], example[fields.SOURCE_ID]
            )
        return features, labels

    def _with_class_targets(self, example: Example, training: bool) -> Example:
        """Replace class indices by targets, float32 [n, C]: one-hot except in training."""
        scores = example.get(fields.CLASS_SCORES)
        classes = tf.one_hot(example[fields.CLASSES], self.num_classes)
        example = {
            **example,
            fields.CLASSES: scores if training and scores is not None else classes,
        }
        example.pop(fields.CLASS_SCORES, None)
        return (
            class_targets.merge_equal_boxes(example) if training and self.merges_boxes else example
        )

    def room(self, training: bool) -> int:
        """Return the largest number of boxes of an example, in training or in an evaluation."""
        return self.max_train_boxes or self.max_boxes if training else self.max_boxes

    def find_problem(self, serialized: bytes) -> Optional[str]:
        """Find the first problem of a record by its keys and values; None if there is none."""
        return record_checks.find_problem(
            serialized,
            self.label_map,
            0 if self.keypoints is None else self.keypoints.count,
            self.keypoints is not None and self.keypoints.places is not None,
            self.mask_type,
            self.family,
            self.context,
            self.num_classes if self.class_scores else 0,
            self.channels,
        )

    def repair(self, serialized: bytes) -> Optional[Tuple[bytes, str]]:
        """Return a malformed record without its malformed objects; see `record_repair`."""
        has_pngs = self.mask_type == input_reader_pb2.PNG_MASKS
        return record_repair.repair(serialized, self.family, has_pngs, self.find_problem)

    def class_names(self) -> Dict[int, str]:
        """Return the names of the classes by their ids."""
        if self.label_map is not None:
            return self.label_map.names
        first = label_maps.FIRST_ID
        return {index: f'class {index}' for index in range(first, first + self.num_classes)}

    def _keys(self) -> Dict[str, Any]:
        boxes = dict.fromkeys(self.family.RECORD_KEYS, _list_feature(tf.float32))
        masks = {}
        if self.mask_type is not None:
            masks = {
                instance_checks.MASK: _list_feature(_MASK_DTYPES[self.mask_type]),
                instance_checks.MASK_WEIGHT: _list_feature(tf.float32),
            }
        points = {} if self.keypoints is None else self.keypoints.keys()
        points = {key: _list_feature(dtype) for key, dtype in points.items()}
        classes = dict(_IMAGE_CLASS_KEYS) if self.image_classes else {}
        if self.labeled_classes:
            classes[record_sources.LABELED] = _list_feature(tf.string)
        if self.absent_classes:
            classes.update(dict.fromkeys(_LVIS_KEYS.values(), _list_feature(tf.int64)))
        context = {} if self.context is None else self.context.keys()
        scores = {class_targets.SCORES: _list_feature(tf.float32)} if self.class_scores else {}
        own = {**_KEYS, **self.channels.keys()}
        return {**own, **boxes, **masks, **points, **classes, **scores, **context}

    def _sound(self, numbers: tf.Tensor, parsed: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Return the values of boxes; running them fails if they or their lists are invalid."""
        conditions = []
        count = tf.shape(numbers)[0]
        class_sizes = [tf.size(parsed['image/object/class/label'])]
        if self.label_map is not None:
            class_sizes.append(tf.size(parsed['image/object/class/text']))
        per_box = list(record_checks.PER_BOX)
        if self.mask_type is not None:
            per_box.append(instance_checks.MASK_WEIGHT)
        if self.keypoints is not None:
            conditions.append(self.keypoints.are_sound(parsed, count))
        if self.class_scores:
            number = tf.size(parsed[class_targets.SCORES])
            is_full = tf.equal(number, count * self.num_classes)
            conditions.append(tf.logical_or(tf.equal(number, 0), is_full))
        sizes = tf.stack([*class_sizes, *(tf.size(parsed[key]) for key in per_box)])
        conditions += [
            tf.reduce_all(tf.logical_or(tf.equal(sizes, 0), tf.equal(sizes, count))),
            tf.equal(tf.reduce_max(tf.stack(class_sizes)), count),
            tf.reduce_all(
                self.family.is_sound(numbers, record_checks.MOST_OVERHANG)
            ),  # NaN boxes pass; they are dropped later
        ]
        # The raw op avoids the conditional of `tf.debugging.Assert`, which is slow to build.
        check = tf.raw_ops.Assert(
            condition=tf.reduce_all(tf.stack(conditions)),
            data=['the boxes of the record, or the lists that go with them, are not valid'],
        )
        with tf.control_dependencies([check]):
            return tf.identity(numbers)

    def _classes(self, parsed: Dict[str, tf.Tensor], count: tf.Tensor) -> tf.Tensor:
        """Compute class indices from 0; -1 for unknown classes."""
        labels = parsed['image/object/class/label']
        if self.label_map is None:
            return label_maps.to_index(labels)
        texts = parsed['image/object/class/text']
        name_ids = self.label_map.lookup(fill_missing(texts, count, ''), self.use_display_name)
        label_ids = fill_missing(labels, count, label_maps.UNKNOWN_ID)
        return label_maps.to_index(tf.where(tf.size(texts) > 0, name_ids, label_ids))

    def _image_classes(self, parsed: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Compute float32 [C]: 1 for the classes whose presence in the image was verified."""
        ids = parsed['image/class/label']
        sizes = [tf.size(ids)]
        if self.label_map is not None:
            names = parsed['image/class/text']
            sizes.insert(0, tf.size(names))
            ids = tf.concat([self.label_map.lookup(names, self.use_display_name), ids], axis=0)
        if self.hierarchy is not None:
            confidences = tf.concat([parsed[_CONFIDENCES][:size] for size in sizes], axis=0)
            return self.hierarchy.expand_image(label_maps.to_index(ids), confidences)
        return self._k_hot(ids)

    def _k_hot(self, ids: tf.Tensor) -> tf.Tensor:
        """Compute float32 [C]: 1 for the classes of ids [m]."""
        hot = tf.one_hot(label_maps.to_index(ids), self.num_classes)
        return tf.minimum(tf.reduce_sum(hot, axis=0), 1.0)

    def _is_usable(self, example: Example) -> tf.Tensor:
        """Check which boxes are not NaN and of a known class: bool [n]."""
        classes = example[fields.CLASSES]
        known = tf.logical_and(classes >= 0, classes < self.num_classes)
        missing = tf.reduce_any(tf.math.is_nan(example[fields.BOXES]), axis=1)
        return tf.logical_and(known, tf.logical_not(missing))

    def _areas(self, recorded: tf.Tensor, boxes: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
        """Complete the areas of a record by those of the boxes, in pixels."""
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
        computed = self.family.area(self.family.scale(boxes, height, width))
        return tf.concat([recorded, computed[tf.size(recorded) :]], axis=0)

    def _labels(self, example: Example, masks: Optional[tf.Tensor], max_boxes: int) -> Labels:
        """Build groundtruth with `max_boxes` rows."""
        boxes = tf.shape(example[fields.BOXES])[0]
        count = tf.minimum(boxes, max_boxes)
        rows = {name: example[name] for name in fields.PER_BOX if name in example}
        rows.pop(fields.MASKS, None)
        labels = {name: _padded(values, max_boxes) for name, values in rows.items()}
        if masks is not None:
            # Masks are whole images: padding them to `max_boxes` rows would take too much memory.
            labels[fields.MASKS] = _padded(masks, tf.maximum(count, 1))
        labels[fields.NUM_BOXES] = count
        labels[fields.NUM_LEFT_OUT] = boxes - count
        whole = (fields.IMAGE_CLASSES, fields.LABELED_CLASSES, *_LVIS_KEYS)
        labels.update({name: example[name] for name in whole if name in example})
        return labels


def serving_features(
    images: tf.Tensor, resizer: ImageResizer, is_rotated: bool, is_reframed: bool
) -> Features:
    """Build the features of served images, each resized to the network's input.

    Args:
        images: [batch, height, width, channels].
        resizer: resizes an image to an input.
        is_rotated: whether boxes are rotated: sides and angles refer to the images as served.
        is_reframed: whether masks of the size of the images are asked for.
    """
    signature = {
        fields.IMAGE: tf.TensorSpec([*(resizer.static_size or (None, None)), None], tf.float32),
        fields.TRUE_IMAGE_SHAPE: tf.TensorSpec([3], tf.int32),
    }

    @tf.autograph.experimental.do_not_convert
    def resized(image: tf.Tensor) -> Features:
        result = resizer.resize(image)
        return {fields.IMAGE: result.image, fields.TRUE_IMAGE_SHAPE: result.true_shape}

    features = tf.map_fn(resized, images, fn_output_signature=signature)
    features[fields.IMAGE].set_shape([None, None, None, images.shape[-1]])
    batch, height, width, _ = tf.unstack(tf.shape(images))
    size = tf.tile([[height, width]], [batch, 1])
    if is_rotated:
        features[fields.ORIGINAL_SHAPE] = size
    if is_reframed:
        features[fields.SERVED_SHAPE] = size
    return features


def build_reader(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    num_classes: int,
    label_map: Optional[label_maps.LabelMap],
    family: BoxFamily = axis_aligned,
) -> Reader:
    """Build the reader of a config from its training reader, or from its first evaluation reader.

    `train_config.max_number_of_boxes` applies to training. An evaluation reader has its own.
    """
    reader = config.train_input_reader
    if config.eval_input_reader and not config.HasField('train_input_reader'):
        reader = config.eval_input_reader[0]
    mask_type = None
    if reader.load_instance_masks:
        # `DEFAULT` is 0 and means numbers, as published.
        mask_type = reader.mask_type or input_reader_pb2.NUMERICAL_MASKS
    evaluated = config.eval_input_reader[0] if config.eval_input_reader else reader
    training = config.train_config if config.train_config.HasField(_MAX_BOXES) else reader
    return Reader(
        num_classes=num_classes,
        # With that of training, evaluations would look for fewer objects than there are.
        max_boxes=evaluated.max_number_of_boxes,
        max_train_boxes=training.max_number_of_boxes,
        label_map=label_map,
        use_display_name=reader.use_display_name,
        mask_type=mask_type,
        keypoints=_keypoint_decoder(reader, label_map),
        image_classes=metrics.needs_image_classes(config.eval_config)
        or config.model.center_net.object_center_params.use_labeled_classes,
        absent_classes=metrics.needs_absent_classes(config.eval_config),
        labeled_classes=label_map_files.check_labeled_classes(config, label_map),
        family=family,
        max_pixels=validation.pixel_limit(config),
        channels=image_channels.from_config(config),
        context=context_features.build(config),
        ignored=tuple(_FLAGS[flag] for flag in config.train_input_reader.ignored_boxes),
        ignored_coverage=config.train_config.ignored_coverage,
        class_scores=config.train_config.use_multiclass_scores and reader.load_multiclass_scores,
        merges_boxes=config.train_config.merge_multiple_label_boxes,
        hierarchy=class_targets.build_hierarchy(label_map, num_classes, 'train_input_reader')
        if reader.expand_labels_hierarchy
        else None,
    )


def _keypoint_decoder(
    reader: input_reader_pb2.InputReader, label_map: Optional[label_maps.LabelMap]
) -> Optional[KeypointDecoder]:
    count, places = reader.num_keypoints, None
    if reader.use_keypoint_label_map:
        places = keypoints.index_keypoints(label_map, count, 'train_input_reader')
    return KeypointDecoder(count, places) if count else None


def _padded(values: tf.Tensor, rows: Union[int, tf.Tensor]) -> tf.Tensor:
    """Pad or truncate [n, ...] to [rows, ...], with zeros."""
    values = values[:rows]
    missing = rows - tf.shape(values)[0]
    padded = tf.pad(values, [[0, missing]] + [[0, 0]] * (values.shape.rank - 1))
    padded.set_shape([None if tf.is_tensor(rows) else rows, *values.shape[1:]])
    return padded


def _hash(source_id: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.strings.to_hash_bucket_fast(source_id, 2**31 - 1), tf.int32)
