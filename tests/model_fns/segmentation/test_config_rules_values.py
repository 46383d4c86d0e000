"""Ranges of the numbers of segmentation."""

import pytest

from estimator_lib import errors
from estimator_lib.config import validation
from model_fns.segmentation.config_rules_values import VALUES
from protos import segmentation_pb2


@pytest.mark.parametrize(
    ('values', 'text'),
    [
        ({'min_scale_factor': 0.009}, 'min_scale_factor: 0.009; expected at least 0.01 and'),
        ({'max_rotation_degrees': 181}, 'max_rotation_degrees: 181; expected at least 0 and at '),
        ({'min_scale_factor': 1, 'max_scale_factor': 0.5}, 'min_scale_factor: 1; expected at most'),
    ],
)
def test_numbers_that_cannot_be(values, text):
    message = segmentation_pb2.SegmentationPreprocessing(**values)
    with pytest.raises(errors.ConfigError) as caught:
        validation.check_message(VALUES, message, 'here')
    assert str(caught.value).startswith(f'here.{text}')


def test_the_least_scale_is_in():
    message = segmentation_pb2.SegmentationPreprocessing(min_scale_factor=0.01)
    validation.check_message(VALUES, message, 'here')
