from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from model_fns.backbones.output_strides import atrous_strides


def test_by_hand():
    assert atrous_strides([2, 1, 2, 1]) == ((2, 1), (1, 1), (2, 1), (1, 1))
    assert atrous_strides([2, 2, 2, 1], 4) == ((2, 1), (2, 1), (1, 1), (1, 2))
    assert atrous_strides([2, 2, 1, 2, 1], 2) == ((2, 1), (1, 1), (1, 2), (1, 2), (1, 4))


@settings(deadline=None)
@given(st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=12), st.data())
def test_what_strides_lose_rates_gain(strides, data):
    total = math.prod(strides)
    output_stride = data.draw(st.sampled_from([2**i for i in range(total.bit_length())]))
    steps = atrous_strides(strides, output_stride)
    assert math.prod(stride for stride, _ in steps) == output_stride
    # Each layer's taps lie as far apart in the image as without atrous convolution.
    plain, atrous = 1, 1
    for stride, (new_stride, rate) in zip(strides, steps):
        assert atrous * rate == plain
        plain, atrous = plain * stride, atrous * new_stride


@pytest.mark.parametrize('output_stride', [0, 3, 12, 64])
def test_what_cannot_be_had_is_named(output_stride):
    message = f'cannot have {output_stride}; it can have 1, 2, 4, 8.'
    with pytest.raises(errors.ConfigError, match=message):
        atrous_strides([2, 2, 1, 2], output_stride)
