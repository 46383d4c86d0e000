"""MobileDet for detection."""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, scope',
    [
        ('cpu', [(4, 6, 40), (2, 3, 72), (1, 2, 256), (1, 1, 128)], 'MobileDetCPU'),
        ('dsp', [(4, 6, 72), (2, 3, 120), (1, 2, 256), (1, 1, 128)], 'MobileDetDSP'),
        ('edgetpu', [(4, 6, 48), (2, 3, 192), (1, 2, 256), (1, 1, 128)], 'MobileDetEdgeTPU'),
        ('gpu', [(4, 6, 64), (2, 3, 192), (1, 2, 256), (1, 1, 128)], 'MobileDetGPU'),
    ],
)
def test_mobiledets(kind, maps, scope):
    fields = f"type: 'ssd_mobiledet_{kind}' depth_multiplier: 0.5 min_depth: 24 num_layers: 4"
    made = shapes_of(fields, (64, 96))
    assert made.maps == maps
    assert made.variables[f'{scope}/C5_2_Conv2d_3_3x3_s2_128/weights'] == (3, 3, 64, 128)
