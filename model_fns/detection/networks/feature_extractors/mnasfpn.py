"""MnasFPN (Chen et al. 2019, "Learning Latency-aware Pyramid Architecture"): a searched neck.

The neck is a sequence of four equal cells. A cell starts from one map at each level and adds nodes.
A node sums two maps at one level, in a space with more channels, and projects the sum. The last
four nodes of a cell are the maps of the next cell.
"""

from __future__ import annotations

import dataclasses
import math
from typing import List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones.mobilenet_parts import Channels
from model_fns.detection.networks.feature_extractors.extractor import WHERE, Pyramid

tf1 = tf.compat.v1

SCOPE = 'MnasFPN'
BACKBONE_WEIGHT_DECAY = 4e-5

_LEVELS = (3, 4, 5, 6)
_DEFAULT = Pyramid(min_level=3, max_level=6, depth=48)
_NUM_CELLS = 4

# He et al. 2015, for a 3x3 filter on one channel; published with three digits.
_SEPARABLE_WIDTH = round(math.sqrt(2.0 / 9.0) / layers.TRUNCATED_STDDEV, 3)


@dataclasses.dataclass(frozen=True)
class Node:
    """Sum of two maps.

    Attributes:
        inputs: indices of the maps; inputs of the cell are 0 to 3, its nodes 4, 5, ...
        level: level of the output.
        kernel_size: kernel size of the final separable convolution.
        width: channels of the sum, before the factor.
    """

    inputs: Tuple[int, int]
    level: int
    kernel_size: int
    width: int


# Figure 5 of the paper.
_CELL = (
    Node((1, 2), level=4, kernel_size=3, width=256),
    Node((0, 4), level=3, kernel_size=3, width=128),
    Node((5, 4), level=4, kernel_size=3, width=128),
    Node((4, 3), level=5, kernel_size=5, width=128),
    Node((4, 3), level=6, kernel_size=3, width=96),
)


def mnasfpn_style(is_training: bool, weight_decay: float = 1e-4) -> layers.LayerStyle:
    """Build the published style of the neck; the backbone uses `BACKBONE_WEIGHT_DECAY`."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.HE_NORMAL,
        depthwise_initializer=layers.truncated_normal(_SEPARABLE_WIDTH),
        regularizer=layers.l2(weight_decay),
        regularize_depthwise=True,
        activation=None,
        batch_norm=layers.BatchNorm(decay=0.99, epsilon=0.01, scale=True),
    )


def check_levels(pyramid: Optional[Pyramid]) -> Pyramid:
    """Return the levels of a config after checking that the neck has them.

    Args:
        pyramid: levels; None: the published ones.

    Raises:
        errors.ConfigError: other levels.
    """
    pyramid = pyramid or _DEFAULT
    if pyramid.smooths_all:
        raise errors.ConfigError(
            f'{WHERE}.fpn.layout: TORCHVISION; this neck has another form; leave it out.'
        )
    for name in ('min_level', 'max_level'):
        got, expected = getattr(pyramid, name), getattr(_DEFAULT, name)
        if got != expected:
            raise errors.ConfigError(
                f'{WHERE}.fpn.{name}: got {got}; this neck has levels '
                f'{_DEFAULT.min_level} to {_DEFAULT.max_level}, so expected {expected}.'
            )
    return pyramid


def mnasfpn(
    maps: Sequence[tf.Tensor],
    style: layers.LayerStyle,
    channels: Channels,
    depth: int = _DEFAULT.depth,
    padding: layers.Padding = 'SAME',
) -> List[tf.Tensor]:
    """Build the neck, in the current scope.

    Args:
        maps: float32 [batch, height, width, channels] of levels 3, 4 and 5.
        style: of all layers, from `mnasfpn_style`.
        channels: rule that scales widths and `depth`.
        depth: channels of the maps between cells.
        padding: `SAME` or `FIXED`.

    Returns:
        Maps of levels 3 to 6.

    Raises:
        errors.ConfigError: a level is not half the size of the previous one.
    """
    with tf1.variable_scope(SCOPE):
        coarsest = layers.conv2d(
            _reduced(maps[-1], 2, padding),
            channels(depth),
            1,
            style.but(regularizer=None),
            'C6_Conv1x1',
        )
        features = [*maps, coarsest]
        _check_sizes(features)
        for index in range(_NUM_CELLS):
            with tf1.variable_scope(f'cell_{index}'):
                features = _cell(features, style, channels, depth, padding)
    return features


def _cell(
    inputs: Sequence[tf.Tensor],
    style: layers.LayerStyle,
    channels: Channels,
    depth: int,
    padding: layers.Padding,
) -> List[tf.Tensor]:
    features, levels = list(inputs), list(_LEVELS)
    for index, node in enumerate(_CELL):
        parts = [(features[number], levels[number]) for number in node.inputs]
        with tf1.variable_scope(f'block_{index}'):
            features.append(_node(parts, node, style, channels, depth, padding))
        levels.append(node.level)
    outputs = features[-len(inputs) :]
    # In the first cell only the coarsest map has as many channels as the outputs.
    return [
        layers.add(new, old, style, range_name=f'output_{index}/{layers.PLAIN_SUM}')
        if new.shape[-1] == old.shape[-1]
        else new
        for index, (new, old) in enumerate(zip(outputs, inputs))
    ]


def _node(
    parts: Sequence[Tuple[tf.Tensor, int]],
    node: Node,
    style: layers.LayerStyle,
    channels: Channels,
    depth: int,
    padding: layers.Padding,
) -> tf.Tensor:
    widened = []
    for index, (features, level) in enumerate(parts):
        with tf1.variable_scope(f'input_{index}'):
            # The 1x1 convolution runs on the smaller map: pool before it, enlarge after it.
            if level < node.level:
                features = _reduced(features, 2 ** (node.level - level), padding)
            features = layers.conv2d(features, channels(node.width), 1, style, 'Conv1x1')
            if level > node.level:
                features = layers.enlarge(features, 2 ** (level - node.level))
            widened.append(features)
    return layers.separable_conv2d(
        layers.add(*widened, style, tf.nn.relu6),
        channels(depth),
        node.kernel_size,
        style.but(initializer=style.depthwise_initializer),
        'SepConv',
        padding=padding,
    )


def _reduced(features: tf.Tensor, stride: int, padding: layers.Padding) -> tf.Tensor:
    """Compute the maximum of each 3x3 window; explicit padding is with zeros."""
    if padding == 'FIXED':
        # SAME would pad with minus infinity. Linear maps may be negative at the border, where both
        # differ.
        features, padding = tf.pad(features, [[0, 0], [1, 1], [1, 1], [0, 0]]), 'VALID'
    return tf.nn.max_pool2d(features, 3, stride, padding)


def _check_sizes(maps: Sequence[tf.Tensor]) -> None:
    for fine, coarse in zip(maps, maps[1:]):
        if not (fine.shape[1:3].is_fully_defined() and coarse.shape[1:3].is_fully_defined()):
            continue
        if [2 * side for side in coarse.shape[1:3]] != list(fine.shape[1:3]):
            raise errors.ConfigError(
                'model.ssd.image_resizer: this feature extractor takes images whose height and '
                f'width are multiples of {2 ** _LEVELS[-1]} pixels (pad_to_multiple: '
                f'{2 ** _LEVELS[-1]} makes them so).'
            )
