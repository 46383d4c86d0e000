"""Recognition of an image resizer by its behavior."""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np
import tensorflow as tf

from protos import image_resizer_pb2
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.running import Runner
from vision_extras.recover.facts import Proposal, Refusal

# Sizes of images that tell a fixed size from a rule about the aspect ratio.
_SMALL = (64, 64)
_LONG = (48, 480)
_WIDE = (64, 96)
_METHODS = {
    'ResizeNearestNeighbor': image_resizer_pb2.NEAREST_NEIGHBOR,
    'ResizeBicubic': image_resizer_pb2.BICUBIC,
    'ResizeArea': image_resizer_pb2.AREA,
}
_NO_INPUT = 'its network has no input of images that could be computed'


def network_input(graph: Graph, runner: Runner, needs_pixels: bool = False) -> str:
    """Return the tensor that the first layer of a network takes.

    Args:
        graph: of the artifact.
        runner: of the artifact.
        needs_pixels: True: the artifact must take pixels.

    Raises:
        Refusal: there is none.
    """
    tensor = first_layer_input(graph, runner.input_name)
    if needs_pixels and (tensor is None or not runner.takes_pixels):
        raise Refusal('its input is not pixels, so the size of images is not known')
    if tensor is None:
        raise Refusal(_NO_INPUT)
    return tensor


def read(runner: Runner, graph: Graph, tensor: str, where: str, proposal: Proposal) -> None:
    """Set the resizer of a model that takes pixels.

    Args:
        runner: of the artifact.
        graph: of the artifact.
        tensor: of the network's input.
        where: path of the resizer in the config.
        proposal: changed in place.

    Raises:
        Refusal: its rule is not known.
    """
    sizes: List[Tuple[Tuple[int, int], Tuple[int, int]]] = []
    for size in map(runner.accepted_size, (_SMALL, _WIDE, _LONG)):
        value = _run(runner, tensor, size, 200)
        if value is not None:
            sizes.append((size, (value.shape[1], value.shape[2])))
    if not sizes:
        raise Refusal(_NO_INPUT)
    shown = ', '.join(f'{h}x{w} becomes {rh}x{rw}' for (h, w), (rh, rw) in sizes)
    results = [result for _, result in sizes]
    config = image_resizer_pb2.ImageResizer()
    fixed, keeping = config.fixed_shape_resizer, config.keep_aspect_ratio_resizer
    has_one_size = runner.accepted_size(_SMALL) == runner.accepted_size(_LONG)
    is_fixed = has_one_size or (len(set(results)) == 1 and not _pads(runner, tensor))
    if has_one_size:
        proposal.unknown.append(
            'Its input has one size, so it does not tell how images of other sizes are resized.'
        )
    if not is_fixed and all(size == result for size, result in sizes):
        config.identity_resizer.SetInParent()
    else:
        if is_fixed:
            fixed.height, fixed.width = results[0]
        elif len(set(results)) == 1:
            # The shorter side of a square image, without padding.
            keeping.min_dimension = min(_content(runner, tensor, _SMALL))
            keeping.max_dimension, keeping.pad_to_max_dimension = results[0][0], True
        else:
            keeping.min_dimension, keeping.max_dimension = results[0][0], max(results[-1])
        kind = fixed if is_fixed else keeping
        method = next((_METHODS[op] for op in _METHODS if graph.find_ops(op)), None)
        if method is not None and not has_one_size and not graph.find_ops('ResizeBilinear'):
            kind.resize_method = method
        value = _run(runner, tensor, runner.accepted_size(_SMALL), 0)
        if value is not None and value.shape[-1] == 1:
            kind.convert_to_grayscale = True
    proposal.set(where, config, f'behavior: an image of {shown}')


def _run(runner: Runner, tensor: str, size: Tuple[int, int], color: int) -> Optional[np.ndarray]:
    """Return the network's input for an image of one color; None: it cannot be computed."""
    try:
        value = runner.run({'input': tensor}, np.full([*size, 3], color, np.uint8))['input']
    except tf.errors.OpError:
        return None
    return value if value.ndim == 4 else None


def _content(runner: Runner, tensor: str, size: Tuple[int, int]) -> Tuple[int, int]:
    """Return the size of the content of a padded input: where two images differ."""
    values = [_run(runner, tensor, size, color) for color in (60, 200)]
    if values[0] is None or values[1] is None:
        return 0, 0
    differs = np.abs(values[0] - values[1]).max(axis=(0, 3)) > 1e-3
    return int(differs.any(axis=1).sum()), int(differs.any(axis=0).sum())


def _pads(runner: Runner, tensor: str) -> bool:
    long = runner.accepted_size(_LONG)
    height, width = _content(runner, tensor, long)
    return long == _LONG and height * long[1] < 2 * width * long[0]
