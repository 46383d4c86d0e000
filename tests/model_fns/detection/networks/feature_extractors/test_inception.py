"""Inception V2 and V3 for detection."""

from __future__ import annotations

import pytest

from tests.model_fns.detection.extractor_configs import check_stacked, narrow, shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        (
            'ssd_inception_v2',
            [(4, 6, 288), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'InceptionV2/Mixed_5c',
        ),
    ],
)
def test_stacked_maps(kind, maps, stacked):
    check_stacked(kind, maps, stacked)


def test_inception_v3():
    made = shapes_of(narrow('ssd_inception_v3'), (96, 160))
    # Without padding, a 96x160 image leaves 9x17 of the first pooled maps.
    assert made.maps == [(9, 17, 144), (4, 8, 384), (1, 3, 1024), (1, 2, 256)]
    assert made.variables['InceptionV3/Mixed_7c_1_Conv2d_3_1x1_128/weights'] == (1, 1, 1024, 128)
