"""Values of words, and what is said of them."""

import math

import pytest

from estimator_lib.config.text import values
from protos import ssd_pb2, train_pb2

TRAIN = train_pb2.TrainConfig.DESCRIPTOR.fields_by_name


@pytest.mark.parametrize(
    'field, word, value',
    [
        ('batch_size', '0x1F', 31),
        ('batch_size', '017', 15),
        ('batch_size', '-1', None),
        ('batch_size', '4294967295', 4294967295),
        ('batch_size', '4294967296', None),
        ('batch_size', '1.0', None),
        ('batch_size', '3 # or 4', None),
        ('batch_size', '3 num_steps: 4', None),
        ('freeze_variables', 'a', None),
        ('sync_replicas', 't', True),
        ('sync_replicas', '0', False),
        ('sync_replicas', 'yes', None),
        ('gradient_clipping_by_norm', '1e3f', 1000.0),
        ('gradient_clipping_by_norm', '-inf', -math.inf),
        ('gradient_clipping_by_norm', 'ten', None),
        ('non_finite_loss_policy', 'WARN', 1),
        ('non_finite_loss_policy', '1', 1),
        ('non_finite_loss_policy', 'warn', None),
    ],
)
def test_values_of_words(field, word, value):
    assert values.scalar_value(TRAIN[field], word) == value


def test_expectations():
    assert values.expectation(TRAIN['batch_size']) == 'a whole number from 0 to 4294967295'
    assert values.expectation(TRAIN['sync_replicas']) == 'true or false'
    assert values.expectation(TRAIN['fine_tune_checkpoint']) == 'a string in quotes'
    assert values.enum_hint(TRAIN['non_finite_loss_policy'], 'WRN') == '; did you mean WARN?'
    assert values.enum_hint(TRAIN['batch_size'], 'WRN') == '.'


def test_a_deprecated_value_is_read_and_not_proposed():
    box_type = ssd_pb2.Ssd.DESCRIPTOR.fields_by_name['box_type']
    assert values.scalar_value(box_type, 'UPRIGHT') == 0
    assert values.scalar_value(box_type, 'AXIS_ALIGNED') == 0
    assert values.expectation(box_type) == 'one of AXIS_ALIGNED, ROTATED'
    assert values.enum_hint(box_type, 'UPRIHT') == '.'
