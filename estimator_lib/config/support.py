"""Search for supported, ignored and unsupported fields that are set in a config."""

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
        (path, the field's descriptor, value), a message before its fields. Fields inside an
        unsupported message are left out: the message itself is the problem.
    """
    for above, each in set_messages(rules, message, path):
        for field, value in each.ListFields():
            yield schema.join(above, field.name), field, value


def set_messages(
    rules: ConfigRules, message: message_lib.Message, path: str = ''
) -> Iterator[Tuple[str, message_lib.Message]]:
    """Yield the config itself, then the supported messages set in it, with their paths."""
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

    An unsupported field that is set to its default changes nothing, and is allowed.

    Args:
        rules: the rules of the task.
        config: a pipeline config, or a part of one.
        path: the path of the part in the pipeline config.
    """
    for here, field, value in set_fields(rules, config, path):
        kind, reason = rules.support(field)
        if kind != UNSUPPORTED or is_default(field, value):
            reason = rules.value_problem(field, value)
        if reason:
            yield Problem(here, f'not supported: {reason}.')


def refuse(rules: ConfigRules, config: message_lib.Message, path: str) -> None:
    """Refuse a part of a config that sets unsupported fields; see `unsupported`.

    Raises:
        errors.ConfigError: there are such fields; the message names all of them.
    """
    problems = list(unsupported(rules, config, path))
    if problems:
        raise errors.ConfigError(listed(problems))


def ignored(rules: ConfigRules, config: message_lib.Message) -> Iterator[str]:
    """Yield a sentence about each ignored field that is set to a value other than its default."""
    for path, field, value in set_fields(rules, config):
        kind, reason = rules.support(field)
        if kind == IGNORED and not is_default(field, value):
            yield f'{path} has no effect: {reason}.'


def listed(problems: Sequence[Problem]) -> str:
    """Format problems as one message: several problems get a line each below a headline."""
    if len(problems) == 1:
        return str(problems[0])
    lines: List[str] = [f'\n  {problem}' for problem in problems]
    return f'the pipeline config has {len(problems)} problems:{"".join(lines)}'


def is_default(field: Any, value: Any) -> bool:
    """Return whether a value of a scalar field is its default."""
    if schema.is_message(field) or schema.is_repeated(field):
        return False
    return value == field.default_value
