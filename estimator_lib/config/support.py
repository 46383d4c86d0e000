"""Search for supported, ignored and unsupported fields that are set in a config."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

from google.protobuf import message as message_lib

from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.rules import IGNORED, UNSUPPORTED, ConfigRules, Problem
from estimator_lib.config.section import Section


def set_fields(
    rules: ConfigRules, section: Section[message_lib.Message]
) -> Iterator[Tuple[str, Any, Any]]:
    """Yield the fields that are set in a config, inside repeated fields, oneofs and maps too.

    Yields:
        (path, the field's descriptor, value), a message before its fields. Fields inside an
        unsupported message are left out: the message itself is the problem.
    """
    for part in set_messages(rules, section):
        for field, value in part.message.ListFields():
            yield part.at(field.name), field, value


def set_messages(
    rules: ConfigRules, section: Section[message_lib.Message]
) -> Iterator[Section[message_lib.Message]]:
    """Yield the config itself, then the supported messages set in it."""
    yield section
    for field, _ in section.message.ListFields():
        if not schema.is_message(field) or not rules.is_supported(field):
            continue
        repeated = schema.is_repeated(field)
        for part in section.children(field.name) if repeated else [section.child(field.name)]:
            # Values of a map may be scalars.
            if isinstance(part.message, message_lib.Message):
                yield from set_messages(rules, part)


def unsupported(rules: ConfigRules, section: Section[message_lib.Message]) -> Iterator[Problem]:
    """Yield each set field of a config that is not supported.

    An unsupported field that is set to its default changes nothing, and is allowed.

    Args:
        rules: the rules of the task.
        section: a pipeline config, or a part of one.
    """
    for here, field, value in set_fields(rules, section):
        reason = refusal(rules, field, value)
        if reason:
            yield Problem(here, reason)


def refusal(rules: ConfigRules, field: Any, value: Any) -> str:
    """Return the sentence on a set field that is not supported; empty if it is."""
    kind, reason = rules.support(field)
    if kind != UNSUPPORTED or is_default(field, value):
        reason = rules.value_problem(field, value)
    return f'not supported: {reason}.' if reason else ''


def refuse(rules: ConfigRules, section: Section[message_lib.Message]) -> None:
    """Refuse a part of a config that sets unsupported fields; see `unsupported`.

    Raises:
        errors.ConfigError: there are such fields; the message names all of them.
    """
    problems = list(unsupported(rules, section))
    if problems:
        raise errors.ConfigError(listed(problems))


def ignored(rules: ConfigRules, config: message_lib.Message) -> Iterator[str]:
    """Yield a sentence about each ignored field that is set to a value other than its default."""
    for path, field, value in set_fields(rules, Section(config)):
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
