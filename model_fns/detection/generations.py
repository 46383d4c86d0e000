"""Where the detectors of TensorFlow 2 compute something else than those of TensorFlow 1.

Both were published under the same names with the same variables, and their types differ in an
ending: `ssd_mobilenet_v2_fpn` and `ssd_mobilenet_v2_fpn_keras`. With the same weights they give
other outputs, so that neither takes the other's checkpoints. The networks here are one description
each, and read what differs from this one.
"""

from __future__ import annotations

import dataclasses
from typing import Collection

from model_fns import layers

# What types of the second generation end with.
SUFFIX = '_keras'
# Before that, what types of two stages end with that read the levels of a pyramid.
_PYRAMID = '_fpn'


@dataclasses.dataclass(frozen=True)
class Generation:
    """How a generation of published detectors computes.

    Attributes:
        scope: what stands before the names of the scopes of feature extractors: it tells whose
            weights a checkpoint has.
        strides_first: residual blocks stride in the first convolution of their first unit; else in
            the 3x3 convolution of the last.
        overrides_sums: hyperparameters that override a backbone's hold for its batch norm, and
            their activation for the sums of its residual units; else those are the backbone's own.
        passes_smoothed: a pyramid hands its smoothed maps down; else the sums before smoothing.
        bare_pointwise: of a separable convolution only the depthwise weights have the regularizer
            and initializer of the config, and of a separable head not even those, unless
            the config asks for them; else all have them.
        narrows_lite: the last layers of a backbone have fewer channels below a pyramid of
            separable convolutions, of MobileNet V2 (of V1 always).
        fuses_stacked: a separable convolution of the maps that are stacked on a backbone is one
            layer; else batch norm and activation are between its parts.
        residual_decay: factor of the L2 regularizer in the residual networks' own style.
        regularizes_depthwise: the MobileNets' own style regularizes depthwise weights.
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
        """A config's style for the separable convolutions that are added to a backbone.

        Args:
            style: of all layers.
            asked: whether the config asks for the same of pointwise weights.
        """
        if not self.bare_pointwise or asked:
            return style
        return style.but(pointwise_initializer=layers.XAVIER, regularize_pointwise=False)

    def separable_head(self, style: layers.LayerStyle, asked: bool = False) -> layers.LayerStyle:
        """The same for the separable convolutions that predict."""
        if not self.bare_pointwise or asked:
            return style
        return style.but(initializer=layers.XAVIER, regularizer=None)


FIRST = Generation()
SECOND = Generation(
    scope='Keras',
    strides_first=True,
    overrides_sums=True,
    passes_smoothed=True,
    bare_pointwise=True,
    narrows_lite=False,
    fuses_stacked=True,
    residual_decay=2e-4,
    regularizes_depthwise=True,
)


def find_generation(name: str) -> Generation:
    """The generation of a type of feature extractor."""
    return SECOND if name.endswith(SUFFIX) else FIRST


def counterpart(name: str) -> str:
    """The type of the other generation whose variables have the same shapes."""
    return name[: -len(SUFFIX)] if name.endswith(SUFFIX) else name + SUFFIX


def with_pyramid(name: str) -> str:
    """The type of two stages that has a feature pyramid on the network of another."""
    return f'{name}{_PYRAMID}{SUFFIX}'


def has_pyramid(name: str) -> bool:
    """Whether a type of two stages has a feature pyramid; the first generation has none."""
    return name.endswith(with_pyramid(''))


def foreign(
    names: Collection[str],
    scope: str,
    type_name: str,
    residual: str = '',
    has_twin: bool = True,
) -> str:
    """What is to be said of a checkpoint of the other generation; see `Task.foreign_checkpoint`.

    Args:
        names: of the checkpoint's variables.
        scope: of a feature extractor, as the first generation has it.
        type_name: of the model's feature extractor.
        residual: the scope of a residual backbone, which alone differs within: a classifier of
            TensorFlow 1 is none of the second generation's then.
        has_twin: whether the other generation has the type too.
    """
    own = find_generation(type_name)
    other, number = (SECOND, 2) if own is FIRST else (FIRST, 1)
    theirs = [f'{other.scope}{scope}/']
    if residual and own is SECOND:
        theirs.append(f'{residual}/')
    found = next((one for one in theirs if any(name.startswith(one) for name in names)), None)
    if found is None or any(name.startswith(f'{own.scope}{scope}/') for name in names):
        return ''
    other_type = f', or the type {counterpart(type_name)}' if has_twin else ''
    return (
        f'has the weights of a network of TensorFlow {number} ({found}...), and {type_name} '
        f'computes something else with them; expected a checkpoint of {type_name}{other_type}.'
    )
