"""The schema: compatible with the published one, with every published config, and as generated."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from google.protobuf import descriptor as descriptor_lib
from google.protobuf import descriptor_pool, message_factory, text_format

from estimator_lib.config import schema
from protos import (
    field_rules,
    generate,
    label_map_pb2,
    pipeline_pb2,
    target_assignment_pb2,
)
from tests.protos import published_schema

PACKAGE = 'vision_model_fns.protos.'
FIRST_OF_OURS = 1000
PROTOS = pathlib.Path(generate.__file__).resolve().parent

Field = descriptor_lib.FieldDescriptor
TYPES = {
    Field.TYPE_BOOL: 'bool',
    Field.TYPE_ENUM: 'enum',
    Field.TYPE_FLOAT: 'float',
    Field.TYPE_INT32: 'int32',
    Field.TYPE_MESSAGE: 'message',
    Field.TYPE_STRING: 'string',
    Field.TYPE_UINT32: 'uint32',
}


@pytest.fixture(scope='module')
def published(shared):
    return json.loads((shared / 'spec' / 'odapi_schema.json').read_text())


def our_name(published):
    """Return the name of a published message or enum in our package."""
    return published.replace(f'{published_schema.PACKAGE}.', PACKAGE)


def find_message(name):
    # The pool holds what has been imported: modules that no other module reaches are named here.
    assert label_map_pb2 and target_assignment_pb2 and pipeline_pb2
    return descriptor_pool.Default().FindMessageTypeByName(our_name(name))


def as_recorded(field):
    """Convert a field to the form of the table of the published schema."""
    recorded = {
        'name': field.name,
        'number': field.number,
        'label': 'repeated' if schema.is_repeated(field) else 'optional',
        'type': TYPES[field.type],
    }
    if field.message_type is not None:
        recorded['type_name'] = field.message_type.full_name
    if field.enum_type is not None:
        recorded['type_name'] = field.enum_type.full_name
    if field.has_default_value:
        recorded['has_explicit_default'] = True
        recorded['default'] = default_of(field)
    if field.GetOptions().deprecated:
        recorded['deprecated'] = True
    if field.containing_oneof is not None and not in_other_units(field):
        recorded['oneof'] = field.containing_oneof.name
    return recorded


def in_other_units(field):
    """Return whether a field's only alternatives are durations of ours: texts stay as they are."""
    others = [member for member in field.containing_oneof.fields if member is not field]
    return bool(others) and all(field_rules.get_rule(member).in_steps for member in others)


def default_of(field):
    """Return a default as it is recorded; an enum's by its name."""
    if field.enum_type is None:
        return field.default_value
    return field.enum_type.values_by_number[field.default_value].name


def without_implied(recorded):
    """Return a recorded field in our package, without the default of one that has none."""
    if 'type_name' in recorded:
        recorded = {**recorded, 'type_name': our_name(recorded['type_name'])}
    if recorded.get('has_explicit_default'):
        return recorded
    implied = ('default', 'has_explicit_default')
    return {key: value for key, value in recorded.items() if key not in implied}


def test_every_published_message_and_field_is_ours_unchanged(published):
    different = []
    for name, fields in published['messages'].items():
        ours = find_message(name).fields_by_name
        for theirs in map(without_implied, fields):
            mine = as_recorded(ours[theirs['name']]) if theirs['name'] in ours else None
            if mine != theirs:
                different.append((name, theirs, mine))
    assert different == []
    assert sum(len(fields) for fields in published['messages'].values()) == 850


def test_our_additions_to_published_messages_are_numbered_from_1000(published):
    for name, fields in published['messages'].items():
        known = {field['name'] for field in fields}
        for field in find_message(name).fields:
            assert field.name in known or field.number >= FIRST_OF_OURS, (name, field.name)


def test_every_published_enum_value_is_ours_and_there_is_no_other(published):
    for name, values in published['enums'].items():
        ours = descriptor_pool.Default().FindEnumTypeByName(our_name(name))
        assert [(value.name, value.number) for value in ours.values] == [
            (value['name'], value['number']) for value in values
        ]


def test_messages_that_could_be_extended_still_can(published):
    for name in published['extendable']:
        assert find_message(name).is_extendable


def test_every_published_config_parses(shared):
    paths = sorted((shared / 'configs').rglob('*.config'))
    assert len(paths) >= 60
    for path in paths:
        config = text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())
        assert config.model.WhichOneof('model'), path.name


def test_the_published_schema_can_be_registered_in_the_same_process(published, shared):
    pool = descriptor_pool.Default()
    pool.Add(published_schema.build_file(published))
    theirs = message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f'{published_schema.PACKAGE}.TrainEvalPipelineConfig')
    )
    path = shared / 'configs' / 'tf1' / 'ssd_mobilenet_v1_coco.config'
    config = text_format.Parse(path.read_text(), theirs())
    ours = text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())
    assert config.SerializeToString() == ours.SerializeToString()


def test_generated_modules_are_those_that_the_generator_makes(tmp_path):
    reason = generate.missing_generator()
    if reason:
        pytest.skip(reason)
    generate.generate(tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / 'protos').glob('*')}
    kept = {path.name: path.read_text() for path in PROTOS.glob('*_pb2.py*')}
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []


def test_the_page_shows_the_rules_as_they_are_written_now(tmp_path):
    reason = generate.missing_generator()
    if reason:
        pytest.skip(reason)
    for folder in (PROTOS, PROTOS.parent / 'tools'):
        ignored = shutil.ignore_patterns('__pycache__')
        shutil.copytree(folder, tmp_path / folder.name, ignore=ignored)
    rules = tmp_path / 'protos' / 'rules.proto'
    text = rules.read_text()
    assert text.count('there are no queues') == 1
    rules.write_text(text.replace('there are no queues', 'there are no lines'))
    (tmp_path / 'docs').mkdir()
    subprocess.run([sys.executable, '-m', 'protos.generate'], cwd=tmp_path, check=True)
    page = (tmp_path / 'docs' / 'config.md').read_text()
    assert 'there are no lines' in page and 'there are no queues' not in page


def test_a_generator_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(generate, 'GRPCIO_TOOLS', '0.0.1')
    with pytest.raises(RuntimeError, match=r'expected 0\.0\.1'):
        generate.generate(tmp_path)


def test_every_message_is_explained():
    bare = []
    for path in sorted(PROTOS.glob('*.proto')):
        lines = path.read_text().splitlines()
        for before, line in zip(lines, lines[1:]):
            if line.strip().startswith('message ') and not before.strip().startswith('//'):
                bare.append(f'{path.name}: {line.strip()}')
    assert bare == []
