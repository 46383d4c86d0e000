"""Feature extractors from a few fields of a config."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

import tensorflow as tf
from google.protobuf import text_format

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
    """An extractor from its config's fields but for `conv_hyperparams`; in training by default."""
    config = text_format.Parse(fields + _HYPERPARAMS % train, ssd_pb2.SsdFeatureExtractor())
    arguments.setdefault('is_training', True)
    return extractor.build_feature_extractor(config, **arguments)


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
    """Builds an extractor for images of that size; for inference by default."""
    arguments.setdefault('is_training', False)
    with tf.Graph().as_default() as graph:
        made = build(fields, **arguments)
        maps = made.extract(tf1.placeholder(tf.float32, [2, *size, 3]))
        prefix = f'{extractor.SCOPE}/'
        variables = {v.op.name: tuple(v.shape) for v in tf1.global_variables()}
    assert all(name.startswith(prefix) for name in variables)
    assert any(name.startswith(f'{prefix}{made.backbone_scope}/') for name in variables)
    return Shapes(
        graph,
        [tuple(one.shape[1:]) for one in maps],
        {name[len(prefix) :]: shape for name, shape in variables.items()},
    )
