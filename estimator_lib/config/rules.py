"""Rules of config fields: support, ranges, required fields and checks.

The rule of a single field is an option in the `.proto` file (`protos.field_rules`). `ConfigRules`
adds the rules that depend on the task, and checks across fields.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, Mapping, Optional, Tuple

from google.protobuf import descriptor as descriptor_lib

from estimator_lib import errors
from estimator_lib.config import schema
from protos import field_rules, pipeline_pb2, rules_pb2
from protos.field_rules import Range

# All fields of a message.
ALL = frozenset({'*'})

# The three kinds of field support.
SUPPORTED = 'supported'  # the field has its effect
IGNORED = 'ignored'  # accepted with a warning; it has no effect
UNSUPPORTED = 'unsupported'  # an error when it is set to anything but its default
# The support of a task's field when the rules of the task are not known.
UNKNOWN = 'unknown'

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig
Field = descriptor_lib.FieldDescriptor


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem of a config.

    Attributes:
        path: the path of the field as in a setting: `eval_input_reader.0.label_map_path`; empty if
            the text names the field.
        text: the value and the expectation, or the reason why the field is unsupported.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f'{self.path}: {self.text}' if self.path else self.text


Checks = Tuple[Callable[[PipelineConfig], Iterable[Problem]], ...]
Reasons = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class ConfigRules:
    """Rules of config fields beyond those of the schema.

    The tables override the rules of the schema. `Message.field` uses short names:
    `TrainConfig.num_steps`.

    Attributes:
        models: the `only_for` words of the schema whose fields are supported.
        unlisted: used without `models`: the reason why a field is an error that the schema has
            `only_for` some models and that no table lists. Empty: such fields are not checked.
        supported: the supported fields, or `ALL`, by message.
        ignored: the reasons why fields have no effect, by message and field.
        unsupported: the reasons why fields are errors, by message and field.
        ranges: the ranges of numbers, by `Message.field`. Values that are not set are not checked.
        required: the required fields, by message. A required list must not be empty.
        same_in_readers: fields that must be equal in all input readers, each with the path of the
            field that decides if it is set ('': the first reader decides).
        checkpoint_types: the values of `train_config.fine_tune_checkpoint_type`, by the type that
            an empty value means.
        problems: checks of a whole config, in which only the parts that a mode uses are set.
        warnings: checks that yield sentences about values that are allowed but probably mistakes.
    """

    models: FrozenSet[str] = frozenset()
    unlisted: str = ''
    supported: Mapping[str, FrozenSet[str]] = dataclasses.field(default_factory=dict)
    ignored: Reasons = dataclasses.field(default_factory=dict)
    unsupported: Reasons = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    required: Mapping[str, Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    same_in_readers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    checkpoint_types: Mapping[str, Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    problems: Checks = ()
    warnings: Tuple[Callable[[PipelineConfig], Iterable[str]], ...] = ()

    def __add__(self, other: ConfigRules) -> ConfigRules:
        """Merge two sets of rules; for a message in both, the fields of both apply."""
        return ConfigRules(
            **{
                field.name: _joined(getattr(self, field.name), getattr(other, field.name))
                for field in dataclasses.fields(self)
            }
        )

    def support(self, field: Field) -> Tuple[str, str]:
        """Return `SUPPORTED`, `IGNORED`, `UNSUPPORTED` or `UNKNOWN`, and the reason why."""
        # Cached because each check of a config asks for each of its fields.
        support = self._supports.get(field)
        if support is None:
            support = self._supports[field] = self._find_support(field)
        return support

    @functools.cached_property
    def _supports(self) -> Dict[Field, Tuple[str, str]]:
        return {}

    def _find_support(self, field: Field) -> Tuple[str, str]:
        message = schema.short_name(field.containing_type)
        for kind, table in ((UNSUPPORTED, self.unsupported), (IGNORED, self.ignored)):
            reason = table.get(message, {}).get(field.name)
            if reason:
                return kind, reason
        supported = self.supported.get(message, ())
        if supported == ALL or field.name in supported:
            return SUPPORTED, ''
        rule = field_rules.get_rule(field)
        for_some = rule.HasField('only_for')
        if rule.values or (for_some and self._is_listed(rule)):
            return SUPPORTED, ''
        if for_some and not self.models:
            return (UNSUPPORTED, self.unlisted) if self.unlisted else (UNKNOWN, '')
        if rule.unsupported:
            return UNSUPPORTED, rule.unsupported
        if rule.ignored:
            return IGNORED, rule.ignored
        return (UNKNOWN if for_some else SUPPORTED), ''

    def is_supported(self, field: Field) -> bool:
        """Return whether a field is supported."""
        return self.support(field)[0] == SUPPORTED

    def value_problem(self, field: Field, value: Any) -> str:
        """Return the reason why a value of a field is unsupported; empty if it is supported."""
        rule = field_rules.get_rule(field)
        if rule.HasField('only_for') and (not self.models or self._is_listed(rule)):
            return ''
        is_in = not rule.values or schema.value_text(field, value) in rule.values
        return '' if is_in else rule.unsupported

    def range(self, field: Field) -> Optional[Range]:
        """Return the interval of a field's numbers; None if any number is allowed."""
        if not self.is_supported(field):
            return None
        name = f'{schema.short_name(field.containing_type)}.{field.name}'
        return self.ranges.get(name) or field_rules.get_range(field)

    def required_fields(self, message: descriptor_lib.Descriptor) -> Iterator[Field]:
        """Yield the required fields of a message."""
        yield from field_rules.find_fields(message, 'required')
        for name in self.required.get(schema.short_name(message), ()):
            yield message.fields_by_name[name]

    def _is_listed(self, rule: rules_pb2.Rule) -> bool:
        return not self.models.isdisjoint(rule.only_for.split())


def _joined(ours: Any, others: Any) -> Any:
    if isinstance(ours, tuple):
        return (*ours, *others)
    if isinstance(ours, frozenset):
        return ours | others
    if not isinstance(ours, Mapping):
        return others or ours
    both = {key: _joined(ours[key], others[key]) for key in ours if key in others}
    return {**ours, **others, **both}


def find_build_problems(build: Callable[..., Any], *arguments: Any) -> Iterator[Problem]:
    """Call a function that builds something from a config; yield its `ConfigError` as a problem."""
    try:
        build(*arguments)
    except errors.ConfigError as error:
        path, colon, text = str(error).partition(': ')
        # A text before a colon that has spaces is a part of a sentence, not a path.
        named = colon and ' ' not in path
        yield Problem(path, text) if named else Problem('', str(error))
