"""ResNet V1 for detection, mostly with a feature pyramid."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from tests.model_fns.detection.extractor_configs import build, shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')

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


def test_the_resnets_of_tensorflow_2_are_overridden_whole_and_stride_first():
    fields = """type: 'ssd_resnet50_v1_fpn_keras' fpn { min_level: 3 max_level: 6 }
        override_base_feature_extractor_hyperparams: true"""
    made = shapes_of(fields, (160, 160), is_training=True)
    operations = made.graph.get_operations()
    norms = [op for op in operations if op.type == 'FusedBatchNormV3']
    assert {round(op.get_attr('epsilon'), 7) for op in norms} == {0.01}
    # The sums of units are cut at 6 too.
    kinds = [op.type for op in operations if op.type in ('Relu', 'Relu6')]
    assert kinds.count('Relu') == 0 and kinds.count('Relu6') == 1 + 3 * 16 + 3
    strided = {
        op.name.rpartition('/')[0]
        for op in operations
        if op.type == 'Conv2D' and op.get_attr('strides')[1] == 2 and '/block' in op.name
    }
    assert {name.partition('resnet_v1_50/')[2] for name in strided} == {
        f'block{block}/unit_1/bottleneck_v1/{name}'
        for block in (2, 3, 4)
        for name in ('conv1', 'shortcut')
    }


@pytest.mark.parametrize(('kind', 'decay'), [('', 1e-4), ('_keras', 2e-4)])
def test_the_own_style_of_the_resnets(kind, decay):
    # Half the squares' sum in the one generation, their sum in the other.
    style = build(f"type: 'ssd_resnet50_v1_fpn{kind}'").base_style()
    assert style.regularizer == layers.l2(decay)
    assert (style.batch_norm.epsilon, style.activation) == (1e-5, tf.nn.relu)


def test_images_too_small_for_retinanet():
    with pytest.raises(errors.ConfigError, match='at least 129 x 129'):
        shapes_of("type: 'ssd_resnet50_v1_fpn'", (128, 256))
