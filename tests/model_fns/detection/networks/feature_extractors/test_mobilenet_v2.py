"""MobileNet V2 for detection: 80 * 6 channels within the block; 1280 / 2 behind it."""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import check_stacked

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        (
            'ssd_mobilenet_v2',
            [(4, 6, 288), (2, 3, 640), (1, 2, 256), (1, 1, 128)],
            'MobilenetV2/layer_19',
        ),
    ],
)
def test_stacked_maps(kind, maps, stacked):
    check_stacked(kind, maps, stacked)
