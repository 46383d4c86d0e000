"""The searched networks of DeepLab: PNASNet's cell in a plain network, and Auto-DeepLab.

Auto-DeepLab (Liu et al. 2019) has a searched way through the strides 4 to 32 too. Cells keep, halve
or, after a bilinear resize to twice the size, refine the maps; with each doubling of the stride go
twice the channels.
"""

from __future__ import annotations

import functools
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry
from model_fns.backbones.searched import cells, pnasnet
from model_fns.backbones.searched.cells import CURRENT, PREVIOUS, Cell, Term

tf1 = tf.compat.v1

HONORS = (
    'output_stride',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
    'drop_path_keep_prob',
    'drop_path_steps',
    'stem_filters',
)
LAST_END_POINT = 'Features'

_STEM_FILTERS = 20
_DROP_PATH_STEPS = 500000

_HIERARCHICAL_CELL = Cell(
    sums=(
        (Term('atrous', 5, PREVIOUS), Term('separable', 3, CURRENT)),
        (Term('separable', 3, PREVIOUS), Term('atrous', 3, CURRENT)),
        (Term('separable', 3, 3), Term('separable', 3, PREVIOUS)),
        (Term('separable', 5, 4), Term('separable', 5, 2)),
        (Term('separable', 5, 3), Term('atrous', 5, 5)),
    ),
    outputs=(2, 3, 4, 5, 6),
)


class Architecture(NamedTuple):
    """A network of cells of one kind.

    Attributes:
        scope: of its variables.
        cell: of which it is made.
        levels: for each output stride, that of each cell: its output has stride 4 * 2 ** level.
        decoder_taps: see `registry.Segmentation`.
        output_stride: where the config sets none.
    """

    scope: str
    cell: Cell
    levels: Mapping[int, Tuple[int, ...]]
    decoder_taps: Mapping[int, str]
    output_stride: int


ARCHITECTURES: Dict[str, Architecture] = {
    'nas_pnasnet': Architecture(
        'pnasnet',
        pnasnet.CELL,
        {8: (1,) * 12, 16: (1,) * 4 + (2,) * 8, 32: (1,) * 4 + (2,) * 4 + (3,) * 4},
        {4: 'Stem', 8: 'Cell_3', 16: 'Cell_7'},
        output_stride=16,
    ),
    'nas_hnasnet': Architecture(
        'hnasnet',
        _HIERARCHICAL_CELL,
        # The searched way of DeepLab's hnasnet: strides 4 to 32 and back to 8.
        {8: (0, 0, 0, 1, 2, 1, 2, 2, 3, 3, 2, 1)},
        {4: 'Cell_2', 8: 'Cell_5', 16: 'Cell_7'},
        output_stride=8,
    ),
}


def nas_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: depthwise weights are regularized too."""
    return layers.LayerStyle(
        is_training=is_training,
        # slim's variance_scaling_initializer(factor=1/3, mode='FAN_IN', uniform=True).
        initializer=layers.Initializer('uniform', 1.0 / 3.0, fan='in'),
        regularizer=layers.l2(options.get('weight_decay', 4e-5)),
        regularize_depthwise=True,
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', 0.9997),
            epsilon=options.get('batch_norm_epsilon', 1e-3),
            scale=True,
        ),
    )


def nas_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, name: str
) -> registry.EndPoints:
    """Return the feature maps of a searched network.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1]; sizes may be unknown.
        style: of all layers.
        options: those of `HONORS` count.
        name: one of `ARCHITECTURES`.

    Returns:
        `Stem` and `Cell_<i>`, not activated, and `Features`, the last of them activated.

    Raises:
        errors.ConfigError: the network cannot have that output stride.
    """
    architecture = ARCHITECTURES[name]
    levels = _levels(architecture, options.output_stride, name)
    drop_path = cells.DropPath.published(options, 1.0, _DROP_PATH_STEPS, len(levels))
    with tf1.variable_scope(architecture.scope):
        maps = list(_stem(images, style))
        end_points = {'Stem': maps[-1]}
        for number, (before, level) in enumerate(zip((0, *levels), levels)):
            current = maps[-1]
            if level < before:
                # DeepLab's scale_dimension at 2: corners stay aligned, so the size is odd.
                current = layers.resize(
                    current, *(2 * side - 1 for side in cells.map_size(current))
                )
            # Of each of the cell's states; the cell has several side by side.
            filters = int(options.get('stem_filters', _STEM_FILTERS)) * 2**level
            place = cells.Place(number, filters, 2 if level > before else 1)
            with tf1.variable_scope(f'cell_{number}'):
                previous = _matched(maps[-2], current, filters, style)
                maps.append(
                    cells.build_cell(architecture.cell, current, previous, place, style, drop_path)
                )
            end_points[f'Cell_{number}'] = maps[-1]
        end_points[LAST_END_POINT] = style.activation(maps[-1])
    return end_points


def _levels(architecture: Architecture, stride: Optional[int], name: str) -> Tuple[int, ...]:
    stride = stride or architecture.output_stride
    # Each output stride is another plan of cells: no rate of an atrous convolution gives it.
    if stride not in architecture.levels:
        known = ', '.join(str(known) for known in sorted(architecture.levels))
        raise errors.ConfigError(
            f'output_stride: {name} cannot have {stride}; it can have {known}.'
        )
    return architecture.levels[stride]


def _stem(images: tf.Tensor, style: layers.LayerStyle) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return maps of stride 2 and 4."""
    outputs = cells.conv(images, 64, 3, style, 'conv0', 'conv0_bn', stride=2, padding='FIXED')
    outputs = style.activation(outputs)
    first = cells.conv(outputs, 64, 3, style, 'conv1', 'conv1_bn')
    outputs = style.activation(first)
    return first, cells.conv(outputs, 128, 3, style, 'conv2', 'conv2_bn', stride=2, padding='FIXED')


def _matched(
    previous: tf.Tensor, current: tf.Tensor, channels: int, style: layers.LayerStyle
) -> tf.Tensor:
    """Return the previous map at the current one's size, with the cell's channels."""
    # Sizes that are not static may differ, so the resize is in the graph; it copies equal sizes.
    known = current.shape[1:3].is_fully_defined()
    if not (known and previous.shape[1:3] == current.shape[1:3]):
        previous = layers.resize(previous, *cells.map_size(current))
    if previous.shape[-1] == channels:
        return previous
    active = style.activation(previous)
    return cells.conv(active, channels, 1, style, 'prev_1x1', 'prev_bn')


def _feature_maps(architecture: Architecture) -> Mapping[int, str]:
    """Return the last end point of each stride, at the published output stride."""
    levels = architecture.levels[architecture.output_stride]
    last = {4 * 2**level: f'Cell_{number}' for number, level in enumerate(levels)}
    return {4: 'Stem', **last}


for _name, _architecture in ARCHITECTURES.items():
    registry.add(
        registry.Network(
            name=_name,
            scope=_architecture.scope,
            features=functools.partial(nas_features, name=_name),
            style=nas_style,
            feature_maps=_feature_maps(_architecture),
            honors=HONORS,
            segmentation=registry.Segmentation(
                last_end_point=LAST_END_POINT,
                decoder_taps=_architecture.decoder_taps,
                honors=HONORS,
                options=registry.Options(
                    output_stride=_architecture.output_stride, weight_decay=4e-5
                ),
            ),
        )
    )
