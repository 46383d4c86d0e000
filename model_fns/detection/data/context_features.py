"""Features of other images that a record holds for its own (Context R-CNN, Beery et al. 2020)."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib.task import Example, Features, Tensors
from model_fns.detection import fields
from protos import pipeline_pb2

_FEATURES = 'image/context_features'
_LENGTH = 'image/context_feature_length'

# What the values of a record are.
KINDS = {_FEATURES: 'float_list', _LENGTH: 'int64_list'}

_WHERE = 'model.faster_rcnn.context_config.context_feature_length'


@dataclasses.dataclass(frozen=True)
class ContextFeatures:
    """How the features of other images are read.

    Attributes:
        most: features of an example; fewer are padded with zeros, more are cut off.
        length: numbers in a feature.
    """

    most: int = 2000
    length: int = 2057

    def keys(self) -> Dict[str, Any]:
        """What is parsed of a record."""
        return {
            _FEATURES: tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
            _LENGTH: tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        }

    def decode(self, parsed: Mapping[str, tf.Tensor]) -> Example:
        """Return the features, [m, length]; running it fails where they are of another length."""
        numbers, given = parsed[_FEATURES], parsed[_LENGTH]
        is_sound = tf.logical_and(
            tf.reduce_all(tf.equal(given, self.length)),
            tf.equal(tf.size(numbers) % self.length, 0),
        )
        check = tf.raw_ops.Assert(
            condition=is_sound, data=['the context features of the record are of another length']
        )
        with tf.control_dependencies([check]):
            return {fields.CONTEXT_FEATURES: tf.reshape(numbers, [-1, self.length])}

    def prepare(self, example: Example) -> Features:
        """`most` features, [most, length], and how many of them are not padding."""
        features = example[fields.CONTEXT_FEATURES][: self.most]
        count = tf.shape(features)[0]
        padded = tf.pad(features, [[0, self.most - count], [0, 0]])
        padded.set_shape([self.most, self.length])
        return {fields.CONTEXT_FEATURES: padded, fields.NUM_CONTEXT_FEATURES: count}

    def of_examples(self, serialized: tf.Tensor) -> Features:
        """Return the features of a batch of records, as `prepare` gives them.

        Args:
            serialized: string [batch], each a `tf.train.Example`.
        """

        def of_one(one: tf.Tensor) -> Features:
            return self.prepare(self.decode(tf.io.parse_single_example(one, self.keys())))

        signature = {
            fields.CONTEXT_FEATURES: tf.TensorSpec([self.most, self.length], tf.float32),
            fields.NUM_CONTEXT_FEATURES: tf.TensorSpec([], tf.int32),
        }
        return tf.map_fn(of_one, serialized, fn_output_signature=signature)

    def received(self, batch_size: tf.Tensor) -> Tensors:
        """Inputs of a served model, which a client may leave out: then nothing is remembered.

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

    def problem_with(self, values: Mapping[str, Sequence[Any]]) -> Optional[str]:
        """What is wrong with a record's features; None when nothing is.

        Args:
            values: of the record, by key.
        """
        numbers = len(values.get(_FEATURES, ()))
        for given in values.get(_LENGTH, ()):
            if given != self.length:
                return f'{_LENGTH} is {given}; expected {self.length}, {_WHERE}'
        if numbers % self.length:
            return f'{_FEATURES} has {numbers} numbers; expected a multiple of {self.length}'
        return None


def build(config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[ContextFeatures]:
    """How a config's model wants them; None: it does not."""
    model = config.model.faster_rcnn
    if not model.HasField('context_config'):
        return None
    context = model.context_config
    return ContextFeatures(context.max_num_context_features, context.context_feature_length)
