"""Maps stacked on narrow backbones: what of the options becomes shapes.

`test_published_variables.py` has the other networks, as wide as they were published.
"""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import check_stacked, narrow, shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        ('ssd_inception_v2', [(4, 6, 288), (2, 3, 512)], 'InceptionV2/Mixed_5c'),
        ('ssd_mobilenet_v1', [(4, 6, 256), (2, 3, 512)], 'MobilenetV1/Conv2d_13_pointwise'),
        # 96 * 6 channels within the block, halved; 1280 / 2 behind it.
        ('ssd_mobilenet_v2', [(4, 6, 288), (2, 3, 640)], 'MobilenetV2/layer_19'),
        # 112 * 6 channels within the block, halved.
        ('ssd_mobilenet_v3_large', [(4, 6, 336), (2, 3, 240)], 'MobilenetV3/layer_17'),
    ],
)
def test_stacked_maps(kind, maps, stacked):
    check_stacked(kind, [*maps, (1, 2, 256), (1, 1, 128)], stacked)


def test_inception_v3_pads_nothing():
    made = shapes_of(narrow('ssd_inception_v3'), (96, 160))
    # A 96x160 image leaves 9x17 of the first pooled maps.
    assert made.maps == [(9, 17, 144), (4, 8, 384), (1, 3, 1024), (1, 2, 256)]
    assert made.variables['InceptionV3/Mixed_7c_1_Conv2d_3_1x1_128/weights'] == (1, 1, 1024, 128)


def test_the_mobiledet_of_dsps_that_was_not_published():
    fields = "type: 'ssd_mobiledet_dsp' depth_multiplier: 0.5 min_depth: 24 num_layers: 4"
    made = shapes_of(fields, (64, 96))
    assert made.maps == [(4, 6, 72), (2, 3, 120), (1, 2, 256), (1, 1, 128)]
    kernel = made.variables['MobileDetDSP/C5_2_Conv2d_3_3x3_s2_128/weights']
    assert kernel == (3, 3, 64, 128)
