"""What is known of the fields of a config.

A field's own rule is an option in the `.proto` file (`protos.field_rules`). `ConfigRules` holds
what a task says besides: what depends on the task, and checks across fields.
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

# Stands for every field of a message.
ALL = frozenset({'*'})

# The three kinds of field support.
SUPPORTED = 'supported'  # what the field says is done
IGNORED = 'ignored'  # accepted with a warning: nothing can depend on it
UNSUPPORTED = 'unsupported'  # an error when it is set to anything but its default
# That of a field of tasks, where there are no rules of a task.
UNKNOWN = 'unknown'

PipelineConfig = pipeline_pb2.TrainEvalPipelineConfig
Field = descriptor_lib.FieldDescriptor


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the field, as a setting would name it: `eval_input_reader.0.label_map_path`; empty
            where the text names it.
        text: its value and what was expected, or why it is unsupported.
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

    The tables override what the schema says. `Message.field` is by short name,
    `TrainConfig.num_steps`.

    Attributes:
        models: the words of `only_for` in the schema whose fields are supported.
        unlisted: without `models`: why a field that the schema has `only_for` some of them, and
            that no table lists, is an error. Empty: it is not looked at.
        supported: fields that are supported, or `ALL`, by message.
        ignored: why a field has no effect, by message and field.
        unsupported: why a field is an error, by message and field.
        ranges: of numbers, by `Message.field`. Values that are not set are not looked at.
        required: the fields that a message is of no use without, by message. A list must have
            something in it.
        same_in_readers: fields on which all input readers have to agree, and the path of the field
            that decides where it is set ('': the first reader does).
        checkpoint_types: the values of `train_config.fine_tune_checkpoint_type`, and what an empty
            one stands for.
        problems: checks of a whole config, of which only the parts that a mode uses are set.
        doubts: yield sentences about what is allowed, and probably not meant.
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
    doubts: Tuple[Callable[[PipelineConfig], Iterable[str]], ...] = ()

    def __add__(self, other: ConfigRules) -> ConfigRules:
        """Return both rules: of a message that is in both, the fields of both."""
        return ConfigRules(
            **{
                field.name: _joined(getattr(self, field.name), getattr(other, field.name))
                for field in dataclasses.fields(self)
            }
        )

    def support(self, field: Field) -> Tuple[str, str]:
        """Return `SUPPORTED`, `IGNORED`, `UNSUPPORTED` or `UNKNOWN`, and the reason why."""
        # Each check of a config asks this of each of its fields.
        found = self._supports.get(field)
        if found is None:
            found = self._supports[field] = self._find_support(field)
        return found

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
        """Return whether what a field says is done."""
        return self.support(field)[0] == SUPPORTED

    def value_problem(self, field: Field, value: Any) -> str:
        """Return why a value of a field is not one of the supported ones; empty when it is."""
        rule = field_rules.get_rule(field)
        if rule.HasField('only_for') and (not self.models or self._is_listed(rule)):
            return ''
        is_in = not rule.values or schema.value_text(field, value) in rule.values
        return '' if is_in else rule.unsupported

    def range(self, field: Field) -> Optional[Range]:
        """Return the interval that a field's numbers have to be in; None: any number will do."""
        if not self.is_supported(field):
            return None
        name = f'{schema.short_name(field.containing_type)}.{field.name}'
        return self.ranges.get(name) or field_rules.get_range(field)

    def required_fields(self, message: descriptor_lib.Descriptor) -> Iterator[Field]:
        """Yield the fields that a message is of no use without."""
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


def problems_of(build: Callable[..., Any], *arguments: Any) -> Iterator[Problem]:
    """Yield what a function that makes something of a config says when it cannot."""
    try:
        build(*arguments)
    except errors.ConfigError as error:
        path, colon, text = str(error).partition(': ')
        named = colon and ' ' not in path
        yield Problem(path, text) if named else Problem('', str(error))
