"""Augmentation steps: their type, the registry of builders, and checks of config values."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import tensorflow as tf
from google.protobuf import message as message_lib

from estimator_lib import errors, registry
from estimator_lib.task import Example

# (example, int64 [2] seed) -> example. The result is a function of both.
Step = Callable[[Example, tf.Tensor], Example]
# (message, its path in the config) -> step.
Builder = Callable[[Any, str], Step]

# Builders by the name of the field in `PreprocessingStep`.
BUILDERS: registry.Registry[Builder] = registry.Registry('augmentation')


def check(is_right: bool, where: str, config: message_lib.Message, field: str, expected: str):
    """Raise an error if a field's value is not what is expected.

    Args:
        is_right: True if the value is valid.
        where: path of the message.
        config: the message.
        field: the field's name.
        expected: description of valid values, as the end of a sentence.

    Raises:
        errors.ConfigError: the value is not valid.
    """
    if not is_right:
        got = 'not set' if _is_missing(config, field) else shown(getattr(config, field))
        raise errors.ConfigError(f'{where}.{field}: {got}; expected {expected}.')


def shown(value: Any) -> str:
    """Format a field's value for messages; floats are rounded, as messages store 32 bits."""
    if isinstance(value, (bool, int, str)):
        return repr(value)
    return f'{value:g}' if isinstance(value, float) else f'[{", ".join(map(shown, value))}]'


def check_shares(config: message_lib.Message, where: str, *names: str) -> None:
    """Raise an error unless all fields are in [0, 1]."""
    for name in names:
        is_share = 0.0 <= getattr(config, name) <= 1.0
        check(is_share, where, config, name, 'a number from 0 to 1')


def check_least(config: message_lib.Message, where: str, least: float, *names: str) -> None:
    """Raise an error unless all fields are at least `least`."""
    for name in names:
        is_right = getattr(config, name) >= least
        check(is_right, where, config, name, f'a number from {least} up')


def check_range(
    config: message_lib.Message,
    where: str,
    low: str,
    high: str,
    bounds: Tuple[float, Optional[float]] = (0.0, None),
) -> Tuple[float, float]:
    """Return the two ends of an interval after checking them.

    Args:
        config: the message.
        where: path of the message.
        low: name of the field of the lower end.
        high: name of the field of the upper end.
        bounds: bounds of both ends; None: no upper bound.

    Raises:
        errors.ConfigError: the ends are in the wrong order, or out of bounds.
    """
    least, most = bounds
    values = getattr(config, low), getattr(config, high)
    check(values[0] >= least, where, config, low, f'a number from {least} up')
    if most is not None:
        check(values[1] <= most, where, config, high, f'a number up to {most}')
    check(values[0] <= values[1], where, config, high, f'at least {low}, {shown(values[0])}')
    return values


def check_positive_range(
    config: message_lib.Message, where: str, low: str, high: str, most: Optional[float] = None
) -> Tuple[float, float]:
    """Return the two ends of an interval after checking that they are above 0."""
    check_positive(config, where, low)
    return check_range(config, where, low, high, (0.0, most))


def check_positive(config: message_lib.Message, where: str, field: str) -> float:
    """Return the value of a field after checking that it is above 0."""
    value = getattr(config, field)
    check(value > 0, where, config, field, 'a number above 0')
    return value


def check_count(config: message_lib.Message, where: str, field: str, count: int) -> Sequence[float]:
    """Return the values of a repeated field after checking that it has `count` of them, or none."""
    values = tuple(getattr(config, field))
    check(len(values) in (0, count), where, config, field, f'{count} values, or none')
    return values


def _is_missing(config: message_lib.Message, field: str) -> bool:
    descriptor = config.DESCRIPTOR.fields_by_name[field]
    if descriptor.label == descriptor.LABEL_REPEATED:
        return not getattr(config, field)
    return not config.HasField(field) and not descriptor.has_default_value
