"""Attention of proposals to features of other images (Context R-CNN, Beery et al. 2020).

B is the batch size, N the number of proposals of an image, M that of features in memory, L their
length, and c the channels of a proposal's features.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, Optional

import tensorflow as tf

from model_fns import layers
from model_fns.detection import fields

tf1 = tf.compat.v1

_SCOPE = 'AttentionBlock0_AttentionLayer0'
_PROJECTION = 'fully_connected'
# TF-Slim numbers layers without a name in the order of calls. The projection of the result is
# outside of the scope, and so the first of its name there.
_QUERIES, _KEYS, _VALUES = _PROJECTION, f'{_PROJECTION}_1', f'{_PROJECTION}_2'

# The logit of invalid features, before the division by the temperature.
_LEAST = -100000.0


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory of features of other images, for each image of a batch.

    Attributes:
        features: float32 [B, M, L].
        counts: int32 [B]: number of valid features.
    """

    features: tf.Tensor
    counts: tf.Tensor

    def trimmed(self) -> Memory:
        """Remove rows that are padding in every image of the batch, but keep at least one."""
        return Memory(self.features[:, : tf.maximum(tf.reduce_max(self.counts), 1)], self.counts)


def read_memory(side_inputs: Optional[Mapping[str, tf.Tensor]]) -> Optional[Memory]:
    """Build the memory from side inputs, if the model uses it.

    Args:
        side_inputs: tensors by the names of `fields`; None: there is no attention.
    """
    if side_inputs is None:
        return None
    return Memory(side_inputs[fields.CONTEXT_FEATURES], side_inputs[fields.NUM_CONTEXT_FEATURES])


@dataclasses.dataclass(frozen=True)
class ContextAttention:
    """Attention that adds features from a memory to those of proposals.

    As published, twice the mean of a proposal's own features is added too: the attention's result
    is added to its input, and the sum to the features and to their mean.

    Attributes:
        bottleneck: channels of queries, keys and values.
        temperature: divisor of logits, which are cosines of queries and keys.
        on_crops: True: attention applies to crops of the first stage's features; False: to the
            features of the second stage.
    """

    bottleneck: int = 2048
    temperature: float = 0.01
    on_crops: bool = False

    def __call__(
        self, features: tf.Tensor, counts: tf.Tensor, memory: Memory, is_training: bool
    ) -> tf.Tensor:
        """Return features with what was found added at each place, [B * N, height, width, c].

        Args:
            features: [B * N, height, width, c].
            counts: int32 [B]: number of valid proposals of each image.
            memory: memory of the images.
            is_training: True: batch norm uses the batch's statistics.
        """
        added = self.added(features, counts, memory, is_training)
        added = tf.reshape(added, [-1, 1, 1, features.shape[-1]])
        return features + tf.cast(added, features.dtype)

    def added(
        self, features: tf.Tensor, counts: tf.Tensor, memory: Memory, is_training: bool
    ) -> tf.Tensor:
        """Compute the summand of each proposal's features, float32 [B, N, c]; see `__call__`."""
        if not is_training:
            memory = memory.trimmed()  # in training, padding affects the batch's statistics
        pooled = layers.to_float32(tf.reduce_mean(features, [1, 2]))
        pooled = tf.reshape(pooled, [tf.shape(counts)[0], -1, features.shape[-1]])
        is_proposal = _mask(counts, pooled)
        is_remembered = _mask(memory.counts, memory.features)
        with tf1.variable_scope(_SCOPE):
            queries = self._project(pooled, self.bottleneck, is_training, _QUERIES)
            keys = self._project(memory.features, self.bottleneck, is_training, _KEYS)
            values = self._project(memory.features, self.bottleneck, is_training, _VALUES)
        queries = tf.math.l2_normalize(queries, -1) * is_proposal
        keys = tf.math.l2_normalize(keys, -1) * is_remembered
        values = tf.math.l2_normalize(values, -1) * is_remembered
        cosines = tf.matmul(queries, keys, transpose_b=True)
        is_valid = tf.linalg.matrix_transpose(is_remembered) > 0
        # exp(-1e7) is exactly 0 in float32 beside any valid row. Without a valid row all weights
        # are equal, and the values are 0.
        weights = tf.nn.softmax(tf.where(is_valid, cosines, _LEAST) / self.temperature)
        attended = tf.matmul(weights, values)
        return 2.0 * pooled + self._project(attended, features.shape[-1], is_training, _PROJECTION)

    def _project(
        self, values: tf.Tensor, channels: int, is_training: bool, scope: str
    ) -> tf.Tensor:
        """Project [B, n, any] to [B, n, channels]."""
        style = layers.LayerStyle(
            is_training=is_training,
            activation=tf.nn.relu6,
            # Fixed in the published code, whatever the config says.
            batch_norm=layers.BatchNorm(decay=0.97, epsilon=0.001, scale=True),
        )
        flat = tf.reshape(values, [-1, values.shape[-1]])
        projected = layers.to_float32(layers.fully_connected(flat, channels, style, scope))
        return tf.reshape(projected, [tf.shape(values)[0], -1, channels])


def _mask(counts: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Compute float32 [B, n, 1]: 1 for the first counts [B] rows of [B, n, any]."""
    valid = tf.sequence_mask(counts, tf.shape(rows)[1], tf.float32)
    return valid[..., tf.newaxis]
