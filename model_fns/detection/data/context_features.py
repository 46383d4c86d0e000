"""Features of other images that a record contains (Context R-CNN, Beery et al. 2020)."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib.task import Example, Features, Tensors
from model_fns.detection import fields
from protos import pipeline_pb2

_FEATURES = 'image/context_features'
_LENGTH = 'image/context_feature_length'

# Types of the values of a record.
KINDS = {_FEATURES: 'float_list', _LENGTH: 'int64_list'}

_WHERE = 'model.faster_rcnn.context_config.context_feature_length'


@dataclasses.dataclass(frozen=True)
class ContextFeatures:
    """Reader of the features of other images.

    Attributes:
        most: number of features of an example; fewer are padded with zeros, more are dropped.
        length: number of values of a feature.
    """

    most: int = 2000
    # 2,048 pooled features of a detection, 4 numbers of its box, and 5 of date and time.
    length: int = 2057

    def keys(self) -> Dict[str, Any]:
        """List the parsed keys of a record with their types."""
        return {
            _FEATURES: tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
            _LENGTH: tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        }

    def decode(self, parsed: Mapping[str, tf.Tensor]) -> Example:
        """Decode the features, [m, length]; fails at run time if their length differs."""
        numbers, lengths = parsed[_FEATURES], parsed[_LENGTH]
        is_sound = tf.logical_and(
            tf.reduce_all(tf.equal(lengths, self.length)),
            tf.equal(tf.size(numbers) % self.length, 0),
        )
        check = tf.raw_ops.Assert(
            condition=is_sound, data=['the context features of the record are of another length']
        )
        with tf.control_dependencies([check]):
            return {fields.CONTEXT_FEATURES: tf.reshape(numbers, [-1, self.length])}

    def prepare(self, example: Example) -> Features:
        """Pad features to [most, length], and count those that are not padding."""
        features = example[fields.CONTEXT_FEATURES][: self.most]
        count = tf.shape(features)[0]
        padded = tf.pad(features, [[0, self.most - count], [0, 0]])
        padded.set_shape([self.most, self.length])
        return {fields.CONTEXT_FEATURES: padded, fields.NUM_CONTEXT_FEATURES: count}

    def parse_examples(self, serialized: tf.Tensor) -> Features:
        """Parse the features of a batch of records in the form of `prepare`.

        Args:
            serialized: string [batch] of serialized `tf.train.Example`s.
        """

        def parse_record(record: tf.Tensor) -> Features:
            return self.prepare(self.decode(tf.io.parse_single_example(record, self.keys())))

        signature = {
            fields.CONTEXT_FEATURES: tf.TensorSpec([self.most, self.length], tf.float32),
            fields.NUM_CONTEXT_FEATURES: tf.TensorSpec([], tf.int32),
        }
        return tf.map_fn(parse_record, serialized, fn_output_signature=signature)

    def received(self, batch_size: tf.Tensor) -> Tensors:
        """Build the inputs of a served model; a client may omit them to use no context.

        Args:
            batch_size: int32 scalar.

        Returns:
            Placeholders, float32 [batch, any, length] and int32 [batch].
        """
        shapes = {
            fields.CONTEXT_FEATURES: ([batch_size, 1, self.length], [None, None, self.length]),
            fields.NUM_CONTEXT_FEATURES: ([batch_size], [None]),
        }
        types = {fields.CONTEXT_FEATURES: tf.float32, fields.NUM_CONTEXT_FEATURES: tf.int32}
        return {
            name: tf.compat.v1.placeholder_with_default(tf.zeros(default, types[name]), shape, name)
            for name, (default, shape) in shapes.items()
        }

    def find_problem(self, values: Mapping[str, Sequence[Any]]) -> Optional[str]:
        """Find the first problem of a record's features; None if there is none.

        Args:
            values: values of the record, by key.
        """
        numbers = len(values.get(_FEATURES, ()))
        for length in values.get(_LENGTH, ()):
            if length != self.length:
                return f'{_LENGTH} is {length}; expected {self.length}, {_WHERE}'
        if numbers % self.length:
            return f'{_FEATURES} has {numbers} numbers; expected a multiple of {self.length}'
        return None


def build(config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[ContextFeatures]:
    """Build the reader of context features that a config's model uses; None if it uses none."""
    model = config.model.faster_rcnn
    if not model.HasField('context_config'):
        return None
    context = model.context_config
    return ContextFeatures(context.max_num_context_features, context.context_feature_length)
