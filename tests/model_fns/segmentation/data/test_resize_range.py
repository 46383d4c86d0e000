"""The range of an image's sides: numbers by hand, and a property."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.segmentation.data import resize_range
from model_fns.segmentation.data.resize_range import ResizeRange
from protos import segmentation_pb2

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    'arguments, size, expected',
    [
        ((513,), (375, 500), (513, 684)),
        ((513, 640), (375, 500), (480, 640)),
        ((513, 640, 16), (375, 500), (481, 625)),
        ((500, None, 16), (375, 500), (513, 673)),
        ((513, 700, None, False), (375, 500), (684, 684)),
        ((10,), (1, 1000), (10, 10000)),
        ((10, 100), (1, 1000), (1, 100)),
        ((256, 512), (300, 256), (300, 256)),
    ],
)
def test_resize_range(arguments, size, expected):
    resize = ResizeRange(*arguments)
    assert tuple(map(int, resize.size(*size))) == expected
    arrays = resize.size(*np.array([size, size]).T)
    np.testing.assert_array_equal(np.stack(arrays, 1), [expected, expected])
    with tf.Graph().as_default(), tf1.Session() as session:
        assert session.run(resize.size(*map(tf.constant, size))) == expected


@given(
    height=st.integers(1, 3000),
    width=st.integers(1, 3000),
    least=st.integers(1, 1000),
    more=st.integers(0, 1000),
    factor=st.integers(1, 64),
)
def test_no_side_passes_the_most(height, width, least, more, factor):
    most = least + more
    sides = ResizeRange(least, most, factor).size(height, width)
    if most > factor:
        assert max(sides) <= most or max(sides) <= factor + 1
    assert all((side - 1) % factor == 0 for side in sides)


def from_config(fields):
    config = text_format.Parse(fields, segmentation_pb2.SegmentationPreprocessing())
    return resize_range.from_config(Section(config, 'model.x'))


def test_what_a_config_asks_for():
    assert from_config('') is None
    assert from_config('min_resize_value: 513') == ResizeRange(513, None, None, True)
    fields = 'min_resize_value: 5 max_resize_value: 9 resize_factor: 4 keep_aspect_ratio: false'
    assert from_config(fields) == ResizeRange(5, 9, 4, False)


def test_bounds_that_contradict_each_other():
    with pytest.raises(errors.ConfigError, match='min_resize_value is 9 and max_resize_value 8'):
        from_config('min_resize_value: 9 max_resize_value: 8')
