"""Names in the conditions of fields (`requires`), compared with the schema."""

from __future__ import annotations

from google.protobuf import message as message_lib

from estimator_lib.config.requirements import (
    PipelineConfig,
    _find_owner,
    _parse_all,
    split_reason,
)


def check_names(requires: str, message: message_lib.Message, config: PipelineConfig) -> None:
    """Check that the fields and values of a condition are part of the schema.

    Raises:
        ValueError: a name is unknown.
    """
    text, _ = split_reason(requires)
    for condition in _parse_all(text):
        owner, name = _find_owner(condition.path, message, config)
        oneof = owner.DESCRIPTOR.oneofs_by_name.get(name)
        field = owner.DESCRIPTOR.fields_by_name.get(name)
        if field is None and oneof is None:
            raise ValueError(f'{requires}: {condition.path} is no field.')
        if condition.bound and not condition.bound[0].isdecimal():
            check_names(condition.bound, message, config)
        if oneof is not None:
            known = [member.name for member in oneof.fields]
        else:
            known = field.enum_type.values_by_name if field.enum_type else condition.values
        unknown = [value for value in condition.values if value not in known]
        if unknown:
            raise ValueError(f'{requires}: {unknown[0]} is no value of {condition.path}.')
