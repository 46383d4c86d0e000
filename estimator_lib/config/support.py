"""Field support: which fields of a config are supported, ignored or unsupported, by its rules."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.rules import IGNORED, UNSUPPORTED, ConfigRules, Problem


def set_fields(
    rules: ConfigRules, message: message_lib.Message, path: str = ''
) -> Iterator[Tuple[str, Any, Any]]:
    """Yield the fields that are set in a config, inside repeated fields, oneofs and maps too.

    Yields:
        (path, the field's descriptor, value), a message before its fields. What is inside a message
        that is not supported is left out: it falls with the whole.
    """
    for above, each in set_messages(rules, message, path):
        for field, value in each.ListFields():
            yield schema.join(above, field.name), field, value


def set_messages(
    rules: ConfigRules, message: message_lib.Message, path: str = ''
) -> Iterator[Tuple[str, message_lib.Message]]:
    """Yield the supported messages that are set in a config, with their paths; itself first."""
    yield path, message
    for field, value in message.ListFields():
        if not schema.is_message(field) or not rules.is_supported(field):
            continue
        for inner, each in _held(field, value, schema.join(path, field.name)):
            yield from set_messages(rules, each, inner)


def _held(field: Any, value: Any, path: str) -> Iterator[Tuple[str, message_lib.Message]]:
    """Return the messages in a field, with their paths."""
    if schema.is_map(field):
        held = [(f'{path}.{key}', value[key]) for key in sorted(value)]
    elif schema.is_repeated(field):
        held = [(f'{path}.{index}', each) for index, each in enumerate(value)]
    else:
        held = [(path, value)]
    return ((inner, each) for inner, each in held if isinstance(each, message_lib.Message))


def unsupported(
    rules: ConfigRules, config: message_lib.Message, path: str = ''
) -> Iterator[Problem]:
    """Yield each set field of a config that is not supported.

    An unsupported field that is set to its default asks for nothing, and is let pass.

    Args:
        rules: those of the task.
        config: a pipeline config, or a part of one.
        path: where in a pipeline config the part is.
    """
    for here, field, value in set_fields(rules, config, path):
        kind, reason = rules.support(field)
        if kind != UNSUPPORTED or is_default(field, value):
            reason = rules.value_problem(field, value)
        if reason:
            yield Problem(here, f'not supported: {reason}.')


def refuse(rules: ConfigRules, config: message_lib.Message, path: str) -> None:
    """Raise an error when a part of a config asks for what is not supported; see `unsupported`.

    Raises:
        errors.ConfigError: it does; the message names every such field.
    """
    problems = list(unsupported(rules, config, path))
    if problems:
        raise errors.ConfigError(listed(problems))


def ignored(rules: ConfigRules, config: message_lib.Message) -> Iterator[str]:
    """Yield a sentence about each field that is set to change something, and does not."""
    for path, field, value in set_fields(rules, config):
        kind, reason = rules.support(field)
        if kind == IGNORED and not is_default(field, value):
            yield f'{path} has no effect: {reason}.'


def listed(problems: Sequence[Problem]) -> str:
    """Return problems as one message: a line each, below a headline where there are several."""
    if len(problems) == 1:
        return str(problems[0])
    lines: List[str] = [f'\n  {problem}' for problem in problems]
    return f'the pipeline config has {len(problems)} problems:{"".join(lines)}'


def is_default(field: Any, value: Any) -> bool:
    """Return whether a field is set to what it would be unset."""
    if schema.is_message(field) or schema.is_repeated(field):
        return False
    return value == field.default_value
