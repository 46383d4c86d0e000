from __future__ import annotations

import golden
import pytest

from model_fns.backbones import mobilenet_v3  # noqa: F401  registers its networks


@pytest.mark.parametrize('name', ['mobilenet_v3_large', 'mobilenet_v3_small'])
def test_variables_and_end_points_are_as_published(name):
    golden.check_variables(name)
