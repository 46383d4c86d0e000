"""ResNet V1 for detection, mostly with a feature pyramid."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.model_fns.detection.extractor_configs import shapes_of

tf1 = tf.compat.v1


def test_the_resnets_keep_their_own_batch_norm_when_the_rest_is_overridden():
    fields = """type: 'ssd_resnet50_v1_fpn' override_base_feature_extractor_hyperparams: true
        fpn { min_level: 3 max_level: 6 }"""
    made = shapes_of(fields, (160, 160), is_training=True)
    norms = [op for op in made.graph.get_operations() if op.type == 'FusedBatchNormV3']
    rates = {
        (round(op.get_attr('epsilon'), 7), round(op.get_attr('exponential_avg_factor'), 7))
        for op in norms
        if '/fpn/' not in op.name
    }
    assert rates == {(1e-5, 0.003)}
    added = [op for op in norms if '/fpn/' in op.name]
    assert [round(op.get_attr('epsilon'), 7) for op in added] == [0.01] * 3
    # Everything else is overridden: activations are cut at 6, but for the sums.
    kinds = [op.type for op in made.graph.get_operations() if op.type in ('Relu', 'Relu6')]
    assert kinds.count('Relu') == 16 and kinds.count('Relu6') == 1 + 2 * 16 + 3
    penalties = made.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    assert len(penalties) == 53 + 3 + 3


def test_images_too_small_for_retinanet():
    with pytest.raises(errors.ConfigError, match='at least 129 x 129'):
        shapes_of("type: 'ssd_resnet50_v1_fpn'", (128, 256))
