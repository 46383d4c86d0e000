"""Augmentation steps: their type, the registry of builders, and checks across their fields."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence, TypeVar

import tensorflow as tf
from google.protobuf import message as message_lib

from estimator_lib import errors, registry
from estimator_lib.config import schema
from estimator_lib.task import Example

# (example, int64 [2] seed) -> example. The result is a function of both.
Step = Callable[[Example, tf.Tensor], Example]
# (message, its path in the config) -> step.
Builder = Callable[[Any, str], Step]


class Mixer(NamedTuple):
    """A step that combines several examples.

    Attributes:
        combine: (examples, int64 [2] seed) -> example; see `Mixing`.
        num_examples: number of examples that it takes.
    """

    combine: Callable[[Sequence[Example], tf.Tensor], Example]
    num_examples: int


# Builders by the name of the field in `PreprocessingStep`.
Builders = registry.Registry[Builder]
MixerBuilders = registry.Registry[Callable[[Any, str], Mixer]]

# Builders of the steps that change nothing but the image, for all tasks.
IMAGE_STEPS: Builders = registry.Registry('augmentation')

_Function = TypeVar('_Function', bound=Callable[..., Example])


def register(builders: Builders, name: str, **parameters: str) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a step whose parameters are fields of its message.

    A step whose parameters have to be checked or converted registers a builder instead.

    Args:
        builders: the registry.
        name: name of the field in `PreprocessingStep`.
        **parameters: name of the message's field for each parameter of the step after the seed.
    """

    def add(step: _Function) -> _Function:
        def build(config: message_lib.Message, where: str) -> Step:
            del where
            values = {parameter: getattr(config, field) for parameter, field in parameters.items()}
            return functools.partial(step, **values)

        builders.add(name, build)
        return step

    return add


register_image_step = functools.partial(register, IMAGE_STEPS)


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
        # An unset field reads as 0, which the user has not written.
        got = 'not set' if _is_missing(config, field) else shown(getattr(config, field))
        raise errors.ConfigError(f'{where}.{field}: {got}; expected {expected}.')


def shown(value: Any) -> str:
    """Format a field's value for messages; floats are rounded, as messages store 32 bits."""
    if isinstance(value, (bool, int, str)):
        return repr(value)
    return f'{value:g}' if isinstance(value, float) else f'[{", ".join(map(shown, value))}]'


def check_count(config: message_lib.Message, where: str, field: str, count: int) -> Sequence[float]:
    """Return the values of a repeated field after checking that it has `count` of them, or none."""
    values = tuple(getattr(config, field))
    check(len(values) in (0, count), where, config, field, f'{count} values, or none')
    return values


def _is_missing(config: message_lib.Message, field: str) -> bool:
    descriptor = config.DESCRIPTOR.fields_by_name[field]
    if schema.is_repeated(descriptor):
        return not getattr(config, field)
    return not config.HasField(field) and not descriptor.has_default_value
