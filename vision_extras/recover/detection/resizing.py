"""Recognition of an image resizer by its behavior."""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np
import tensorflow as tf

from protos import image_resizer_pb2
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.running import Runner
from vision_extras.recover.facts import Proposal

# Sizes of images that tell a fixed size from a rule about the aspect ratio.
_SMALL = (64, 64)
_LONG = (48, 480)
_WIDE = (64, 96)
_METHODS = {
    'ResizeNearestNeighbor': image_resizer_pb2.NEAREST_NEIGHBOR,
    'ResizeBicubic': image_resizer_pb2.BICUBIC,
    'ResizeArea': image_resizer_pb2.AREA,
}


def recognize(
    runner: Runner, graph: Graph, tensor: str, where: str, proposal: Proposal
) -> Optional[image_resizer_pb2.ImageResizer]:
    """Find the resizer of a model that takes pixels.

    Args:
        runner: of the artifact.
        graph: of the artifact.
        tensor: of the network's input.
        where: path of the resizer in the config.
        proposal: learns the resizer.

    Returns:
        The resizer; None where its rule is not known.
    """
    sizes: List[Tuple[Tuple[int, int], Tuple[int, int]]] = []
    for size in map(runner.accepted_size, (_SMALL, _WIDE, _LONG)):
        result = _resized(runner, tensor, size)
        if result is None:
            continue
        sizes.append((size, result))
    if not sizes:
        return None
    evidence = ', '.join(f'{h}x{w} becomes {rh}x{rw}' for (h, w), (rh, rw) in sizes)
    evidence = f'behavior: an image of {evidence}'
    results = [result for _, result in sizes]
    config = image_resizer_pb2.ImageResizer()
    fixed, keeping = config.fixed_shape_resizer, config.keep_aspect_ratio_resizer
    has_one_size = runner.accepted_size(_SMALL) == runner.accepted_size(_LONG)
    is_fixed = has_one_size or (len(set(results)) == 1 and not _pads(runner, tensor))
    if has_one_size:
        proposal.unknown.append(
            'Its input has one size, so it does not tell how images of other sizes are resized.'
        )
    if is_fixed:
        fixed.height, fixed.width = results[0]
    elif all(size == result for size, result in sizes):
        config.identity_resizer.SetInParent()
        proposal.learn(where, 'identity_resizer', evidence)
        return config
    elif len(set(results)) == 1:
        keeping.max_dimension, keeping.min_dimension = results[0][0], _least_padded(runner, tensor)
        keeping.pad_to_max_dimension = True
    else:
        keeping.min_dimension, keeping.max_dimension = results[0][0], max(results[-1])
    kind = fixed if is_fixed else keeping
    method = next((_METHODS[op] for op in _METHODS if graph.find_ops(op)), None)
    if method is not None and not has_one_size and not graph.find_ops('ResizeBilinear'):
        kind.resize_method = method
    if _channels(runner, tensor) == 1:
        kind.convert_to_grayscale = True
    proposal.learn(where, ' '.join(str(config).split()), evidence)
    return config


def _resized(runner: Runner, tensor: str, size: Tuple[int, int]) -> Optional[Tuple[int, int]]:
    value = _run(runner, tensor, np.full([*size, 3], 200, np.uint8))
    return None if value is None else (value.shape[1], value.shape[2])


def _channels(runner: Runner, tensor: str) -> int:
    value = _run(runner, tensor, np.zeros([*runner.accepted_size(_SMALL), 3], np.uint8))
    return 3 if value is None else value.shape[-1]


def _run(runner: Runner, tensor: str, image: np.ndarray) -> Optional[np.ndarray]:
    try:
        value = runner.run({'input': tensor}, image)['input']
    except tf.errors.OpError:
        return None
    return value if value.ndim == 4 else None


def _content(runner: Runner, tensor: str, size: Tuple[int, int]) -> Tuple[int, int]:
    """Return the size of the content of a padded input: where two images differ."""
    values = [_run(runner, tensor, np.full([*size, 3], color, np.uint8)) for color in (60, 200)]
    if values[0] is None or values[1] is None:
        return 0, 0
    differs = np.abs(values[0] - values[1]).max(axis=(0, 3)) > 1e-3
    return int(differs.any(axis=1).sum()), int(differs.any(axis=0).sum())


def _pads(runner: Runner, tensor: str) -> bool:
    long = runner.accepted_size(_LONG)
    height, width = _content(runner, tensor, long)
    return long == _LONG and height * long[1] < 2 * width * long[0]


def _least_padded(runner: Runner, tensor: str) -> int:
    """Return the size of the shorter side of a square image, without padding."""
    return min(_content(runner, tensor, _SMALL))
