"""MobileNet V1 for detection: what of its options becomes shapes."""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import check_stacked

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        (
            'ssd_mobilenet_v1',
            [(4, 6, 256), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'MobilenetV1/Conv2d_13_pointwise',
        ),
        (
            'embedded_ssd_mobilenet_v1',
            [(4, 6, 256), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'MobilenetV1/Conv2d_13_pointwise',
        ),
    ],
)
def test_stacked_maps(kind, maps, stacked):
    check_stacked(kind, maps, stacked)
