"""Names in the conditions of fields (`requires`), compared with the schema."""

from __future__ import annotations

from google.protobuf import message as message_lib

from estimator_lib.config.requirements import _OR, PipelineConfig, _owner, _parse


def check_names(requires: str, message: message_lib.Message, config: PipelineConfig) -> None:
    """Check that the fields and values of a condition are part of the schema.

    Raises:
        ValueError: a name is unknown.
    """
    for part in requires.split(_OR):
        condition = _parse(part)
        owner, name = _owner(condition.path, message, config)
        field = owner.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f'{requires}: {condition.path} is no field.')
        known = field.enum_type.values_by_name if field.enum_type else condition.values
        unknown = [value for value in condition.values if value not in known]
        if unknown:
            raise ValueError(f'{requires}: {unknown[0]} is no value of {condition.path}.')
