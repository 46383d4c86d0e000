"""Feature extractors from a few fields of a config."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection.networks.feature_extractors import extractor
from protos import ssd_pb2

tf1 = tf.compat.v1

_HYPERPARAMS = """
    conv_hyperparams {
      regularizer { l2_regularizer { weight: 0.25 } }
      initializer { truncated_normal_initializer { stddev: 0.03 } }
      activation: RELU_6
      batch_norm { decay: 0.9 epsilon: 0.01 scale: true train: %s }
    }"""


def build(fields: str, train: str = 'true', **arguments: Any) -> extractor.FeatureExtractor:
    """Build an extractor from fields other than `conv_hyperparams`, for training by default."""
    config = text_format.Parse(fields + _HYPERPARAMS % train, ssd_pb2.SsdFeatureExtractor())
    arguments.setdefault('is_training', True)
    return extractor.build_feature_extractor(Section(config, extractor.WHERE), **arguments)


@dataclasses.dataclass(frozen=True)
class Shapes:
    """An extractor in a graph of its own.

    Attributes:
        graph: the graph.
        maps: [height, width, channels] of the feature maps.
        variables: shapes by name, without the extractor's scope.
    """

    graph: tf.Graph
    maps: List[Tuple[int, ...]]
    variables: Dict[str, Tuple[int, ...]]


def shapes_of(fields: str, size: Tuple[int, int], **arguments: Any) -> Shapes:
    """Build an extractor for images of that size, for inference by default."""
    arguments.setdefault('is_training', False)
    with tf.Graph().as_default() as graph:
        made = build(fields, **arguments)
        maps = made.extract(tf1.placeholder(tf.float32, [2, *size, 3]))
        prefix = f'{made.scope}/'
        variables = {v.op.name: tuple(v.shape) for v in tf1.global_variables()}
    assert all(name.startswith(prefix) for name in variables)
    assert any(name.startswith(f'{prefix}{made.backbone_scope}/') for name in variables)
    return Shapes(
        graph,
        [tuple(one.shape[1:]) for one in maps],
        {name[len(prefix) :]: shape for name, shape in variables.items()},
    )


# Half as wide, explicitly padded, four separable maps.
_NARROW = """type: '%s' depth_multiplier: 0.5 min_depth: 24 use_explicit_padding: true
    use_depthwise: true num_layers: 4 override_base_feature_extractor_hyperparams: %s"""


def check_stacked(kind: str, maps: List[Tuple[int, ...]], stacked: str) -> None:
    """Check the maps and the stacked layers of a narrow network on 64 x 96 pixels.

    Args:
        kind: type of the extractor.
        maps: [height, width, channels] of its four maps.
        stacked: what the stacked layers are named after.
    """
    made = shapes_of(narrow(kind), (64, 96))
    assert made.maps == maps
    assert made.variables[f'{stacked}_1_Conv2d_2_1x1_128/weights'] == (1, 1, maps[1][-1], 128)
    scope = f'{stacked}_2_Conv2d_2_3x3_s2_256'
    assert made.variables[f'{scope}_depthwise/depthwise_weights'] == (3, 3, 128, 1)
    assert made.variables[f'{scope}/weights'] == (1, 1, 128, 256)
    assert not any('_Conv2d_4_' in name for name in made.variables)
    check_padding(made.graph, explicit_backbone='inception' not in kind)


def narrow(kind: str) -> str:
    """Return the fields of a half as wide network with explicit padding and four separable maps."""
    return _NARROW % (kind, 'true' if 'inception' in kind else 'false')


def check_padding(graph: tf.Graph, explicit_backbone: bool = True) -> None:
    """Check that the padding of strided convolutions does not depend on the image's size."""
    strided = [
        op
        for op in graph.get_operations()
        if op.type in ('Conv2D', 'DepthwiseConv2dNative')
        and op.get_attr('strides')[1] == 2
        and op.inputs[1].shape[0] > 1
    ]
    assert len(strided) > 5
    for op in strided:
        explicit = 'EXPLICIT' if op.type == 'Conv2D' else 'VALID'
        added = '_s2_' in op.name or '/fpn/' in op.name
        expected = explicit if added or explicit_backbone else 'SAME'
        assert op.get_attr('padding').decode() == expected, op.name
