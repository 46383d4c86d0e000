"""MobileNet V3 for detection: taps within blocks (56 * 6, 24 * 6, 48 * 4 channels, halved)."""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import check_stacked

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        (
            'ssd_mobilenet_v3_large',
            [(4, 6, 336), (2, 3, 240), (1, 2, 256), (1, 1, 128)],
            'MobilenetV3/layer_17',
        ),
        (
            'ssd_mobilenet_v3_small',
            [(4, 6, 144), (2, 3, 144), (1, 2, 256), (1, 1, 128)],
            'MobilenetV3/layer_13',
        ),
        (
            'ssd_mobilenet_edgetpu',
            [(4, 6, 192), (2, 3, 96), (1, 2, 256), (1, 1, 128)],
            'MobilenetEdgeTPU/layer_23',
        ),
    ],
)
def test_stacked_maps(kind, maps, stacked):
    check_stacked(kind, maps, stacked)
