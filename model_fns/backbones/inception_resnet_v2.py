"""Inception-ResNet V2 (Szegedy et al. 2016): Inception modules as residuals."""

from __future__ import annotations

import dataclasses
from typing import Iterator, List, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Branch, Conv, Layer, MaxPool, Mixed

tf1 = tf.compat.v1

SCOPE = 'InceptionResnetV2'
LAST_END_POINT = 'Conv2d_7b_1x1'
AUXILIARY_END_POINT = 'PreAuxLogits'
# First module of the second stage of a detector.
SECOND_PART = 'Mixed_7a'


@dataclasses.dataclass(frozen=True)
class Residual:
    """Branches joined, projected to the input's channels, scaled, and added to the input.

    Attributes:
        scope: its name.
        branches: as in `Mixed`.
        scale: of the sum's second term.
        activate: whether the style's activation follows.
    """

    scope: str
    branches: Tuple[Branch, ...]
    scale: float
    activate: bool = True
    end_point: Optional[str] = None

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: parts.Depth) -> tf.Tensor:
        """Build the branches and add their projection to the input.

        Returns:
            [batch, height', width', channels'].
        """
        with tf1.variable_scope(self.scope):
            joined = parts.join(self.branches, inputs, style, depth)
            # Biases and no batch norm, as published: slim passes normalizer_fn=None here.
            update = layers.conv2d(joined, inputs.shape[-1], 1, style.linear(), 'Conv2d_1x1')
            # Szegedy et al. 2016, section 3.3: beyond 1,000 filters the training is unstable unless
            # residuals are scaled by 0.1 to 0.3. slim has no op for the scale of 1.
            if self.scale != 1.0:
                update = layers.multiply(update, self.scale, style)
            return layers.add(inputs, update, style, style.activation if self.activate else None)


@dataclasses.dataclass(frozen=True)
class Repeat:
    """Repeated residuals in the scope `Repeat`: `<block's scope>_1` and so on.

    Attributes:
        count: how often.
        block: what.
        scope: its name; each repeat in a network after the first has its number in it.
    """

    count: int
    block: Residual
    end_point: Optional[str] = None
    scope: str = 'Repeat'

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: parts.Depth) -> tf.Tensor:
        """Build the blocks one after the other: [batch, height', width', channels']."""
        with tf1.variable_scope(self.scope):
            for index in range(self.count):
                block = dataclasses.replace(self.block, scope=f'{self.block.scope}_{index + 1}')
                inputs = block.build(inputs, style, depth)
            return inputs


_BLOCK_35 = (
    (Conv('Conv2d_1x1', 32),),
    (Conv('Conv2d_0a_1x1', 32), Conv('Conv2d_0b_3x3', 32)),
    (Conv('Conv2d_0a_1x1', 32), Conv('Conv2d_0b_3x3', 48), Conv('Conv2d_0c_3x3', 64)),
)

_BLOCK_8 = (
    (Conv('Conv2d_1x1', 192),),
    (Conv('Conv2d_0a_1x1', 192), Conv('Conv2d_0b_1x3', 224), Conv('Conv2d_0c_3x1', 256)),
)

_MIXED_5B = Mixed(
    'Mixed_5b',
    (
        (Conv('Conv2d_1x1', 96),),
        (Conv('Conv2d_0a_1x1', 48), Conv('Conv2d_0b_5x5', 64)),
        (Conv('Conv2d_0a_1x1', 64), Conv('Conv2d_0b_3x3', 96), Conv('Conv2d_0c_3x3', 96)),
        (AvgPool('AvgPool_0a_3x3'), Conv('Conv2d_0b_1x1', 64)),
    ),
)


def _block_17(rate: int) -> Tuple[Branch, ...]:
    return (
        (Conv('Conv2d_1x1', 192),),
        (
            Conv('Conv2d_0a_1x1', 128),
            Conv('Conv2d_0b_1x7', 160, rate=rate),
            Conv('Conv2d_0c_7x1', 192, rate=rate),
        ),
    )


def _stem(padding: layers.Padding) -> Tuple[Layer, ...]:
    return (
        Conv('Conv2d_1a_3x3', 32, stride=2, padding=padding),
        Conv('Conv2d_2a_3x3', 32, padding=padding),
        Conv('Conv2d_2b_3x3', 64),
        MaxPool('MaxPool_3a_3x3', stride=2, padding=padding),
        Conv('Conv2d_3b_1x1', 80, padding=padding),
        Conv('Conv2d_4a_3x3', 192, padding=padding),
        MaxPool('MaxPool_5a_3x3', stride=2, padding=padding),
    )


def _mixed_6a(padding: layers.Padding, stride: int) -> Mixed:
    return Mixed(
        'Mixed_6a',
        (
            (Conv('Conv2d_1a_3x3', 384, stride=stride, padding=padding),),
            (
                Conv('Conv2d_0a_1x1', 256),
                Conv('Conv2d_0b_3x3', 256),
                Conv('Conv2d_1a_3x3', 384, stride=stride, padding=padding),
            ),
            (MaxPool('MaxPool_1a_3x3', stride=stride, padding=padding),),
        ),
    )


def _mixed_7a(padding: layers.Padding) -> Mixed:
    return Mixed(
        'Mixed_7a',
        (
            (Conv('Conv2d_0a_1x1', 256), Conv('Conv2d_1a_3x3', 384, stride=2, padding=padding)),
            (Conv('Conv2d_0a_1x1', 256), Conv('Conv2d_1a_3x3', 288, stride=2, padding=padding)),
            (
                Conv('Conv2d_0a_1x1', 256),
                Conv('Conv2d_0b_3x3', 288),
                Conv('Conv2d_1a_3x3', 320, stride=2, padding=padding),
            ),
            (MaxPool('MaxPool_1a_3x3', stride=2, padding=padding),),
        ),
    )


# Counts and scales of slim's inception_resnet_v2.py. Its last block has neither scale nor
# activation.
def _layers(padding: layers.Padding, atrous: bool) -> Tuple[Layer, ...]:
    block_17 = Residual('block17', _block_17(rate=2 if atrous else 1), scale=0.10)
    return (
        *_stem(padding),
        _MIXED_5B,
        Repeat(10, Residual('block35', _BLOCK_35, scale=0.17)),
        _mixed_6a(padding, stride=1 if atrous else 2),
        Repeat(20, block_17, end_point=AUXILIARY_END_POINT),
        _mixed_7a(padding),
        Repeat(9, Residual('block8', _BLOCK_8, scale=0.20)),
        Residual('Block8', _BLOCK_8, scale=1.0, activate=False),
        Conv('Conv2d_7b_1x1', 1536),
    )


def inception_resnet_v2_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the published style: that of Inception, with Xavier and regularized biases."""
    # slim's arg scope of this network names no initializer, so that Xavier, the default, counts.
    # It regularizes biases too: with them a classifier has 290 losses.
    style = parts.inception_style(is_training, options)
    return style.but(initializer=layers.XAVIER, bias_regularizer=style.regularizer)


def inception_resnet_v2_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    output_stride: int = 16,
    align_feature_maps: bool = False,
    first_endpoint: Optional[str] = None,
    final_endpoint: str = LAST_END_POINT,
) -> registry.EndPoints:
    """Return the feature maps of Inception-ResNet V2.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1]; or, with `first_endpoint`,
            the features that it takes.
        style: of all layers.
        output_stride: 16, or 8: input size over the size of `PreAuxLogits`. At 8, where the
            network ends at `PreAuxLogits`, the convolutions from there back to `Mixed_6a` are
            atrous.
        align_feature_maps: pad everywhere, so that maps cover the image (the detectors do).
        first_endpoint: where to begin: `Mixed_7a` for a detector's second stage; None: at the
            image.
        final_endpoint: where to stop.

    Returns:
        float32 [batch, height', width', channels'] by name, from the first on.

    Raises:
        ValueError: there are no such end points, or not with that output stride.
    """
    if output_stride not in (8, 16):
        raise ValueError(f'The output stride of Inception-ResNet V2 is 8 or 16: {output_stride}.')
    network = _layers('SAME' if align_feature_maps else 'VALID', atrous=output_stride == 8)
    selected = parts.section(network, first_endpoint, final_endpoint)
    # As published: slim refuses all that follows `PreAuxLogits` at this stride.
    if output_stride == 8 and selected[-1].end_point in ('Mixed_7a', LAST_END_POINT):
        raise ValueError(f'At output stride 8 there is no {final_endpoint!r}.')
    with tf1.variable_scope(SCOPE):
        return parts.run(_numbered(selected), images, style)


def _numbered(network: Sequence[Layer]) -> List[Layer]:
    """Give the repeats their names: Repeat, Repeat_1, Repeat_2."""
    numbered: List[Layer] = []
    repeats = 0
    for layer in network:
        if isinstance(layer, Repeat):
            scope = f'Repeat_{repeats}' if repeats else 'Repeat'
            layer = dataclasses.replace(layer, scope=scope)
            repeats += 1
        numbered.append(layer)
    return numbered


def build_second_stage(
    crops: tf.Tensor, style: layers.LayerStyle, align_feature_maps: bool = False
) -> tf.Tensor:
    """Build the part of the network that a two-stage detector runs on crops.

    Args:
        crops: float32 [n, height, width, 1088].
        style: style of all layers.
        align_feature_maps: False: `SECOND_PART` pads nothing, and crops of 17 x 17 become 8 x 8;
            True: it pads, and they become 9 x 9.

    Returns:
        float32 [n, height', width', 1536].
    """
    end_points = inception_resnet_v2_features(
        crops, style, align_feature_maps=align_feature_maps, first_endpoint=SECOND_PART
    )
    return end_points[LAST_END_POINT]


def _keras_layers() -> Iterator[str]:
    """Yield the scopes of layers with weights, in the order in which Keras numbers them."""
    for layer in _numbered(_layers('SAME', atrous=False)):
        if isinstance(layer, Conv):
            yield from _list_layers(layer, '')
        elif isinstance(layer, Mixed):
            yield from _branch_layers(layer.branches, f'{layer.scope}/')
        elif isinstance(layer, Residual):
            yield from _residual_layers(layer, f'{layer.scope}/')
        elif isinstance(layer, Repeat):
            for index in range(layer.count):
                scope = f'{layer.scope}/{layer.block.scope}_{index + 1}/'
                yield from _residual_layers(layer.block, scope)


def _list_layers(layer: Conv, scope: str) -> Tuple[str, str]:
    return f'{scope}{layer.scope}', f'{scope}{layer.scope}/BatchNorm'


def _residual_layers(block: Residual, scope: str) -> Iterator[str]:
    yield from _branch_layers(block.branches, scope)
    yield f'{scope}Conv2d_1x1'


def _branch_layers(branches: Sequence[Branch], scope: str) -> Iterator[str]:
    """Yield the layers of branches: those farthest from the end first, then by branch."""
    placed = []
    for index, branch in enumerate(branches):
        names: List[str] = []
        for layer in branch:
            if isinstance(layer, Conv):
                # The activation is a layer too, but has no weights.
                names += [*_list_layers(layer, f'{scope}Branch_{index}/'), '']
        # Keras numbers by the distance from the output: branches of unequal length end together.
        placed += [(place - len(names), index, name) for place, name in enumerate(names)]
    for _, _, name in sorted(placed):
        if name:
            yield name


NETWORK = parts.Inception(
    SCOPE,
    tuple(_numbered(_layers('VALID', atrous=False))),
    pooled='global_pool',
    dropped='PreLogitsFlatten',
    auxiliary=parts.Auxiliary(AUXILIARY_END_POINT, 'Conv2d_2a_5x5', 'Logits'),
)

registry.add(
    NETWORK.describe(
        'inception_resnet_v2',
        ('Conv2d_2b_3x3', 'Conv2d_4a_3x3', 'Mixed_5b', AUXILIARY_END_POINT),
        inception_resnet_v2_style,
        second_stage=build_second_stage,
        keras_layers=tuple(_keras_layers()),
        # VALID layers make 37, 35, 17, 15, 7, 3 and 1 of 75 pixels; 74 would leave nothing.
        min_size=75,
    )
)
