"""Rules that compare fields of a config: `requires`, `needs`, `excludes` and `conflict`.

A condition names a field or a oneof, either of the same message or by its path in the whole config,
and the value that it must have.

    `fine_tune_checkpoint`            set, and not 0, false or empty
    `cache: MEMORY|FILE`              one of these values; of a list: an entry; of a oneof: a member
    `top_k_percent_pixels < 1`        a smaller (`>`: larger) number; of a list, of entries
    `min_level > max_level`           a number larger than that of another field
    `not normalize_coordinates`       the condition is not met
    `sync_replicas or mode: CLONES`   one of several conditions

`needs` and `excludes` may say why: `depth because each layer has as many channels`.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

from google.protobuf import message as message_lib

from estimator_lib.config import schema, support
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem
from estimator_lib.config.section import Section
from protos import field_rules, rules_pb2

_CONDITION = re.compile(r'(not )?([\w.]+)(?:: ([\w|]+)| ([<>]) ([\w.]+))?')
_COMPARE = {'<': (operator.lt, 'below', 'fewer than'), '>': (operator.gt, 'above', 'more than')}
_OR, _BECAUSE = ' or ', ' because '
_SHOWN = re.compile(r'{([\w.]+)}')


class _Condition(NamedTuple):
    """One condition.

    Attributes:
        is_negated: the rest must not be true.
        path: the path of the required field.
        values: its allowed values; empty: any value that is set.
        sign: `<`, `>` or empty.
        bound: the bound of its number, or the path of another field, if there is a sign.
    """

    is_negated: bool
    path: str
    values: Tuple[str, ...]
    sign: str
    bound: str


def unmet(rules: ConfigRules, config: PipelineConfig) -> Iterator[str]:
    """Yield a sentence for each field that is set without the field that it requires.

    Args:
        rules: the rules of the task.
        config: a pipeline config.
    """
    for part in support.set_messages(rules, Section(config)):
        message = part.message
        for field, value in message.ListFields():
            text = field_rules.get_rule(field).requires
            if not text or not rules.is_supported(field):
                continue
            needed = _find_unmet(text, message, config)
            if needed and not support.is_default(field, value):
                yield f'{part.at(field.name)} has no effect without {needed}.'


def violated(rules: ConfigRules, part: Section[message_lib.Message]) -> Iterator[Problem]:
    """Yield a problem for each field that is set without what it needs, or with what it excludes.

    Args:
        rules: the rules of the task.
        part: a message of a config.
    """
    message = part.message
    for field, value in message.ListFields():
        rule = field_rules.get_rule(field)
        if not (rule.needs or rule.excludes) or support.is_default(field, value):
            continue
        if not rules.is_supported(field):
            continue
        for text in rule.needs:
            condition, reason = split_reason(text)
            needed = _find_unmet(condition, message, message)
            if needed:
                yield part.problem(field.name, f'it needs {needed}{reason}.')
        for text in rule.excludes:
            condition, reason = split_reason(text)
            if not _find_unmet(condition, message, message):
                excluded = _excluded(condition, reason, message)
                yield part.problem(field.name, f'it excludes {excluded}.')


def conflicts(
    rules: ConfigRules, part: Section[message_lib.Message], config: message_lib.Message
) -> Iterator[Problem]:
    """Yield a problem for each conflict of the fields of a message.

    Args:
        rules: the rules of the task.
        part: a message of a config.
        config: the config that has it, or a part of one. Conflicts with fields elsewhere in a
            config are not found in a part.
    """
    for conflict, owner, name in _find_conflicts(rules, part, config):
        if conflict.problem:
            yield owner.problem(name, _fill(conflict.problem, part, config))


def conflict_warnings(rules: ConfigRules, config: PipelineConfig) -> Iterator[str]:
    """Yield a warning for each conflict in a config that is none of its problems.

    Args:
        rules: the rules of the task.
        config: a pipeline config.
    """
    for part in support.set_messages(rules, Section(config)):
        for conflict, owner, name in _find_conflicts(rules, part, config):
            if conflict.ignored:
                reason = _fill(conflict.ignored, part, config)
                yield f'{owner.at(name)} has {describe_no_effect(reason)}.'
            elif conflict.warning:
                yield f'{owner.at(name)}: {_fill(conflict.warning, part, config)}'


def split_reason(text: str) -> Tuple[str, str]:
    """Split an entry of `needs` or `excludes` into its conditions and the end of a sentence.

    Args:
        text: `depth because layers have it`.

    Returns:
        The conditions, `depth`, and their reason, `, because layers have it`; the reason is empty
        where the text has none.
    """
    condition, because, reason = text.partition(_BECAUSE)
    return condition, f',{because}{reason}' if because else ''


def describe_no_effect(reason: str) -> str:
    """Describe that a field has no effect: `no effect without masks`, `no effect: it is old`.

    Args:
        reason: the part `ignored` of a conflict.
    """
    colon = '' if reason.startswith(('with ', 'without ')) else ':'
    return f'no effect{colon} {reason}'


def replace_names(text: str, replacement: Callable[[str], str]) -> str:
    """Replace the names of fields in braces in a text of a conflict.

    Args:
        text: the text: `{size}; expected 5.`
        replacement: returns what replaces a name, without its braces.
    """
    return _SHOWN.sub(lambda match: replacement(match[1]), text)


def _find_conflicts(
    rules: ConfigRules, part: Section[Any], config: message_lib.Message
) -> Iterator[Tuple[rules_pb2.Conflict, Section[Any], str]]:
    """Yield the conflicts that occur in a message, each with the place of a field."""
    for conflict in field_rules.get_conflicts(part.message.DESCRIPTOR):
        if not all(_holds(text, part.message, config) for text in conflict.when):
            continue
        for path in conflict.of or [conflict.at]:
            for owner, name in _places(rules, part, path):
                is_set = name in {field.name for field, _ in owner.message.ListFields()}
                if is_set or conflict.at:
                    yield conflict, owner, name


def _fill(text: str, part: Section[Any], config: message_lib.Message) -> str:
    """Replace the names of fields in braces by their values."""

    def value(path: str) -> str:
        owner, name = _find_owner(path, part.message, config)
        return Section(owner).shown(name)

    return replace_names(text, value)


def _holds(text: str, message: message_lib.Message, config: message_lib.Message) -> bool:
    """Return whether one of the conditions is met; False if the config lacks their fields."""
    return any(
        _owner(each.path, message, config) is not None and _is_met(each, message, config)
        for each in _parse_all(text)
    )


def _places(
    rules: ConfigRules, part: Section[Any], path: str
) -> Iterator[Tuple[Section[Any], str]]:
    """Yield the messages that a path of supported fields leads to, and the name of its last field.

    There is one for each entry of a list.
    """
    first, _, rest = path.partition('.')
    if first not in part.message.DESCRIPTOR.fields_by_name:
        first = part.message.WhichOneof(first)
    field = part.message.DESCRIPTOR.fields_by_name[first]
    if not rules.is_supported(field):
        return
    if not rest:
        yield part, first
        return
    for child in part.children(first) if schema.is_repeated(field) else [part.child(first)]:
        yield from _places(rules, child, rest)


def _find_unmet(text: str, message: message_lib.Message, config: message_lib.Message) -> str:
    """Describe the conditions of which none is met; empty if one is."""
    conditions = _parse_all(text)
    if any(_is_met(each, message, config) for each in conditions):
        return ''
    return _OR.join(_described(each, message, config) for each in conditions)


def _excluded(text: str, reason: str, message: message_lib.Message) -> str:
    """Describe what a field excludes, why, and what to do."""
    (condition,) = _parse_all(text)
    if condition.values or condition.sign:
        return f'{_described(condition, message, message)}{reason}'
    owner, name = _find_owner(condition.path, message, message)
    is_switch = isinstance(getattr(owner, name), bool)
    return f'{text}{reason}; expected {text}: false' if is_switch else f'{text}{reason}; set one'


def _parse_all(text: str) -> List[_Condition]:
    return [_parse(part) for part in text.split(_OR)]


def _parse(text: str) -> _Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no condition on a field.')
    negation, path, values, sign, bound = match.groups()
    alternatives = tuple(values.split('|')) if values else ()
    return _Condition(bool(negation), path, alternatives, sign or '', bound or '')


def _owner(
    path: str, message: message_lib.Message, config: message_lib.Message
) -> Optional[Tuple[Any, str]]:
    """Return the message that has the field of a condition, and the name of the field.

    The result is None if neither the message nor the config has the field.
    """
    *parents, name = path.split('.')
    first = (*parents, name)[0]
    for owner in (message, config):
        known = owner.DESCRIPTOR
        if first in known.fields_by_name or first in known.oneofs_by_name:
            return (operator.attrgetter('.'.join(parents))(owner) if parents else owner), name
    return None


def _find_owner(
    path: str, message: message_lib.Message, config: message_lib.Message
) -> Tuple[Any, str]:
    found = _owner(path, message, config)
    if found is None:
        raise ValueError(f'{path} is no field.')
    return found


def _is_met(
    condition: _Condition, message: message_lib.Message, config: message_lib.Message
) -> bool:
    return _is_true(condition, message, config) is not condition.is_negated


def _is_true(
    condition: _Condition, message: message_lib.Message, config: message_lib.Message
) -> bool:
    owner, name = _find_owner(condition.path, message, config)
    if name in owner.DESCRIPTOR.oneofs_by_name:
        member = owner.WhichOneof(name)
        return member in condition.values if condition.values else member is not None
    field, value = owner.DESCRIPTOR.fields_by_name[name], getattr(owner, name)
    if condition.sign:
        number = len(value) if schema.is_repeated(field) else value
        return _COMPARE[condition.sign][0](number, _number(condition.bound, message, config))
    if condition.values:
        given = value if schema.is_repeated(field) else [value]
        return any(schema.value_text(field, each) in condition.values for each in given)
    if schema.is_repeated(field):
        return any(each != '' for each in value)
    # Not `HasField` for numbers: a field that is set to 0 or false asks for nothing.
    return owner.HasField(name) if schema.is_message(field) else bool(value)


def _number(bound: str, message: message_lib.Message, config: message_lib.Message) -> float:
    """Return the number of a bound, which may be the path of a field."""
    if bound[0].isdecimal():
        return float(bound)
    owner, name = _find_owner(bound, message, config)
    return getattr(owner, name)


def _described(
    condition: _Condition, message: message_lib.Message, config: message_lib.Message
) -> str:
    if condition.values:
        return f'{condition.path}: {_OR.join(condition.values)}'
    if not condition.sign:
        return condition.path
    owner, name = _find_owner(condition.path, message, config)
    _, than, of_entries = _COMPARE[condition.sign]
    if schema.is_repeated(owner.DESCRIPTOR.fields_by_name[name]):
        entries = 'entry' if condition.bound == '1' else 'entries'
        return f'{of_entries} {condition.bound} {entries} in {condition.path}'
    return f'{condition.path} {than} {condition.bound}'
