"""Generator of the reference page of the config, `docs/config.md`, from the `.proto` files.

    python -m protos.generate

The page lists each field with its default, its rule (the option `(rule)`) and its comment. It
begins with the behavior that the config controls.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from google.protobuf import descriptor_pb2

from estimator_lib.config import requirements
from protos import field_rules, rules_pb2

FIRST_OF_OURS = 1000
ROOT = 'TrainEvalPipelineConfig'

# Behavior of a run that users often ask for, with the messages (and all their fields) and fields
# that control it. Their comments describe it.
BEHAVIORS: Sequence[Tuple[str, Sequence[str]]] = (
    ('Checkpoints and evaluations', ('CheckpointConfig', 'EvaluationSchedule')),
    ('The best model', ('BestExport',)),
    ('Early stopping', ('EarlyStopping',)),
    ('Progress', ('ProgressConfig',)),
    (
        'What is trained',
        (
            'TrainConfig.freeze_variables',
            'TrainConfig.update_trainable_variables',
            'TrainConfig.trainable_scopes',
        ),
    ),
    ('NaN and infinite losses', ('TrainConfig.non_finite_loss_policy',)),
    ('Being told to end', ('TrainConfig',)),
    ('Corrupt and invalid records', ('InputReader.corrupt_record_policy',)),
    ('Jobs on a cluster', ('ClusterConfig',)),
)

_TITLE = """# The pipeline config

Written by `python -m protos.generate` out of `protos/*.proto`; edit those.

A pipeline config is protobuf text. The fields of the TF1 Object Detection API keep their names,
numbers, defaults and meaning; numbers from 1000 up are of fields that it does not have. A field is
set in the file, by `--set PATH=VALUE`, or by `--config_override TEXT`. The rule of a field says
what it may be set to and when it has an effect; `--mode=check` lists what a config breaks, and
checks across fields besides.
"""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    _Field.TYPE_BOOL: 'bool',
    _Field.TYPE_FLOAT: 'float',
    _Field.TYPE_INT32: 'int32',
    _Field.TYPE_STRING: 'string',
    _Field.TYPE_UINT32: 'uint32',
    _Field.TYPE_UINT64: 'uint64',
}
# Field numbers of descriptor messages, which form the paths of comments.
_MESSAGES, _ENUMS = 4, 5
_FIELDS, _NESTED_MESSAGES, _NESTED_ENUMS, _VALUES = 2, 3, 4, 2


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes:
        name: of the field.
        number: in the schema.
        comment: its comment in the `.proto` file.
        type_name: a scalar's name, or the name of a message or enum; of a map that of its values.
        kind: a word before the type: `list of`, `map to`; empty for a single value.
        default: as text; empty where none is written.
        oneof: the name of the oneof that it is a member of; empty where it is of none.
        rule: its rule.
    """

    name: str
    number: int
    comment: str
    type_name: str
    kind: str
    default: str
    oneof: str
    rule: rules_pb2.Rule

    @property
    def is_ours(self) -> bool:
        """True if the field is not in the published schema."""
        return self.number >= FIRST_OF_OURS

    @property
    def is_refused(self) -> bool:
        """True if the field is an error for all models."""
        return bool(self.rule.unsupported) and not (self.rule.only_for or self.rule.values)


@dataclasses.dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        comment: its comment in the `.proto` file.
        fields: in the order of the file.
        conflicts: between its fields.
    """

    comment: str
    fields: Tuple[Field, ...]
    conflicts: Tuple[rules_pb2.Conflict, ...] = ()


@dataclasses.dataclass(frozen=True)
class Schema:
    """Schema with its comments; names are without the package.

    Attributes:
        messages: by name: `Ssd.MaskHead`.
        enums: (name, comment) of the values, by the enum's name.
    """

    messages: Mapping[str, Message]
    enums: Mapping[str, Sequence[Tuple[str, str]]]

    def paths(self, with_refused: bool = True) -> Dict[str, str]:
        """Return the shortest path to each message of a config: `train_config.optimizer`.

        Args:
            with_refused: whether paths may lead through fields that are an error for all models.
        """
        paths = {ROOT: ''}
        waiting = collections.deque([ROOT])
        while waiting:
            name = waiting.popleft()
            for field in self.messages[name].fields:
                if field.is_refused and not with_refused:
                    continue
                if field.type_name in self.messages and field.type_name not in paths:
                    paths[field.type_name] = f'{paths[name]}.{field.name}'.lstrip('.')
                    waiting.append(field.type_name)
        return paths

    def own_messages(self) -> List[str]:
        """Return the messages that can only be reached by fields outside the published schema."""
        published = self._published()
        return [name for name in self.paths() if name not in published]

    def _published(self) -> Set[str]:
        reached, waiting = {ROOT}, [ROOT]
        while waiting:
            for field in self.messages[waiting.pop()].fields:
                name = field.type_name
                if not field.is_ours and name in self.messages and name not in reached:
                    reached.add(name)
                    waiting.append(name)
        return reached


def read_schema(files: descriptor_pb2.FileDescriptorSet) -> Schema:
    """Read the schema from descriptors with source comments."""
    messages: Dict[str, Message] = {}
    enums: Dict[str, Sequence[Tuple[str, str]]] = {}
    for file in files.file:
        comments = {
            tuple(place.path): ' '.join(place.leading_comments.split())
            for place in file.source_code_info.location
        }
        for index, message in enumerate(file.message_type):
            _add_message(messages, enums, message, message.name, (_MESSAGES, index), comments)
        for index, enum in enumerate(file.enum_type):
            enums[enum.name] = _enum_values(enum, (_ENUMS, index), comments)
    return Schema(messages, enums)


_Place = Tuple[int, ...]
_Comments = Mapping[_Place, str]


def _add_message(
    messages: Dict[str, Message],
    enums: Dict[str, Sequence[Tuple[str, str]]],
    message: descriptor_pb2.DescriptorProto,
    name: str,
    place: _Place,
    comments: _Comments,
) -> None:
    """Add a message and the messages declared in it."""
    fields = [
        _read_field(field, message, comments.get((*place, _FIELDS, index), ''))
        for index, field in enumerate(message.field)
    ]
    conflicts = field_rules.read_conflicts(message.options)
    messages[name] = Message(comments.get(place, ''), tuple(fields), conflicts)
    for index, nested in enumerate(message.nested_type):
        if nested.options.map_entry:
            continue
        inside = (*place, _NESTED_MESSAGES, index)
        _add_message(messages, enums, nested, f'{name}.{nested.name}', inside, comments)
    for index, enum in enumerate(message.enum_type):
        inside = (*place, _NESTED_ENUMS, index)
        enums[f'{name}.{enum.name}'] = _enum_values(enum, inside, comments)


def _read_field(field: _Field, message: descriptor_pb2.DescriptorProto, comment: str) -> Field:
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    entry = entries.get(field.type_name.rpartition('.')[2])
    held = entry.field[1] if entry else field
    kind = 'list of ' if field.label == _Field.LABEL_REPEATED else ''
    return Field(
        name=field.name,
        number=field.number,
        comment=comment,
        # `.vision_model_fns.protos.Ssd.MaskHead`
        type_name=_SCALARS.get(held.type) or '.'.join(held.type_name.split('.')[3:]),
        kind=f'map from `{_SCALARS[entry.field[0].type]}` to ' if entry else kind,
        default=field.default_value,
        oneof=message.oneof_decl[field.oneof_index].name if field.HasField('oneof_index') else '',
        rule=field_rules.read_rule(field.options),
    )


def _enum_values(
    enum: descriptor_pb2.EnumDescriptorProto, place: _Place, comments: _Comments
) -> List[Tuple[str, str]]:
    return [
        (value.name, comments.get((*place, _VALUES, index), ''))
        for index, value in enumerate(enum.value)
        if not value.options.deprecated
    ]


def render(schema: Schema) -> str:
    """Render the page."""
    paths, supported = schema.paths(), schema.paths(with_refused=False)
    lines = [_TITLE, '## What a run does', '']
    for number, (title, names) in enumerate(BEHAVIORS, start=1):
        lines += [f'### {number}. {title}', '', *_behavior(schema, paths, names)]
    lines += ['## Fields', '']
    for name, path in sorted(paths.items(), key=lambda item: item[1]):
        message = schema.messages[name]
        lines += [f'### {_heading(name, path)}', '']
        lines += [message.comment, ''] if message.comment else []
        if name not in supported:
            lines += ['It is a part of what is not supported.', '']
        lines += _table(schema, message.fields) if message.fields else []
        lines += [*map(_describe_conflict, message.conflicts), ''] if message.conflicts else []
    return '\n'.join(lines).rstrip() + '\n'


def _behavior(schema: Schema, paths: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one behavior and of the fields that control it."""
    decided: List[str] = []
    for name in names:
        message, _, last = name.rpartition('.')
        if name in schema.messages:
            yield from (schema.messages[name].comment, '')
            fields = schema.messages[name].fields if name in schema.own_messages() else ()
            decided += [f'`{paths[name]}.{field.name}`' for field in fields]
        else:
            field = _find(schema, message, last)
            path = f'{paths[message]}.{last}'
            yield from (f'`{path}`: {_meaning(schema, field)}', '')
    if decided:
        yield from (f'Fields: {", ".join(decided)}.', '')


def _find(schema: Schema, message: str, name: str) -> Field:
    return next(field for field in schema.messages[message].fields if field.name == name)


def _heading(name: str, path: str) -> str:
    return f'`{name}`, at `{path}`' if path else f'`{name}`, the config itself'


def _table(schema: Schema, fields: Sequence[Field]) -> List[str]:
    lines = ['| field | type | default | rule | what it does |', '| --- | --- | --- | --- | --- |']
    for field in fields:
        default = f'`{field.default}`' if field.default else ''
        cells = [
            f'`{field.name}` = {field.number}',
            _type(field),
            default,
            _describe_rule(field.rule),
            _meaning(schema, field),
        ]
        lines.append('| ' + ' | '.join(cell.replace('|', '\\|') for cell in cells) + ' |')
    return [*lines, '']


def _type(field: Field) -> str:
    kind = f'{field.kind}`{field.type_name}`'
    return f'{kind}, one of `{field.oneof}`' if field.oneof else kind


def _describe_rule(rule: rules_pb2.Rule) -> str:
    """Describe the allowed values of a field, and when it has an effect."""
    parts = ['required'] if rule.required else []
    allowed = field_rules.to_range(rule)
    if allowed is not None:
        parts.append(str(allowed))
    if rule.not_above:
        parts.append(f'at most `{rule.not_above}`')
    if rule.entries:
        parts.append(f'{rule.entries} entries, or none')
    if rule.one_for_each:
        parts.append(f'one for each of `{rule.one_for_each}`')
    if rule.requires:
        parts.append(f'no effect without `{rule.requires}`')
    for verb, texts in (('needs', rule.needs), ('excludes', rule.excludes)):
        for condition, reason in map(requirements.split_reason, texts):
            parts.append(f'{verb} `{condition}`{reason}')
    models = ', '.join(f'`{word}`' for word in rule.only_for.split())
    others = ''
    if models:
        others = 'for others '
        parts.append(f'{"any value" if rule.values else "only"} for {models}')
    if rule.values:
        parts.append(f'{others}only {" or ".join(f"`{value}`" for value in rule.values)}')
    elif rule.unsupported:
        parts.append(f'{others}not supported: {rule.unsupported}')
    elif rule.ignored:
        parts.append(f'{others}no effect: {rule.ignored}')
    return '; '.join(parts)


def _describe_conflict(conflict: rules_pb2.Conflict) -> str:
    """Describe fields that do not go together, as an entry of a list."""
    fields = ', '.join(f'`{path}`' for path in conflict.of or [conflict.at])
    when = ' and '.join(f'`{condition}`' for condition in conflict.when)
    text = conflict.problem or conflict.warning
    if conflict.ignored:
        text = f'{requirements.describe_no_effect(conflict.ignored)}.'
    text = requirements.replace_names(text, '`{}`'.format)
    return f'- {fields}{" with " if when else ""}{when}: {text}'


def _meaning(schema: Schema, field: Field) -> str:
    """Return the comment of a field; for an enum also the comments of its values."""
    values: Optional[Sequence[Tuple[str, str]]] = schema.enums.get(field.type_name)
    if values is None:
        return field.comment
    listed = [f'`{name}`: {comment}' if comment else f'`{name}`.' for name, comment in values]
    return ' '.join([field.comment, *listed])
