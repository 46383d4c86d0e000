"""Detection examples: records to images and padded groundtruth of static shapes."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example, Features, Labels
from model_fns import images
from model_fns import label_map as label_maps
from model_fns.detection import fields
from model_fns.detection.image_resizers import ImageResizer
from protos import input_reader_pb2, pipeline_pb2

ModeKeys = tf.estimator.ModeKeys

_STRING = tf.io.FixedLenFeature([], tf.string, '')


def _list_of(dtype: tf.DType) -> tf.io.FixedLenSequenceFeature:
    return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)


_BOX = 'image/object/bbox/'
_BOX_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')

_KEYS: Dict[str, Any] = {
    'image/encoded': tf.io.FixedLenFeature([], tf.string),
    'image/source_id': _STRING,
    'image/filename': _STRING,
    'image/object/class/label': _list_of(tf.int64),
    'image/object/class/text': _list_of(tf.string),
    'image/object/difficult': _list_of(tf.int64),
    'image/object/is_crowd': _list_of(tf.int64),
    'image/object/group_of': _list_of(tf.int64),
    'image/object/area': _list_of(tf.float32),
    'image/object/weight': _list_of(tf.float32),
    'image/class/confidence': _list_of(tf.float32),
    'image/class/label': _list_of(tf.int64),
    'image/neg_category_ids': _list_of(tf.int64),
    'image/not_exhaustive_category_ids': _list_of(tf.int64),
    **{_BOX + side: _list_of(tf.float32) for side in _BOX_SIDES},
}
_MASK_KEYS = {
    input_reader_pb2.NUMERICAL_MASKS: {'image/object/mask': _list_of(tf.float32)},
    input_reader_pb2.PNG_MASKS: {'image/object/mask': _list_of(tf.string)},
}
_KEYPOINT_KEYS = {
    'image/object/keypoint/y': _list_of(tf.float32),
    'image/object/keypoint/x': _list_of(tf.float32),
    'image/object/keypoint/visibility': _list_of(tf.int64),
}

# What a box gets where the record does not say, and the type that it has.
_DEFAULTS = {
    fields.DIFFICULT: ('image/object/difficult', tf.bool, False),
    fields.IS_CROWD: ('image/object/is_crowd', tf.bool, False),
    fields.GROUP_OF: ('image/object/group_of', tf.bool, False),
    fields.WEIGHTS: ('image/object/weight', tf.float32, 1.0),
}


@dataclasses.dataclass(frozen=True)
class Reader:
    """Decodes and prepares detection records.

    Attributes:
        num_classes: without background.
        max_boxes: groundtruth boxes are padded, or cut, to so many.
        label_map: gives the ids of class names; None where records have ids.
        use_display_name: whether records name classes by their display names.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
        num_keypoints: of each box; 0: keypoints are not read.
        keep_original: whether features keep the image for pictures.
    """

    num_classes: int
    max_boxes: int = 100
    label_map: Optional[label_maps.LabelMap] = None
    use_display_name: bool = False
    mask_type: Optional[int] = None
    num_keypoints: int = 0
    keep_original: bool = False

    def decode(self, serialized: tf.Tensor) -> Example:
        """One record; boxes that are NaN or of an unknown class are left out.

        Args:
            serialized: string scalar, a `tf.train.Example`.

        Returns:
            Named as `fields` has it: `IMAGE` uint8 [height, width, 3], `BOXES` [n, 4], `CLASSES`
            [n] from 0, and so on.
        """
        parsed = tf.io.parse_single_example(serialized, self._keys())
        boxes = tf.stack([parsed[_BOX + side] for side in _BOX_SIDES], axis=1)
        image = images.decode_image(parsed['image/encoded'])
        count = tf.shape(boxes)[0]
        example = {
            fields.IMAGE: image,
            fields.SOURCE_ID: tf.where(
                tf.equal(parsed['image/source_id'], ''),
                parsed['image/filename'],
                parsed['image/source_id'],
            ),
            fields.FILENAME: parsed['image/filename'],
            fields.ORIGINAL_SHAPE: tf.shape(image)[:2],
            fields.BOXES: boxes,
            fields.CLASSES: self._classes(parsed, count),
            fields.AREA: _areas(parsed['image/object/area'], boxes, image),
        }
        for name, (key, dtype, default) in _DEFAULTS.items():
            example[name] = _filled(tf.cast(parsed[key], dtype), count, default)
        if self.mask_type is not None:
            example[fields.MASKS] = _masks(parsed['image/object/mask'], self.mask_type, image)
        if self.num_keypoints:
            example.update(_keypoints(parsed, count, self.num_keypoints))
        return keep_boxes(example, self._is_usable(example))

    def prepare(
        self, example: Example, resizer: ImageResizer, mode: str
    ) -> Tuple[Features, Labels]:
        """An example at the network's size, its groundtruth padded.

        Args:
            example: from `decode` or an augmentation of it.
            resizer: how the image becomes an input.
            mode: in training boxes without area, which nothing can match, are left out.
        """
        if mode == ModeKeys.TRAIN:
            sides = example[fields.BOXES][:, 2:] - example[fields.BOXES][:, :2]
            example = keep_boxes(example, tf.reduce_all(sides > 0.0, axis=1))
        resized = resizer.resize(example[fields.IMAGE], example.get(fields.MASKS))
        size = tf.shape(resized.image)[:2]
        features = {
            fields.IMAGE: resized.image,
            fields.TRUE_IMAGE_SHAPE: resized.true_shape,
            fields.ORIGINAL_SHAPE: example[fields.ORIGINAL_SHAPE],
            fields.SOURCE_ID: example[fields.SOURCE_ID],
            fields.HASH: _hash(example[fields.SOURCE_ID]),
        }
        labels = self._labels(example, resized.masks)
        if resizer.pads:
            # Shares of the image become shares of the padded input.
            share = tf.cast(resized.true_shape[:2], tf.float32) / tf.cast(size, tf.float32)
            labels[fields.BOXES] *= tf.concat([share, share], axis=0)
            if fields.KEYPOINTS in labels:
                labels[fields.KEYPOINTS] *= share
        return features, labels

    def problem_with(self, serialized: bytes) -> Optional[str]:
        """What is wrong with a record, by its keys and values alone; None when nothing is."""
        try:
            record = tf.train.Example.FromString(serialized).features.feature
        except Exception:
            return 'not a tf.train.Example'
        if not record['image/encoded'].bytes_list.value:
            return 'no image/encoded'
        counts = {side: len(record[_BOX + side].float_list.value) for side in _BOX_SIDES}
        labels = record['image/object/class/label'].int64_list.value
        names = record['image/object/class/text'].bytes_list.value
        if len({*counts.values(), max(len(labels), len(names))}) > 1:
            return f'{len(labels)} labels, {len(names)} names, and as sides of boxes ' + ', '.join(
                f'{count} {side}' for side, count in counts.items()
            )
        return self._problem_with_classes(list(labels), [name.decode() for name in names])

    def _problem_with_classes(self, labels: List[int], names: List[str]) -> Optional[str]:
        if names and self.label_map is not None:
            unknown = sorted({name for name in names if name not in self.label_map})
            return (
                f'classes that are not in the label map: {", ".join(unknown)}' if unknown else None
            )
        outside = sorted({label for label in labels if not 1 <= label <= self.num_classes})
        if outside:
            return (
                f'image/object/class/label has {", ".join(map(str, outside))}; expected 1 to '
                f'{self.num_classes}'
            )
        return None

    def _keys(self) -> Dict[str, Any]:
        masks = {} if self.mask_type is None else _MASK_KEYS[self.mask_type]
        return {**_KEYS, **masks, **(_KEYPOINT_KEYS if self.num_keypoints else {})}

    def _classes(self, parsed: Dict[str, tf.Tensor], count: tf.Tensor) -> tf.Tensor:
        """Class indices from 0; -1 where a class is unknown."""
        labels = parsed['image/object/class/label']
        if self.label_map is None:
            return label_maps.to_index(labels)
        texts = parsed['image/object/class/text']
        named = tf.equal(tf.shape(texts)[0], count)
        of_names = self.label_map.lookup(_filled(texts, count, ''), self.use_display_name)
        labels = tf.where(named, of_names, _filled(labels, count, label_maps.UNKNOWN_ID))
        return label_maps.to_index(labels)

    def _is_usable(self, example: Example) -> tf.Tensor:
        """Bool [n]: boxes that are numbers, of a class that there is."""
        classes = example[fields.CLASSES]
        known = tf.logical_and(classes >= 0, classes < self.num_classes)
        numbers = tf.reduce_all(tf.math.is_finite(example[fields.BOXES]), axis=1)
        return tf.logical_and(known, numbers)

    def _labels(self, example: Example, masks: Optional[tf.Tensor]) -> Labels:
        """Groundtruth with `max_boxes` rows."""
        count = tf.minimum(tf.shape(example[fields.BOXES])[0], self.max_boxes)
        rows = {name: example[name] for name in fields.PER_BOX if name in example}
        rows[fields.CLASSES] = tf.one_hot(example[fields.CLASSES], self.num_classes)
        if masks is not None:
            rows[fields.MASKS] = masks
        labels = {name: _padded(values, self.max_boxes) for name, values in rows.items()}
        labels[fields.NUM_BOXES] = count
        return labels


def build_reader(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    num_classes: int,
    label_map: Optional[label_maps.LabelMap],
) -> Reader:
    """The reader of a config: what its training reader asks for.

    Raises:
        errors.ConfigError: a field of an input reader is not honoured.
    """
    reader = config.train_input_reader
    for index, each in enumerate([reader, *config.eval_input_reader]):
        where = f'eval_input_reader[{index - 1}]' if index else 'train_input_reader'
        _refuse(each, where)
    mask_type = None
    if reader.load_instance_masks:
        mask_type = reader.mask_type or input_reader_pb2.NUMERICAL_MASKS
    max_boxes = reader.max_number_of_boxes
    if config.train_config.HasField('max_number_of_boxes'):
        max_boxes = config.train_config.max_number_of_boxes
    return Reader(
        num_classes=num_classes,
        max_boxes=max_boxes,
        label_map=label_map,
        use_display_name=reader.use_display_name,
        mask_type=mask_type,
        num_keypoints=reader.num_keypoints,
    )


def keep_boxes(example: Example, kept: tf.Tensor) -> Example:
    """The example with the boxes for which `kept`, bool [n], is true, and all that is theirs."""
    return {
        name: tf.boolean_mask(values, kept) if name in fields.PER_BOX else values
        for name, values in example.items()
    }


def _refuse(reader: input_reader_pb2.InputReader, where: str) -> None:
    refused = (
        'num_additional_channels',
        'load_multiclass_scores',
        'load_context_features',
        'load_context_image_ids',
        'load_dense_pose',
        'load_track_id',
        'load_keypoint_depth_features',
        'expand_labels_hierarchy',
        'use_keypoint_label_map',
    )
    for field in refused:
        if getattr(reader, field):
            raise errors.ConfigError(f'{where}.{field}: not honoured.')
    if reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE:
        raise errors.ConfigError(
            f'{where}.input_type: TF_SEQUENCE_EXAMPLE is not read; expected TF_EXAMPLE.'
        )


def _filled(values: tf.Tensor, count: tf.Tensor, default: Any) -> tf.Tensor:
    """Values [n], or the default n times where the record has none."""
    default = tf.fill([count], tf.constant(default, values.dtype))
    return tf.cond(tf.equal(tf.shape(values)[0], count), lambda: values, lambda: default)


def _areas(given: tf.Tensor, boxes: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
    """Pixels of each box, where the record does not give its object's."""
    pixels = tf.cast(tf.shape(image)[0] * tf.shape(image)[1], tf.float32)
    sides = boxes[:, 2:] - boxes[:, :2]
    computed = tf.reduce_prod(sides, axis=1) * pixels
    is_given = tf.equal(tf.shape(given)[0], tf.shape(boxes)[0])
    return tf.cond(is_given, lambda: given, lambda: computed)


def _masks(encoded: tf.Tensor, mask_type: int, image: tf.Tensor) -> tf.Tensor:
    """uint8 [n, height, width], 0 or 1."""
    height, width, _ = tf.unstack(tf.shape(image))
    if mask_type == input_reader_pb2.NUMERICAL_MASKS:
        return tf.cast(tf.reshape(encoded, [-1, height, width]) > 0, tf.uint8)

    def decoded(png: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.image.decode_png(png, channels=1)[:, :, 0] > 0, tf.uint8)

    masks = tf.map_fn(decoded, encoded, fn_output_signature=tf.TensorSpec([None, None], tf.uint8))
    return tf.reshape(masks, [-1, height, width])


def _keypoints(
    parsed: Dict[str, tf.Tensor], count: tf.Tensor, num_keypoints: int
) -> Dict[str, tf.Tensor]:
    """Points [n, k, 2], NaN where a keypoint is not visible, and visibilities [n, k]."""
    points = tf.stack(
        [parsed['image/object/keypoint/y'], parsed['image/object/keypoint/x']], axis=-1
    )
    points = tf.reshape(points, [-1, num_keypoints, 2])
    visibility = parsed['image/object/keypoint/visibility']
    visible = _filled(visibility > 0, count * num_keypoints, True)
    visible = tf.reshape(visible, [-1, num_keypoints])
    return {
        fields.KEYPOINTS: tf.where(visible[..., tf.newaxis], points, float('nan')),
        fields.KEYPOINT_VISIBILITIES: visible,
    }


def _padded(values: tf.Tensor, rows: int) -> tf.Tensor:
    """[n, ...] as [rows, ...], with zeros or cut."""
    values = values[:rows]
    missing = rows - tf.shape(values)[0]
    padded = tf.pad(values, [[0, missing]] + [[0, 0]] * (values.shape.rank - 1))
    padded.set_shape([rows, *values.shape[1:]])
    return padded


def _hash(source_id: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.strings.to_hash_bucket_fast(source_id, 2**31 - 1), tf.int32)
