"""Files of weights of small networks, drawn from the names and shapes of their tensors.

The logits in the tests were computed by timm and torchvision with these weights and images:

    model.load_state_dict({name: torch.tensor(value) for name, value in draw(shapes).items()})
    model.eval()(torch.tensor(draw_images(height, width)).permute(0, 3, 1, 2))

All tensors of the models have to be there, and no others.
"""

from __future__ import annotations

import math
import zlib
from typing import Dict, Iterator, Mapping, Sequence, Tuple

import numpy as np

Shapes = Mapping[str, Tuple[int, ...]]
NamedShape = Tuple[str, Tuple[int, ...]]


def draw(shapes: Shapes) -> Dict[str, np.ndarray]:
    """Return a value for each tensor, which depends on its name and shape only."""
    return {name: _draw(name, shape) for name, shape in shapes.items()}


def draw_images(height: int, width: int) -> np.ndarray:
    """Return two normalized images, float32 [2, height, width, 3]."""
    images = np.random.RandomState(7).normal(size=[2, height, width, 3])
    return (images * np.reshape([1.0, 3.0], [2, 1, 1, 1])).astype(np.float32)


def norm(name: str, channels: int) -> Iterator[NamedShape]:
    """List the tensors of a batch norm."""
    for leaf in ('weight', 'bias', 'running_mean', 'running_var'):
        yield f'{name}.{leaf}', (channels,)
    yield f'{name}.num_batches_tracked', ()


def layer(name: str, shape: Sequence[int]) -> Iterator[NamedShape]:
    """List the tensors of a layer with biases."""
    yield f'{name}.weight', tuple(shape)
    yield f'{name}.bias', (shape[0],)


def _draw(name: str, shape: Tuple[int, ...]) -> np.ndarray:
    if not shape:  # a counter
        return np.zeros(shape, np.int64)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    if len(shape) > 1:
        value = random.normal(size=shape) * math.sqrt(1.0 / math.prod(shape[1:]))
    elif name.endswith(('weight', 'running_var', 'gamma')):
        value = random.uniform(0.5, 1.5, shape)
    else:
        value = random.normal(size=shape) * 0.1
    return value.astype(np.float32)
