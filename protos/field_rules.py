"""Rules of single fields: the options `(rule)` of the `.proto` files."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Optional, Tuple

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import descriptor_pb2

from protos import rules_pb2


@dataclasses.dataclass(frozen=True)
class Range:
    """Interval of numbers.

    Attributes:
        low: the lower end.
        high: the upper end.
        open_low: whether `low` itself is excluded.
        open_high: whether `high` itself is excluded.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Return whether a value is in the interval."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        low = 'more than' if self.open_low else 'at least'
        high = 'less than' if self.open_high else 'at most'
        ends = [f'{low} {format_number(self.low)}'] if self.low > -math.inf else []
        ends += [f'{high} {format_number(self.high)}'] if self.high < math.inf else []
        return ' and '.join(ends)


FRACTION = Range(0, 1)


def format_number(value: float) -> str:
    """Format a number for a message: integers below 1e12 with all digits."""
    return f'{value:.0f}' if float(value).is_integer() and abs(value) < 1e12 else f'{value:g}'


def to_range(rule: rules_pb2.Rule) -> Optional[Range]:
    """Return the interval of a rule; None if it has none."""
    has = rule.HasField
    low = rule.more_than if has('more_than') else rule.min if has('min') else -math.inf
    high = rule.less_than if has('less_than') else rule.max if has('max') else math.inf
    if math.isinf(low) and math.isinf(high):
        return None
    return Range(low, high, has('more_than'), has('less_than'))


def read_rule(options: descriptor_pb2.FieldOptions) -> rules_pb2.Rule:
    """Return the rule in the options of a field, with the parts of the rule that it shares."""
    own: rules_pb2.Rule = options.Extensions[rules_pb2.rule]
    shared = rules_pb2.SharedRule.DESCRIPTOR.values_by_number[own.shared].GetOptions()
    rule = rules_pb2.Rule()
    rule.CopyFrom(shared.Extensions[rules_pb2.parts])
    # Last, so that a field's own parts win over the shared ones.
    rule.MergeFrom(own)
    return rule


@functools.cache
def get_rule(field: descriptor_lib.FieldDescriptor) -> rules_pb2.Rule:
    """Return the rule of a field; an empty one if the schema has none."""
    return read_rule(field.GetOptions())


@functools.cache
def get_range(field: descriptor_lib.FieldDescriptor) -> Optional[Range]:
    """Return the interval of a field's numbers; None if any number is allowed."""
    return to_range(get_rule(field))


@functools.cache
def find_fields(
    message: descriptor_lib.Descriptor, part: str
) -> Tuple[descriptor_lib.FieldDescriptor, ...]:
    """Return the fields of a message whose rule has a part, like `required`."""
    return tuple(field for field in message.fields if get_rule(field).HasField(part))


@functools.cache
def is_needed(oneof: descriptor_lib.OneofDescriptor) -> bool:
    """Return whether a oneof must have a member set."""
    return oneof.GetOptions().Extensions[rules_pb2.needed]


def read_conflicts(options: descriptor_pb2.MessageOptions) -> Tuple[rules_pb2.Conflict, ...]:
    """Return the conflicts between fields in the options of a message."""
    return tuple(options.Extensions[rules_pb2.conflict])


@functools.cache
def get_conflicts(message: descriptor_lib.Descriptor) -> Tuple[rules_pb2.Conflict, ...]:
    """Return the conflicts between fields of a message."""
    return read_conflicts(message.GetOptions())
