"""Families of networks, and the mapping of their tensors to variables.

In a file, a module has a `weight` and a `bias`, a batch norm also a `running_mean` and a
`running_var`, and a block with layer norms a `gamma` beside its modules. A family gives the scope
of each module. The axes of the tensors follow from their shapes.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, Iterator, Mapping, Optional, Tuple

import numpy as np

Shape = Tuple[int, ...]
# Modules -> scopes of variables. A module is given with the shape of its weight.
Scopes = Callable[[Mapping[str, Shape]], Mapping[str, str]]

_BATCH_NORM = {
    'weight': 'gamma',
    'bias': 'beta',
    'running_mean': 'moving_mean',
    'running_var': 'moving_variance',
}
# A block has a `gamma` of its own, without weights.
_LAYER_NORM = {'weight': 'gamma', 'bias': 'beta', 'gamma': 'gamma'}
# A counter of training steps in each batch norm.
_COUNTER = '.num_batches_tracked'


@dataclasses.dataclass(frozen=True)
class Family:
    """Family of networks whose files have names of one kind.

    Attributes:
        name: for messages.
        signature: names of tensors that together only these files have.
        networks: our network by the name of timm's model.
        tags: the tags of each model that have the paddings and the normalization of ours.
        scopes: the scope of each module; a module without one is not of the family.
        has_gamma: whether our batch norms have a factor. Otherwise it goes into the convolution.
        convolutional_head: whether our linear layers are 1x1 convolutions.
        layer_norms: whether its norms have no statistics.
        origin: package that trained the weights.
    """

    name: str
    signature: Tuple[str, ...]
    networks: Mapping[str, str]
    tags: Mapping[str, Tuple[str, ...]]
    scopes: Scopes
    has_gamma: bool = True
    convolutional_head: bool = False
    layer_norms: bool = False
    origin: str = 'timm'

    def map_tensors(self, shapes: Mapping[str, Shape]) -> Dict[str, Tensor]:
        """Return the tensors of a file by the names of our variables.

        Args:
            shapes: shapes of all tensors of the file by name.

        Raises:
            UnknownNameError: a tensor is not of the family; its argument is the name.
        """
        return map_tensors(self, shapes)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Variable in terms of a file.

    Attributes:
        source: the name of the tensor in the file.
        axes: the order of its axes in the variable.
        shape: the shape of the variable.
        factor: the name of a tensor [output channels] to multiply with; None for none.
        convert: makes the variable from the tensor in the order of `axes`; None: a new shape only.
    """

    source: str
    axes: Tuple[int, ...]
    shape: Shape
    factor: Optional[str] = None
    convert: Optional[Callable[[np.ndarray], np.ndarray]] = None


class UnknownNameError(Exception):
    """Error for a tensor that is not of the family."""


def map_tensors(family: Family, shapes: Mapping[str, Shape]) -> Dict[str, Tensor]:
    """Return the tensors of a file by the names of our variables.

    Args:
        family: the family of the file.
        shapes: the shapes of all tensors of the file by name.

    Raises:
        UnknownNameError: a tensor is not of the family; its argument is the name.
    """
    modules = {
        name[: -len('.weight')]: shape for name, shape in shapes.items() if name.endswith('.weight')
    }
    scopes = family.scopes(modules)
    mapped: Dict[str, Tensor] = {}
    for name in shapes:
        module = name.rpartition('.')[0]
        # Only torch reads it, for batch norms without a momentum.
        if name.endswith(_COUNTER):
            continue
        if module not in scopes:
            raise UnknownNameError(name)
        if f'{module}.running_mean' in shapes:
            found = _map_batch_norm(family, name, shapes[name])
        else:
            found = _map_layer(family, name, shapes)
        for leaf, tensor in found:
            mapped[f'{scopes[module]}/{leaf}'] = tensor
    return mapped


def _map_batch_norm(family: Family, name: str, shape: Shape) -> Iterator[Tuple[str, Tensor]]:
    module, _, last = name.rpartition('.')
    if last not in _BATCH_NORM:
        raise UnknownNameError(name)
    # Folded into the convolution, not dropped: a port may have trained it.
    if last == 'weight' and not family.has_gamma:
        return
    # g * (y - m) / s + b = (g * y - g * m) / s + b: the mean has the factor too.
    folded = last == 'running_mean' and not family.has_gamma
    yield _BATCH_NORM[last], Tensor(name, (0,), shape, f'{module}.weight' if folded else None)


def _map_layer(
    family: Family, name: str, shapes: Mapping[str, Shape]
) -> Iterator[Tuple[str, Tensor]]:
    module, _, last = name.rpartition('.')
    shape = shapes[name]
    is_norm = family.layer_norms and len(shapes.get(f'{module}.weight', shape)) == 1
    if is_norm and last in _LAYER_NORM:
        yield _LAYER_NORM[last], Tensor(name, (0,), shape)
    elif last == 'bias':
        yield 'biases', Tensor(name, (0,), shape)
    elif len(shape) == 2:
        inputs = (1, 1, shape[1]) if family.convolutional_head else (shape[1],)
        yield 'weights', Tensor(name, (1, 0), (*inputs, shape[0]))
    elif last != 'weight' or len(shape) != 4:
        raise UnknownNameError(name)
    elif shape[1] == 1:  # Of one input channel: no other convolution of these networks has one.
        axes = (2, 3, 0, 1)
        yield 'depthwise_weights', Tensor(name, axes, tuple(shape[axis] for axis in axes))
    else:
        axes = (2, 3, 1, 0)
        leaf = 'pointwise_weights' if module.endswith('.pointwise_conv2d') else 'weights'
        norm = f'{module.rpartition(".")[0]}.bn.weight'
        folded = not family.has_gamma and norm in shapes
        new_shape = tuple(shape[axis] for axis in axes)
        yield leaf, Tensor(name, axes, new_shape, norm if folded else None)
