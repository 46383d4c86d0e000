"""Generations: differences between the detectors of TensorFlow 1 and TensorFlow 2.

Both were published under the same names with the same variables. Their types differ in a suffix:
`ssd_mobilenet_v2_fpn` and `ssd_mobilenet_v2_fpn_keras`. With the same weights their outputs differ,
so neither accepts checkpoints of the other. Each network has one description, which reads the
differences from here.
"""

from __future__ import annotations

import dataclasses
from typing import Collection

from model_fns import layers

# Suffix of types of the second generation.
SUFFIX = '_keras'
# Suffix before that, of two-stage types with a feature pyramid.
_PYRAMID = '_fpn'


@dataclasses.dataclass(frozen=True)
class Generation:
    """Details of the computation of a generation of published detectors.

    Attributes:
        scope: prefix of the scopes of feature extractors, which tells the generation of a
            checkpoint.
        strides_first: True: residual blocks stride in the first convolution of their first unit;
            False: in the 3x3 convolution of the last.
        overrides_sums: True: overriding hyperparameters also change the backbone's batch norm, and
            the activation of the sums of its residual units; False: these stay.
        passes_smoothed: True: a pyramid enlarges its smoothed maps; False: the sums before
            smoothing.
        bare_pointwise: True: regularizer and initializer of the config only apply to the depthwise
            weights of a separable convolution, and not at all to a separable head, unless the
            config says otherwise; False: they apply to all weights.
        narrows_lite: True: the last layers of MobileNet V2 have fewer channels with a pyramid of
            separable convolutions (those of V1 always have).
        fuses_stacked: True: a separable convolution of stacked maps is one layer; False: batch norm
            and activation are between its parts.
        residual_decay: factor of the L2 regularizer in the default style of residual networks.
        regularizes_depthwise: True: the default style of MobileNets regularizes depthwise weights.
    """

    scope: str = ''
    strides_first: bool = False
    overrides_sums: bool = False
    passes_smoothed: bool = False
    bare_pointwise: bool = False
    narrows_lite: bool = True
    fuses_stacked: bool = False
    residual_decay: float = 1e-4
    regularizes_depthwise: bool = False

    def separable(self, style: layers.LayerStyle, asked: bool = False) -> layers.LayerStyle:
        """Return a config's style for separable convolutions that are added to a backbone.

        Args:
            style: style of all layers.
            asked: True: the config requests the style for pointwise weights too.
        """
        if not self.bare_pointwise or asked:
            return style
        return style.but(pointwise_initializer=layers.XAVIER, regularize_pointwise=False)

    def separable_head(self, style: layers.LayerStyle, asked: bool = False) -> layers.LayerStyle:
        """Return a config's style for separable convolutions of a head."""
        if not self.bare_pointwise or asked:
            return style
        return style.but(initializer=layers.XAVIER, regularizer=None)


FIRST = Generation()
SECOND = Generation(
    scope='Keras',
    strides_first=True,
    # With RELU_6, as the published RetinaNets have it, outputs of blocks are capped at 6.
    overrides_sums=True,
    # Recorded: with equal weights level 3 of ssd_mobilenet_v1_fpn has a mean of 0.892 in one
    # generation and of 1.157 in the other. Levels 4 to 7 agree to 1e-7.
    passes_smoothed=True,
    # Recorded by the gradient of the regularization losses. The published hyperparameters name no
    # argument for the pointwise kernel of Keras's SeparableConv2D.
    bare_pointwise=True,
    # A fault of the published code that its checkpoints have: see `SsdMobileNetV2Fpn`.
    narrows_lite=False,
    fuses_stacked=True,
    # Keras's l2(1e-4) is 1e-4 * sum(w^2). TF-Slim's and this project's have a factor of 1/2.
    residual_decay=2e-4,
    regularizes_depthwise=True,
)


def find_generation(name: str) -> Generation:
    """Return the generation of a type of feature extractor."""
    return SECOND if name.endswith(SUFFIX) else FIRST


def counterpart(name: str) -> str:
    """Return the type of the other generation whose variables have the same shapes."""
    return name[: -len(SUFFIX)] if name.endswith(SUFFIX) else name + SUFFIX


def with_pyramid(name: str) -> str:
    """Return the two-stage type with a feature pyramid on the network of another type."""
    return f'{name}{_PYRAMID}{SUFFIX}'


def has_pyramid(name: str) -> bool:
    """Check whether a two-stage type has a feature pyramid; the first generation has none."""
    return name.endswith(with_pyramid(''))


def foreign(
    names: Collection[str],
    scope: str,
    type_name: str,
    residual: str = '',
    has_twin: bool = True,
) -> str:
    """Describe why a checkpoint is of the other generation; empty if it is not.

    Args:
        names: names of the checkpoint's variables.
        scope: scope of a feature extractor in the first generation.
        type_name: type of the model's feature extractor.
        residual: scope of a residual backbone, or empty. Only residual backbones differ between
            generations, so the second cannot use their TensorFlow 1 classifiers.
        has_twin: True: the other generation has the type too.
    """
    own = find_generation(type_name)
    other, number = (SECOND, 2) if own is FIRST else (FIRST, 1)
    theirs = [f'{other.scope}{scope}/']
    if residual and own is SECOND:
        theirs.append(f'{residual}/')
    prefix = next(
        (start for start in theirs if any(name.startswith(start) for name in names)), None
    )
    if prefix is None or any(name.startswith(f'{own.scope}{scope}/') for name in names):
        return ''
    other_type = f', or the type {counterpart(type_name)}' if has_twin else ''
    return (
        f'has the weights of a network of TensorFlow {number} ({prefix}...), and {type_name} '
        f'computes something else with them; expected a checkpoint of {type_name}{other_type}.'
    )
