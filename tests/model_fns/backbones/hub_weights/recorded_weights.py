"""Files of weights by the rule of the recorded cases in ../shared/golden/timm."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry
from model_fns.backbones.hub_weights import files
from tests import initial_values
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.backbones.hub_weights import drawn_weights

tf1 = tf.compat.v1


class FakeSlice:
    """Slice of a tensor, which knows its shape."""

    def __init__(self, shape: Sequence[int]):
        self._shape = list(shape)

    def get_shape(self):
        return self._shape


class FakeFile:
    """Open file with the methods of `safetensors.safe_open`."""

    def __init__(self, tensors: Dict[str, np.ndarray]):
        self._tensors = tensors

    def keys(self):
        return sorted(self._tensors)

    def get_slice(self, name: str):
        return FakeSlice(self._tensors[name].shape)

    def get_tensor(self, name: str):
        return self._tensors[name]


def zeros(shapes: Dict[str, Sequence[int]]) -> Dict[str, np.ndarray]:
    """Return tensors of these shapes that take no memory."""
    return {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in shapes.items()}


def recorded_case(model: str) -> Dict[str, np.ndarray]:
    """Return the recorded case of a model of timm; skips the test where there is none."""
    path = shared_folder() / 'golden' / 'timm' / f'{model}.npz'
    if not path.is_file():
        pytest.skip(f'no recorded case {path.name} in ../shared/golden/timm')
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def state(case: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Return the tensors of a case's file by the rule in the README of the cases."""
    init = recorded_backbones.weights_rule().init
    tensors = {}
    for name, shape, rule_name, rule_shape, axes, factor in zip(
        *(case[key].tolist() for key in ('timm_names', 'timm_shapes', 'rule_names')),
        *(case[key].tolist() for key in ('rule_shapes', 'rule_to_torch', 'factors')),
    ):
        value = np.ones(json.loads(rule_shape), np.float32)
        if factor != 'ones':
            value = init(rule_name, json.loads(rule_shape)) * np.float32(float(factor))
        axes = json.loads(axes) if axes else None
        tensors[name] = value.transpose(axes) if axes else value
        assert list(tensors[name].shape) == json.loads(shape)
    return tensors


@initial_values.left_out()
def logits(
    reader: files.FamilyReader,
    network: str,
    images: np.ndarray,
    options: Optional[registry.Options] = None,
    num_classes: int = 1000,
) -> Tuple[np.ndarray, Any]:
    """Return the logits of a network with the values of a reader, and the names without a value."""
    registry.get_network(network)
    built = recorded_backbones.build(
        network,
        images.shape[1:3],
        is_training=False,
        batch=len(images),
        num_classes=num_classes,
        options=options,
    )
    variables = built.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    held = reader.get_variable_to_shape_map()
    assert set(held) <= {variable.op.name for variable in variables}
    feed = {
        variable.initializer.inputs[1]: reader.get_tensor(variable.op.name)
        for variable in variables
        if variable.op.name in held
    }
    with tf1.Session(graph=built.graph) as session:
        session.run([v.initializer for v in variables if v.op.name in held], feed)
        value = session.run(built.end_points[registry.LOGITS], {built.images: images})
    return value, [v.op.name for v in variables if v.op.name not in held]


def check_drawn(
    network: str,
    tensors: Dict[str, np.ndarray],
    size: Tuple[int, int],
    expected: str,
    options: Optional[registry.Options] = None,
) -> None:
    """Check the ten logits of each of the two images of `drawn_weights`.

    Args:
        network: its name.
        tensors: of its file.
        size: height and width of the images.
        expected: the logits.
        options: of the network.
    """
    reader = files.FamilyReader('a.safetensors', FakeFile(tensors))
    images = drawn_weights.draw_images(*size)
    actual, missing = logits(reader, network, images, options, num_classes=10)
    assert not missing
    for row, values in zip(actual, np.float32(expected.split()).reshape([2, 10])):
        assert np.abs(row - values).max() <= 1e-4 * np.abs(values).max()
