"""The published schema as a file descriptor, built from the recorded table of its fields."""

from google.protobuf import descriptor_pb2

PACKAGE = 'object_detection.protos'

_Field = descriptor_pb2.FieldDescriptorProto


def build_file(published):
    """Build one file of all published messages and enums.

    Args:
        published: the table of `odapi_schema.json`.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name='object_detection/protos/published.proto', package=PACKAGE, syntax='proto2'
    )
    messages = {}
    for name in sorted(published['messages']):  # those that hold others come first
        holder, own_name = _holder(file, messages, name)
        add = holder.nested_type.add if name.count('.') > 2 else holder.message_type.add
        messages[name] = message = add(name=own_name)
        message.options.map_entry = own_name.endswith('Entry')
        for field in published['messages'][name]:
            _add_field(message, field)
    for name in published['extendable']:
        messages[name].extension_range.add(start=1000, end=2**29)
    for name, values in published['enums'].items():
        holder, own_name = _holder(file, messages, name)
        enum = holder.enum_type.add(name=own_name)
        for value in values:
            enum.value.add(name=value['name'], number=value['number'])
    return file


def _holder(file, messages, name):
    """Return the file or message that declares a type, and its name there."""
    above, _, own_name = name.rpartition('.')
    return messages.get(above, file), own_name


def _add_field(message, field):
    made = message.field.add(
        name=field['name'],
        number=field['number'],
        label=_Field.Label.Value(f'LABEL_{field["label"].upper()}'),
        type=_Field.Type.Value(f'TYPE_{field["type"].upper()}'),
    )
    if 'type_name' in field:
        made.type_name = f'.{field["type_name"]}'
    if field.get('has_explicit_default'):
        value = field['default']
        made.default_value = str(value).lower() if isinstance(value, bool) else str(value)
    if 'oneof' in field:
        names = [oneof.name for oneof in message.oneof_decl]
        if field['oneof'] not in names:
            message.oneof_decl.add(name=field['oneof'])
        made.oneof_index = (
            len(names) if field['oneof'] not in names else names.index(field['oneof'])
        )
