"""NASNet-A (Zoph et al. 2018), and the parts that PNASNet shares with it.

Normal cells keep the size of the maps, reduction cells halve it and double the channels. Where a
cell's previous map is larger than its current one, it is halved by two 1x1 convolutions of every
second pixel, of which the second begins one pixel further down and right.

The variables have no scope of the network: `conv0`, `cell_stem_<i>`, `cell_<i>`,
`reduction_cell_<i>`, `aux_<i>`, `final_layer`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry
from model_fns.backbones.searched import cells
from model_fns.backbones.searched.cells import CURRENT, PREVIOUS, Cell, Term

tf1 = tf.compat.v1

NORMAL_CELL = Cell(
    sums=(
        (Term('separable', 5, CURRENT), Term('separable', 3, PREVIOUS)),
        (Term('separable', 5, PREVIOUS), Term('separable', 3, PREVIOUS)),
        (Term('avg_pool', 3, CURRENT), Term('identity', 1, PREVIOUS)),
        (Term('avg_pool', 3, PREVIOUS), Term('avg_pool', 3, PREVIOUS)),
        (Term('separable', 3, CURRENT), Term('identity', 1, CURRENT)),
    ),
    # All but the current state: slim's used_hiddenstates, though sums read the previous one too.
    outputs=(1, 2, 3, 4, 5, 6),
)

REDUCTION_CELL = Cell(
    sums=(
        (Term('separable', 5, CURRENT), Term('separable', 7, PREVIOUS)),
        (Term('max_pool', 3, CURRENT), Term('separable', 7, PREVIOUS)),
        (Term('avg_pool', 3, CURRENT), Term('separable', 5, PREVIOUS)),
        (Term('identity', 1, 3), Term('avg_pool', 3, 2)),
        (Term('separable', 3, 2), Term('max_pool', 3, CURRENT)),
    ),
    outputs=(3, 4, 5, 6),
)

HONORS = (
    'dropout_keep_prob',
    'weight_decay',
    'batch_norm_decay',
    'batch_norm_epsilon',
    'drop_path_keep_prob',
    'drop_path_steps',
)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A network of cells.

    Attributes:
        cells: how many normal cells there are behind the stem; two reductions divide them.
        channels: of a state of the first of them.
        stem_channels: of the convolution before all cells.
        strided_stem: whether that convolution and two more cells stride, for large images.
        normal: the cell.
        reduction: the cell that reduces; None: the first normal cell of a section strides.
        skips_reduction: whether a normal cell behind a reduction has, as its previous map, that of
            the reduction; else the reduction's input.
        keep_prob: see `cells.DropPath`.
        steps: see `cells.DropPath`.
        dropout_keep_prob: of the features before the logits.
        weight_decay: factor of the L2 regularizer.
        batch_norm: decay and epsilon.
        image_size: in pixels.
        second_stage: the cell that the second stage of a detector begins with; None: there is no
            such detector.
    """

    cells: int
    channels: int
    stem_channels: int
    strided_stem: bool = True
    normal: Cell = NORMAL_CELL
    reduction: Optional[Cell] = REDUCTION_CELL
    skips_reduction: bool = False
    keep_prob: float = 1.0
    steps: int = 250000
    dropout_keep_prob: float = 0.5
    weight_decay: float = 4e-5
    batch_norm: Tuple[float, float] = (0.9997, 1e-3)
    image_size: int = 224
    second_stage: Optional[int] = None

    @property
    def reductions(self) -> Tuple[int, int]:
        """The normal cells that the sections behind the reductions begin with."""
        # slim's calc_reduction_layers, for its two reductions.
        return self.cells // 3, 2 * self.cells // 3

    @property
    def auxiliary_cell(self) -> int:
        """The normal cell that the auxiliary head is put on."""
        return self.reductions[1] - 1

    @property
    def last_end_point(self) -> str:
        """The end point of the last cell."""
        return f'Cell_{self.cells - 1}'


ARCHITECTURES: Dict[str, Architecture] = {
    'nasnet_cifar': Architecture(
        cells=18,
        channels=32,
        stem_channels=96,
        strided_stem=False,
        keep_prob=0.6,
        steps=937500,
        dropout_keep_prob=1.0,
        weight_decay=5e-4,
        batch_norm=(0.9, 1e-5),
        image_size=32,
    ),
    'nasnet_mobile': Architecture(cells=12, channels=44, stem_channels=32),
    'nasnet_large': Architecture(
        cells=18,
        channels=168,
        stem_channels=96,
        skips_reduction=True,
        keep_prob=0.7,
        weight_decay=5e-5,
        image_size=331,
        second_stage=12,
    ),
}


@dataclasses.dataclass(frozen=True)
class Step:
    """A cell of a network.

    Attributes:
        scope: its variable scope.
        end_point: the name of its output; None: it has none.
        cell: its operations.
        channels: of its states.
        stride: its own.
        previous: the map that is its previous one, counted from the stem's convolution, 0, over
            the outputs of the cells; None: its current one.
        halves_previous: whether that is twice as large as the current one.
    """

    scope: str
    end_point: Optional[str]
    cell: Cell
    channels: int
    stride: int
    previous: Optional[int]
    halves_previous: bool


def plan(architecture: Architecture) -> Tuple[Step, ...]:
    """Return the cells of a network in order; the input of step i is map i, the one before it."""
    steps: List[Step] = []
    strides = [2 if architecture.strided_stem else 1]

    def add(
        scope: str, end_point: Optional[str], cell: Cell, scale: float, stride: int, previous: int
    ) -> None:
        has_previous = previous >= 0
        halves = has_previous and strides[previous] < strides[-1]
        # Cut: 54 channels of PNASNet mobile become 13 in the first stem cell.
        channels = int(architecture.channels * scale)
        known = previous if has_previous else None
        steps.append(Step(scope, end_point, cell, channels, stride, known, halves))
        strides.append(strides[-1] * stride)

    reduction = architecture.reduction or architecture.normal
    for index in range(2 if architecture.strided_stem else 0):
        end_point = 'Stem' if index else None
        # A quarter and a half of the channels: each stem cell doubles them, as reductions do.
        add(f'cell_stem_{index}', end_point, reduction, 2.0 ** (index - 2), 2, len(steps) - 1)
    scale = 1.0
    for index in range(architecture.cells):
        stride, previous = 1, len(steps) - 1
        if index in architecture.reductions:
            scale *= 2.0
            stride = 2
            if architecture.reduction is not None:
                number = architecture.reductions.index(index)
                scope = f'reduction_cell_{number}'
                add(scope, scope.title(), reduction, scale, stride, previous)
                stride = 1
                # slim's skip_reduction_layer_input, which its large network sets.
                previous = previous if architecture.skips_reduction else len(steps) - 1
        add(f'cell_{index}', f'Cell_{index}', architecture.normal, scale, stride, previous)
    return tuple(steps)


def nasnet_style(
    is_training: bool, options: registry.Options, architecture: Architecture
) -> layers.LayerStyle:
    """Return the style as published: depthwise weights are regularized too."""
    decay, epsilon = architecture.batch_norm
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.Initializer('truncated_normal', 2.0, fan='out'),
        regularizer=layers.l2(options.get('weight_decay', architecture.weight_decay)),
        regularize_depthwise=True,
        batch_norm=layers.BatchNorm(
            decay=options.get('batch_norm_decay', decay),
            epsilon=options.get('batch_norm_epsilon', epsilon),
            scale=True,
        ),
    )


def nasnet_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    architecture: Architecture,
) -> registry.EndPoints:
    """Return the feature maps of a network of cells.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1]; sizes may be unknown.
        style: of all layers.
        options: `final_endpoint` and those of drop path count.
        architecture: which network.

    Returns:
        `Stem`, `Cell_<i>` and `Reduction_Cell_<i>`, [batch, height', width', channels'], none of
        them activated.
    """
    if architecture.strided_stem:
        stem = cells.conv(
            images,
            architecture.stem_channels,
            3,
            style,
            'conv0',
            'conv0_bn',
            stride=2,
            padding='VALID',
        )
        end_points = {}
    else:
        stem = cells.conv(images, architecture.stem_channels, 3, style, 'l1_stem_3x3', 'l1_stem_bn')
        end_points = {'Stem': stem}
    return {**end_points, **_run(architecture, [stem], style, options)}


def nasnet(
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
    architecture: Architecture,
) -> registry.EndPoints:
    """Return the classifier: the mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: those of `HONORS` and `final_endpoint` count.
        architecture: which network.

    Returns:
        The feature maps, `global_pool`, `Logits` and `Predictions` by name; in training `AuxLogits`
        too, which the published networks leave out otherwise, variables included.
    """
    end_points = nasnet_features(images, style, options, architecture)
    # slim's variables differ too: 1,138 of nasnet_mobile in training, 1,126 else.
    if style.is_training:
        index = architecture.auxiliary_cell
        with tf1.variable_scope(f'aux_{index}/aux_logits'):
            end_points[registry.AUXILIARY_LOGITS] = _auxiliary_logits(
                end_points[f'Cell_{index}'], num_classes, style
            )
    with tf1.variable_scope('final_layer'):
        active = style.activation(end_points[architecture.last_end_point])
        # Without the sides of 1 that other networks keep: FC has rank 2, as published.
        pooled = end_points['global_pool'] = tf.reduce_mean(active, [1, 2])
        keep_prob = options.get('dropout_keep_prob', architecture.dropout_keep_prob)
        dropped = layers.dropout(pooled, keep_prob, style.is_training, 'dropout')
        logits = layers.fully_connected(dropped, num_classes, style.linear(), 'FC')
    end_points[registry.LOGITS] = logits
    end_points['Predictions'] = tf.nn.softmax(logits)
    return end_points


def first_stage(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    architecture: Architecture,
) -> tf.Tensor:
    """Return the last two maps before the second stage, side by side.

    Returns:
        [batch, height, width, 2 * channels].
    """
    begin = architecture.second_stage
    options = options.but(final_endpoint=f'Cell_{begin - 1}')
    end_points = nasnet_features(images, style, options, architecture)
    maps = [end_points[f'Cell_{begin - 2}'], end_points[f'Cell_{begin - 1}']]
    return layers.concat(maps, style)


def second_stage(
    inputs: tf.Tensor, style: layers.LayerStyle, architecture: Architecture
) -> tf.Tensor:
    """Build the remaining cells, on crops of what `first_stage` gives; activated.

    Returns:
        [boxes, height', width', channels'].
    """
    steps = plan(architecture)
    last = [step.end_point for step in steps].index(f'Cell_{architecture.second_stage - 1}')
    # `first_stage` gives two maps side by side because a cell reads two; crops keep both.
    maps: List[Optional[tf.Tensor]] = [None] * last + tf.split(inputs, 2, axis=3)
    end_points = _run(architecture, maps, style, registry.Options())
    return style.activation(end_points[architecture.last_end_point])


def _run(
    architecture: Architecture,
    maps: Sequence[Optional[tf.Tensor]],
    style: layers.LayerStyle,
    options: registry.Options,
) -> registry.EndPoints:
    """Build the cells behind the given maps, up to the options' final end point.

    Args:
        architecture: which network.
        maps: the stem's convolution and the outputs of the first cells; None where no later cell
            needs it.
        style: of all layers.
        options: `final_endpoint` and those of drop path count.

    Raises:
        ValueError: there is no such final end point.
    """
    steps = plan(architecture)
    drop_path = cells.DropPath.published(
        options, architecture.keep_prob, architecture.steps, len(steps)
    )
    end_points: registry.EndPoints = {}
    maps = list(maps)
    for number in range(len(maps) - 1, len(steps)):
        step = steps[number]
        place = cells.Place(number, step.channels, step.stride)
        with tf1.variable_scope(step.scope):
            previous = maps[number] if step.previous is None else maps[step.previous]
            if step.previous is not None:
                previous = _matched(previous, step, style)
            maps.append(
                cells.build_cell(step.cell, maps[number], previous, place, style, drop_path)
            )
        if step.end_point is not None:
            end_points[step.end_point] = maps[-1]
        if options.final_endpoint is not None and options.final_endpoint == step.end_point:
            return end_points
    if options.final_endpoint is not None:
        raise ValueError(f'No end point {options.final_endpoint!r}; there are {list(end_points)}.')
    return end_points


def _matched(previous: tf.Tensor, step: Step, style: layers.LayerStyle) -> tf.Tensor:
    """Return the previous map at the current one's size, with the cell's channels."""
    if step.halves_previous:
        return _halved(style.activation(previous), step.channels, style)
    if previous.shape[-1] == step.channels:
        return previous
    active = style.activation(previous)
    return cells.conv(active, step.channels, 1, style, 'prev_1x1', 'prev_bn')


def _halved(active: tf.Tensor, channels: int, style: layers.LayerStyle) -> tf.Tensor:
    # slim's factorized_reduction. Padding at the end gives odd sizes as many pixels as the first.
    shifted = tf.pad(active, [[0, 0], [0, 1], [0, 1], [0, 0]])[:, 1::2, 1::2]
    first = channels // 2
    paths = [
        cells.conv(values, count, 1, style, f'path{index}_conv', None)
        # pnasnet_mobile halves to 27 channels: the second path has one more, as in slim.
        for index, values, count in (
            (1, active[:, ::2, ::2], first),
            (2, shifted, channels - first),
        )
    ]
    return cells.norm(layers.concat(paths, style), style, 'final_path_bn')


def _auxiliary_logits(features: tf.Tensor, num_classes: int, style: layers.LayerStyle) -> tf.Tensor:
    """Build the auxiliary head; its last convolution covers the whole map, of static size."""
    window = [min(side, 5) for side in features.shape[1:3]]
    pooled = tf.nn.avg_pool2d(style.activation(features), window, 3, 'VALID')
    projected = style.activation(cells.conv(pooled, 128, 1, style, 'proj', 'aux_bn0'))
    kernel = tuple(projected.shape[1:3])
    whole = cells.conv(projected, 768, kernel, style, 'Conv', 'aux_bn1', padding='VALID')
    flat = tf.squeeze(style.activation(whole), [1, 2])
    return layers.fully_connected(flat, num_classes, style.linear(), 'FC')


def feature_maps(architecture: Architecture) -> Mapping[int, str]:
    """Return the last end point of each stride."""
    maps, stride = {}, 2 if architecture.strided_stem else 1
    for step in plan(architecture):
        stride *= step.stride
        if step.end_point is not None:
            maps[stride] = step.end_point
    return maps


def describe(name: str, architecture: Architecture) -> registry.Network:
    """Describe a network of cells for the registry."""
    has_stages = architecture.second_stage is not None

    def bound(function):
        return functools.partial(function, architecture=architecture)

    return registry.Network(
        name=name,
        scope='',
        features=bound(nasnet_features),
        style=bound(nasnet_style),
        feature_maps=feature_maps(architecture),
        min_size=32 if architecture.strided_stem else 8,
        honors=HONORS,
        first_stage=bound(first_stage) if has_stages else None,
        second_stage=bound(second_stage) if has_stages else None,
        build=bound(nasnet),
        logits_scopes=('final_layer/FC', f'aux_{architecture.auxiliary_cell}/aux_logits/FC'),
        image_size=architecture.image_size,
        preprocessing='cifarnet' if name == 'nasnet_cifar' else 'inception',
    )


for _name, _architecture in ARCHITECTURES.items():
    registry.add(describe(_name, _architecture))
