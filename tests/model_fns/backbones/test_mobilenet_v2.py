from __future__ import annotations

import golden
import pytest

from model_fns.backbones import mobilenet_v2  # noqa: F401  registers its networks


@pytest.mark.parametrize('name', ['mobilenet_v2', 'mobilenet_v2_035'])
def test_variables_and_end_points_are_as_published(name):
    golden.check_variables(name)


def test_computes_what_the_published_network_does():
    golden.check_golden('mobilenet_v2_035')
