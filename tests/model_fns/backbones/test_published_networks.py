"""Networks have the variables, the end points and the outputs of the published ones."""

from __future__ import annotations

import pytest

from tests.model_fns.backbones import recorded_backbones

# The modules need no initial values: names and shapes are read, and all weights are set.
pytestmark = pytest.mark.usefixtures('no_initial_values')

RECORDED = ['inception_v3', 'lenet', 'mobilenet_v1', 'mobilenet_v2_035', 'resnet_v1_50']
# Their layers are compared with slow ones in the tests of the networks, those of MobileNet V3 with
# logits of hub weights. Inception V1 and V4 have the layers of the recorded V3 in another order: of
# these, test_inception_parts.py counts the pools, which have no variables.
LISTED = [
    'cifarnet',
    'inception_v1',
    'inception_v4',
    'mobilenet_v3_large',
    'mobilenet_v3_small',
    'resnet_v2_50',
    'vgg_16',
]
# Wider, narrower or deeper than one of those, or the backbone of a listed detector.
RESIZED = [
    'inception_resnet_v2',
    'inception_v2',
    'mobilenet_v1_025',
    'mobilenet_v2',
    'resnet_v1_101',
]


@pytest.mark.parametrize(
    'name', [*LISTED, *(pytest.param(name, marks=pytest.mark.published) for name in RESIZED)]
)
def test_variables_and_end_points_are_as_published(name):
    recorded_backbones.check_variables(name)


@pytest.mark.parametrize('name', RECORDED)
def test_computes_what_the_published_network_does(name):
    recorded_backbones.check_golden(name)
