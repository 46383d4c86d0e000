"""Heads, which predict box codes and class logits of every anchor from feature maps."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
from typing import Any, ContextManager, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import generations
from model_fns.detection.config_rules import checks
from model_fns.detection.networks import hyperparams
from protos import box_predictors_pb2

tf1 = tf.compat.v1

_SHARED_SCOPE = 'WeightSharedConvolutionalBoxPredictor'


@dataclasses.dataclass(frozen=True)
class Head:
    """Parameters of a head, which predicts values of the anchors of each cell.

    Attributes:
        num_outputs: number of predicted values of an anchor.
        scope: name of the last layer.
        bias: initial value of the biases.
        dropout_keep_prob: keep probability of dropout on the input; 1 for no dropout.
        clip: (least, most) predicted value; None for no bounds.
    """

    num_outputs: int
    scope: str
    bias: float = 0.0
    dropout_keep_prob: float = 1.0
    clip: Optional[Tuple[float, float]] = None


class BoxPredictor(abc.ABC):
    """Predictor of the box code and the class logits of each anchor.

    Attributes:
        class_head: head that predicts logits.
    """

    class_head: Head

    @abc.abstractmethod
    def predict(
        self, feature_maps: Sequence[tf.Tensor], anchors_per_location: Sequence[int]
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Predict codes and logits of all anchors, in the order of anchors.

        Args:
            feature_maps: float32 [B, height, width, channels] each.
            anchors_per_location: number of anchors of a cell of each feature map.

        Returns:
            Box codes, float32 [B, A, K], and class logits, float32 [B, A, C'].
        """


class ConvolutionalBoxPredictor(BoxPredictor):
    """Box predictor with a separate head for each feature map.

    Args:
        box_head: head that predicts codes.
        class_head: head that predicts logits.
        style: style of the layers before the heads; heads use its regularizer and initializer.
        kernel_size: kernel size of the heads.
        num_layers: number of 1x1 convolutions before the heads.
        depth_range: least and most channels of those; with 0 for both there are none.
        use_depthwise: True: heads are a depthwise convolution, then a 1x1 convolution.
        sigmoid_scores: True: scores are probabilities.
    """

    def __init__(
        self,
        box_head: Head,
        class_head: Head,
        style: layers.LayerStyle,
        kernel_size: int = 1,
        num_layers: int = 0,
        depth_range: Tuple[int, int] = (0, 0),
        use_depthwise: bool = False,
        sigmoid_scores: bool = False,
    ):
        self.class_head = class_head
        self._heads = (box_head, class_head)
        self._style = style
        self._kernel_size = kernel_size
        self._num_layers = num_layers
        self._depth_range = depth_range
        self._use_depthwise = use_depthwise
        self._sigmoid_scores = sigmoid_scores

    def predict(
        self, feature_maps: Sequence[tf.Tensor], anchors_per_location: Sequence[int]
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Predict codes and logits by the head of each feature map.

        Returns:
            Box codes, float32 [B, A, K], and class logits, float32 [B, A, C'].
        """
        codes, logits = [], []
        for index, (features, count) in enumerate(zip(feature_maps, anchors_per_location)):
            # The head of a single map is published without a separate scope.
            scope: ContextManager = contextlib.nullcontext()
            if len(feature_maps) > 1:
                scope = tf1.variable_scope(f'BoxPredictor_{index}')
            with scope:
                features = self._apply_layers(features)
                for head, predictions in zip(self._heads, (codes, logits)):
                    predictions.append(self._head(features, head, count))
        scores = tf.concat(logits, axis=1)
        return tf.concat(codes, axis=1), tf.sigmoid(scores) if self._sigmoid_scores else scores

    def _apply_layers(self, features: tf.Tensor) -> tf.Tensor:
        least, most = self._depth_range
        # The published rule in its order: `least` wins over `most`.
        depth = max(min(features.shape[-1], most), least)
        if depth:
            for index in range(self._num_layers):
                scope = f'Conv2d_{index}_1x1_{depth}'
                features = layers.conv2d(features, depth, 1, self._style, scope)
        return features

    def _head(self, features: tf.Tensor, head: Head, count: int) -> tf.Tensor:
        features = layers.dropout(
            features, head.dropout_keep_prob, self._style.is_training, f'{head.scope}Dropout'
        )
        kernel_size = self._kernel_size
        if self._use_depthwise:
            # As published, batch norm and activation are between both parts, unlike in
            # `separable_conv2d`.
            features = layers.depthwise_conv2d(
                features, kernel_size, self._style, f'{head.scope}_depthwise'
            )
            kernel_size = 1
        predictions = layers.conv2d(
            features,
            head.num_outputs * count,
            kernel_size,
            self._style.linear(),
            head.scope,
            bias_initializer=_constant(head.bias),
        )
        return _flatten_anchors(predictions, head, count)


class WeightSharedBoxPredictor(BoxPredictor):
    """Box predictor with one head for all feature maps, after towers (RetinaNet).

    Only the batch norms of the towers differ between maps. Maps with different numbers of channels
    are projected first, each by a separate layer, to the number that most of them have.

    Args:
        box_head: head that predicts codes.
        class_head: head that predicts logits.
        style: style of the towers; heads use its regularizer and initializer.
        depth: channels of the towers.
        num_layers: number of convolutions of a tower.
        kernel_size: kernel size of towers and heads.
        share_tower: True: both heads share one tower.
        use_depthwise: True: all convolutions are separable.
        sigmoid_scores: True: scores are probabilities.
        head_style: style of the heads, if regularizer and initializer are not those of the towers.
    """

    def __init__(
        self,
        box_head: Head,
        class_head: Head,
        style: layers.LayerStyle,
        depth: int,
        num_layers: int = 0,
        kernel_size: int = 3,
        share_tower: bool = False,
        use_depthwise: bool = False,
        sigmoid_scores: bool = False,
        head_style: Optional[layers.LayerStyle] = None,
    ):
        self._box_head = box_head
        self.class_head = class_head
        self._style = style
        self._head_style = head_style or style
        self._depth = depth
        self._num_layers = num_layers
        self._kernel_size = kernel_size
        self._share_tower = share_tower
        self._conv = layers.separable_conv2d if use_depthwise else layers.conv2d
        self._sigmoid_scores = sigmoid_scores

    def predict(
        self, feature_maps: Sequence[tf.Tensor], anchors_per_location: Sequence[int]
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Predict codes and logits by the shared head.

        Returns:
            Box codes, float32 [B, A, K], and class logits, float32 [B, A, C'].

        Raises:
            ValueError: feature maps differ in their number of anchors.
        """
        if len(set(anchors_per_location)) != 1:
            raise ValueError(
                'a weight-shared head needs the same number of anchors on every feature map; they '
                f'are {list(anchors_per_location)}'
            )
        # A convolution with shared weights needs the same number of input channels on all levels.
        projected_depth = _common_depth(feature_maps)
        codes, logits = [], []
        for level, (features, count) in enumerate(zip(feature_maps, anchors_per_location)):
            with tf1.variable_scope(_SHARED_SCOPE, reuse=tf1.AUTO_REUSE) as scope:
                # Each level has separate quantization ranges, except those of the shared weights.
                style, head_style = self._style, self._head_style
                if level:
                    style, head_style = (
                        shared.ranges_as(f'{scope.name}_{level}', shares_weights=True)
                        for shared in (style, head_style)
                    )
                if projected_depth is not None:
                    features = layers.conv2d(
                        features,
                        projected_depth,
                        1,
                        style.but(activation=None),
                        f'ProjectionLayer/conv2d_{level}',
                    )
                box_features, class_features = self._towers(features, style, level)
                codes.append(self._head(box_features, self._box_head, head_style, count))
                logits.append(self._head(class_features, self.class_head, head_style, count))
        scores = tf.concat(logits, axis=1)
        return tf.concat(codes, axis=1), tf.sigmoid(scores) if self._sigmoid_scores else scores

    def _towers(
        self, features: tf.Tensor, style: layers.LayerStyle, level: int
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        if self._share_tower:
            shared = self._tower(features, style, 'PredictionTower', level)
            return shared, shared
        return (
            self._tower(features, style, 'BoxPredictionTower', level),
            self._tower(features, style, 'ClassPredictionTower', level),
        )

    def _tower(
        self, features: tf.Tensor, style: layers.LayerStyle, scope: str, level: int
    ) -> tf.Tensor:
        with tf1.variable_scope(scope):
            for index in range(self._num_layers):
                features = self._conv(
                    features,
                    self._depth,
                    self._kernel_size,
                    style,
                    f'conv2d_{index}',
                    # Statistics differ between levels, weights do not. This is the name in
                    # published checkpoints.
                    norm_scope=f'BatchNorm/feature_{level}',
                )
        return features

    def _head(
        self, features: tf.Tensor, head: Head, style: layers.LayerStyle, count: int
    ) -> tf.Tensor:
        features = layers.dropout(
            features, head.dropout_keep_prob, style.is_training, f'{head.scope}Dropout'
        )
        predictions = self._conv(
            features,
            head.num_outputs * count,
            self._kernel_size,
            style.linear(),
            head.scope,
            bias_initializer=_constant(head.bias),
        )
        return _flatten_anchors(predictions, head, count)


def build_box_predictor(
    section: Section[box_predictors_pb2.BoxPredictor],
    code_size: int,
    class_columns: int,
    is_training: bool,
    inplace_batch_norm_update: bool = False,
    freeze_batch_norm: bool = False,
    quantization: Optional[layers.Quantization] = None,
    generation: generations.Generation = generations.FIRST,
) -> BoxPredictor:
    """Build the head that a config describes, for single-shot detection.

    Args:
        section: configuration message.
        code_size: K.
        class_columns: C'.
        is_training: True: dropout is active and batch norm uses the batch's statistics.
        inplace_batch_norm_update: True: moving statistics are updated when the layer is computed.
        freeze_batch_norm: True: batch norm uses its moving statistics in training too.
        quantization: how weights and outputs are rounded; None: they are not.
        generation: generation of the detector.

    Raises:
        errors.ConfigError: the message is empty, or of another meta-architecture.
    """
    kind = section.message.WhichOneof('box_predictor_oneof')
    builders = {
        'convolutional_box_predictor': _build_convolutional,
        'weight_shared_convolutional_box_predictor': _build_weight_shared,
    }
    if kind not in builders:
        raise section.error('', f'{kind or "empty"}; expected {" or ".join(builders)}.')
    chosen = section.child(kind)
    checks.check_part(chosen, checks.code_size_problems(chosen, code_size, 'the box coder'))
    style = hyperparams.build_layer_style(
        chosen.child('conv_hyperparams'), is_training, inplace_batch_norm_update
    ).but(quantization=quantization)
    style = style.frozen() if freeze_batch_norm else style
    return builders[kind](chosen.message, style, generation, code_size, class_columns)


def _build_convolutional(
    config: box_predictors_pb2.ConvolutionalBoxPredictor,
    style: layers.LayerStyle,
    generation: generations.Generation,
    code_size: int,
    class_columns: int,
) -> ConvolutionalBoxPredictor:
    del generation
    # As published, boxes have no dropout, only class logits have.
    keep = config.dropout_keep_probability if config.use_dropout else 1.0
    return ConvolutionalBoxPredictor(
        Head(code_size, 'BoxEncodingPredictor', clip=_clip_range(config)),
        Head(class_columns, 'ClassPredictor', config.class_prediction_bias_init, keep),
        style,
        kernel_size=config.kernel_size,
        num_layers=config.num_layers_before_predictor,
        depth_range=(config.min_depth, config.max_depth),
        use_depthwise=config.use_depthwise,
        sigmoid_scores=config.apply_sigmoid_to_scores,
    )


def _build_weight_shared(
    config: box_predictors_pb2.WeightSharedConvolutionalBoxPredictor,
    style: layers.LayerStyle,
    generation: generations.Generation,
    code_size: int,
    class_columns: int,
) -> WeightSharedBoxPredictor:
    keep = config.dropout_keep_probability if config.use_dropout else 1.0
    head_style = style
    if config.use_depthwise:
        head_style = generation.separable_head(style, config.apply_conv_hyperparams_to_heads)
        style = generation.separable(style, config.apply_conv_hyperparams_pointwise)
    return WeightSharedBoxPredictor(
        Head(code_size, 'BoxPredictor', clip=_clip_range(config)),
        Head(class_columns, 'ClassPredictor', config.class_prediction_bias_init, keep),
        style,
        depth=config.depth,
        num_layers=config.num_layers_before_predictor,
        kernel_size=config.kernel_size,
        share_tower=config.share_prediction_tower,
        use_depthwise=config.use_depthwise,
        # In training the losses convert logits themselves.
        sigmoid_scores=config.score_converter == config.SIGMOID and not style.is_training,
        head_style=head_style,
    )


def _clip_range(config: Any) -> Optional[Tuple[float, float]]:
    if not config.HasField('box_encodings_clip_range'):
        return None
    return config.box_encodings_clip_range.min, config.box_encodings_clip_range.max


def _common_depth(feature_maps: Sequence[tf.Tensor]) -> Optional[int]:
    """Return the most frequent number of channels, the first of ties; None if all are equal."""
    counts = collections.Counter(features.shape[-1] for features in feature_maps)
    return None if len(counts) == 1 else counts.most_common(1)[0][0]


def _constant(value: float) -> layers.Initializer:
    return layers.Initializer('constant', value, fan=None)


def _flatten_anchors(predictions: tf.Tensor, head: Head, count: int) -> tf.Tensor:
    """Reshape [B, height, width, count * outputs] to float32 [B, anchors, outputs], clipped."""
    # Half types end here. Losses sum over all anchors, decoding takes exp of codes, and bfloat16
    # has 8 significant bits.
    predictions = layers.to_float32(predictions)
    if head.clip is not None:
        predictions = tf.clip_by_value(predictions, *head.clip)
    return flatten_anchors(predictions, head.num_outputs, count)


def flatten_anchors(predictions: tf.Tensor, num_outputs: int, count: int) -> tf.Tensor:
    """Reshape [B, height, width, count * outputs] to [B, anchors, outputs].

    Args:
        predictions: of all anchors of a map.
        num_outputs: of an anchor.
        count: anchors of a cell.
    """
    shape: List[Any] = predictions.shape.as_list()
    # A static number of anchors keeps the shapes of outputs static, which converters of files need.
    # Only the batch may be inferred: no runtime can tell the number of anchors of no image.
    height, width = tf.unstack(tf.shape(predictions)[1:3]) if None in shape[1:3] else shape[1:3]
    batch = tf.shape(predictions)[0] if None in shape[1:3] else -1
    return tf.reshape(predictions, [batch, height * width * count, num_outputs])
