"""Ranges of numbers."""

import math

import pytest

from estimator_lib.config import schema, support
from estimator_lib.config.ranges import RANGES, Range
from protos import pipeline_pb2

ROOT = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR


@pytest.mark.parametrize(
    ('allowed', 'inside', 'outside', 'text'),
    [
        (Range(1), [1, 2, math.inf], [0, -1, math.nan], 'at least 1'),
        (Range(0, open_low=True), [1e-9], [0, -1], 'more than 0'),
        (Range(0, 1, open_high=True), [0, 0.999], [1, -0.1], 'at least 0 and less than 1'),
        (Range(0, 1, open_low=True), [1, 0.1], [0, 1.1], 'more than 0 and at most 1'),
        (Range(high=0), [0, -5], [0.1], 'at most 0'),
    ],
)
def test_ranges(allowed, inside, outside, text):
    assert all(allowed.holds(value) for value in inside)
    assert not any(allowed.holds(value) for value in outside)
    assert str(allowed) == text


def fields():
    return {
        f'{schema.short_name(message)}.{field.name}': field
        for message in schema.reachable_messages(ROOT)
        for field in message.fields
    }


def test_every_range_is_of_an_honoured_number():
    for name in RANGES:
        field = fields()[name]
        assert not schema.is_message(field) and field.enum_type is None
        assert support.columns(*name.rsplit('.', 1)) == ['HONOURED'], name


def test_every_explicit_default_is_in_range():
    for name, allowed in RANGES.items():
        field = fields()[name]
        if field.has_default_value:
            assert allowed.holds(field.default_value), name


def test_every_honoured_float_has_a_range():
    unbounded = [
        name
        for name, field in fields().items()
        if field.cpp_type == field.CPPTYPE_FLOAT
        and support.columns(*name.rsplit('.', 1)) == ['HONOURED']
        and name not in RANGES
    ]
    assert unbounded == []
