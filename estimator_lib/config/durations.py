"""Durations of training in steps, epochs, examples or percent, and their one conversion to steps.

A field of type `Duration` names the field that it sets by its rule `in_steps`. So a new duration is
a field of the schema, and what reads the number of steps does not know of it.
"""

from __future__ import annotations

import fractions
import functools
import logging
import math
from typing import Callable, Iterator, NamedTuple, Tuple

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.loading import PipelineConfig, merge_pipeline_configs
from protos import duration_pb2, field_rules

log = logging.getLogger('estimator_lib')

_MOST_STEPS = 2**31 - 1  # the least of the types of the fields
_LENGTH = 'train_config.length'


class Found(NamedTuple):
    """Durations of one field of a config.

    Attributes:
        path: the path of the field in the config.
        message: the message that holds the field.
        field: the field, which may be repeated.
    """

    path: str
    message: message_lib.Message
    field: descriptor_lib.FieldDescriptor

    @property
    def target(self) -> descriptor_lib.FieldDescriptor:
        """The field for the number of steps."""
        return self.message.DESCRIPTOR.fields_by_name[field_rules.get_rule(self.field).in_steps]

    def values(self) -> Iterator[Tuple[str, duration_pb2.Duration]]:
        """Yield the path and the value of each duration of the field."""
        value = getattr(self.message, self.field.name)
        if not schema.is_repeated(self.field):
            yield self.path, value
            return
        for index, each in enumerate(value):
            yield f'{self.path}.{index}', each


class Units(NamedTuple):
    """Sizes of the units of a run.

    Attributes:
        batch_size: the examples of a step.
        num_steps: the steps of the run; 0: no end.
        count_examples: returns the examples of an epoch; called only where a duration needs them.
    """

    batch_size: int
    num_steps: int
    count_examples: Callable[[], int]


def find(message: message_lib.Message, path: str = '') -> Iterator[Found]:
    """Yield the fields of a config, or of a part of one, that have durations."""
    for field, value in message.ListFields():
        here = schema.join(path, field.name)
        if not schema.is_message(field) or schema.is_map(field):
            continue
        if field_rules.get_rule(field).in_steps:
            yield Found(here, message, field)
        elif schema.is_repeated(field):
            for index, each in enumerate(value):
                yield from find(each, f'{here}.{index}')
        else:
            yield from find(value, here)


def resolve(config: PipelineConfig, count_examples: Callable[[], int]) -> PipelineConfig:
    """Return a config whose durations are numbers of steps, in the fields for these.

    Args:
        config: it stays as it is.
        count_examples: returns the number of training examples. It is called at most once, and
            only where a duration is in epochs.

    Raises:
        errors.ConfigError: a duration has no unit, is out of range, or is a part of a run without
            an end; or its steps are set too.
        errors.DataError: raised by `count_examples`.
    """
    config = merge_pipeline_configs(config)
    train_config = config.train_config if config.HasField('train_config') else None
    if train_config is None or not any(find(config)):
        return config
    count_examples = functools.cache(count_examples)
    # The others may be parts of the length of the run.
    found = sorted(find(config), key=lambda each: each.path != _LENGTH)
    for each in found:
        units = Units(train_config.batch_size, train_config.num_steps, count_examples)
        if each.path == _LENGTH:
            units = units._replace(num_steps=0)
        _set_steps(each, units)
    return config


def _set_steps(found: Found, units: Units) -> None:
    """Replace the durations of a field by steps, in the field for these."""
    target = found.target.name
    repeated = schema.is_repeated(found.field)
    if repeated and getattr(found.message, target):
        raise errors.ConfigError(f'{found.path}: {target} is set too; expected one of the two.')
    steps = []
    for path, duration in found.values():
        steps.append(to_steps(duration, units, path))
        log.info('config: %s: %s = %d steps', path, _describe(duration), steps[-1])
    found.message.ClearField(found.field.name)
    if repeated:
        getattr(found.message, target).extend(steps)
    else:
        setattr(found.message, target, steps[0])


def to_steps(duration: duration_pb2.Duration, units: Units, path: str) -> int:
    """Convert a duration to steps.

    The fraction is rounded, half up, and a length above 0 has at least one step: with 10 examples
    and batches of 4, `epochs: 3` has 30 / 4 = 7.5, so 8 steps.

    Args:
        duration: the duration.
        units: the sizes of its units.
        path: the path of the duration, for messages.

    Raises:
        errors.ConfigError: it has no unit, is out of range, or is a part of a run without an end.
    """
    unit = duration.WhichOneof('length')
    if unit is None:
        raise errors.ConfigError(
            f'{path}: empty; expected one of steps, epochs, examples or percent.'
        )
    value = getattr(duration, unit)
    highest = 100 if unit == 'percent' else math.inf
    if not (0 <= value <= highest and math.isfinite(value)):
        expected = 'from 0 to 100' if unit == 'percent' else 'of at least 0'
        raise errors.ConfigError(f'{path}.{unit}: {value}; expected a number {expected}.')
    # Exact, as the decimal is written: the last bit of a float must not change a number of steps.
    decimal = value if isinstance(value, int) else schema.decimal_number(value)
    exact = fractions.Fraction(repr(decimal))
    if unit == 'percent':
        if not units.num_steps:
            wrong = 'is this length itself' if path == _LENGTH else 'has no end'
            raise errors.ConfigError(
                f'{path}.percent: {value:g} % of train_config.num_steps, which {wrong}; expected '
                'steps, epochs or examples.'
            )
        exact = exact * units.num_steps / 100
    elif unit == 'epochs':
        exact = exact * units.count_examples() / units.batch_size
    elif unit == 'examples':
        exact = exact / units.batch_size
    # Not `round`, which takes the even neighbor of a half: 2.5 and 3.5 would become 2 and 4.
    steps = max(math.floor(exact + fractions.Fraction(1, 2)), int(exact > 0))
    if steps > _MOST_STEPS:
        raise errors.ConfigError(f'{path}: {steps} steps; expected at most {_MOST_STEPS}.')
    return steps


def _describe(duration: duration_pb2.Duration) -> str:
    unit = duration.WhichOneof('length')
    return f'{getattr(duration, unit):g} {unit}'
