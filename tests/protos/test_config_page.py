"""The page about the config: as generated, whole, and true to the comments."""

import json
import re

import pytest
from google.protobuf import descriptor_pb2, text_format

from protos import generate, pipeline_pb2
from tools import config_page

PAGE = generate.PAGE.read_text()


def messages(descriptor, found=None):
    """Return all messages that a config can hold, by name."""
    found = {} if found is None else found
    if descriptor.name not in found:
        found[descriptor.full_name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None and field.message_type.full_name not in found:
                messages(field.message_type, found)
    return found


@pytest.fixture(scope='module')
def made():
    reason = generate.missing_generator()
    if reason:
        pytest.skip(reason)
    return generate.page()


def test_the_page_is_what_the_generator_makes(made):
    assert made == PAGE, 'run: python -m protos.generate'


def test_each_field_from_1000_is_on_the_page_with_a_comment():
    fields = [
        field
        for message in messages(pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR).values()
        for field in message.fields
        if field.number >= 1000
    ]
    assert len(fields) >= 31
    for field in fields:
        start = f'| `{field.name}` = {field.number} | '
        rows = [line for line in PAGE.splitlines() if line.startswith(start)]
        assert rows, field.full_name
        for row in rows:  # several messages may have a field of the same name and number
            assert len(row.split(' | ')[-1].rstrip(' |')) > 10, row


def test_the_page_has_each_field():
    rows = [line for line in PAGE.splitlines() if line.startswith('| `')]
    found = messages(pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR).values()
    fields = [
        f'| `{field.name}` = {field.number} |'
        for message in found
        if not message.GetOptions().map_entry
        for field in message.fields
    ]
    assert len(fields) > 1000
    assert sorted(fields) == sorted(row[: row.index('|', 1) + 1] for row in rows)


def test_rules_are_on_the_page():
    assert '| `num_classes` = 1 | `int32` |  | required; at least 1 and at most 1000000 |' in PAGE
    assert (
        '| `skip_scores` = 15 | `bool` | `false` | only for `detection`; for others no effect: it '
        'is about boxes, masks or keypoints, and the model has none |'
    ) in PAGE


def test_values_of_our_enums_have_comments(shared):
    assert '`SKIP`: ' in PAGE
    published = json.loads((shared / 'spec' / 'odapi_schema.json').read_text())['enums']
    bare = re.findall(r'^\| `\w+` = \d+ \| `([\w.]+)`.*`[A-Z_0-9]+`\.(?: |$)', PAGE, re.MULTILINE)
    assert bare
    assert {name for name in bare if f'object_detection.protos.{name}' not in published} == set()


def test_the_page_has_each_behavior_with_text():
    sections = PAGE.partition('## What a run does')[2].partition('\n## ')[0].split('\n### ')[1:]
    assert [section.split('.')[0] for section in sections] == [str(n) for n in range(1, 10)]
    for section in sections:
        assert len(section.splitlines()[2]) > 60, section


def test_paths_on_the_page_are_there():
    # Tests of config rules know which message a condition or a conflict is about.
    text = PAGE.partition('## What a run does')[2]
    text = re.sub(r'(no effect without|needs|excludes) `[^`]*`|^- .*$', '', text, flags=re.M)
    paths = re.findall(r'`([a-z_]+\.[a-z_.]+)`', text)
    assert len(paths) > 30
    for path in paths:
        descriptor = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
        for part in path.split('.'):
            field = descriptor.fields_by_name[part]
            descriptor = field.message_type


FILE = """
file {
  package: 'vision_model_fns.protos'
  message_type {
    name: 'TrainEvalPipelineConfig'
    field { name: 'old' number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL
            type_name: '.vision_model_fns.protos.Old' }
    field { name: 'new' number: 1000 type: TYPE_MESSAGE label: LABEL_OPTIONAL
            type_name: '.vision_model_fns.protos.New' }
  }
  message_type {
    name: 'Old'
    field { name: 'kept' number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
    field { name: 'ours' number: 1001 type: TYPE_ENUM label: LABEL_REPEATED
            type_name: '.vision_model_fns.protos.New.Kind' default_value: 'A' }
  }
  message_type {
    name: 'New'
    field { name: 'size' number: 1 type: TYPE_UINT32 label: LABEL_OPTIONAL default_value: '7'
            oneof_index: 0 options { [vision_model_fns.protos.rule] {
              required: true more_than: 0 max: 9 not_above: 'most' requires: 'a: B|C' } } }
    field { name: 'back' number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL
            type_name: '.vision_model_fns.protos.Old'
            options { [vision_model_fns.protos.rule] { ignored: 'it is old' } } }
    field { name: 'lost' number: 3 type: TYPE_MESSAGE label: LABEL_OPTIONAL
            type_name: '.vision_model_fns.protos.Lost'
            options { [vision_model_fns.protos.rule] { unsupported: 'it is lost' } } }
    field { name: 'names' number: 4 type: TYPE_MESSAGE label: LABEL_REPEATED
            type_name: '.vision_model_fns.protos.New.NamesEntry'
            options { [vision_model_fns.protos.rule] { only_for: 'a b' unsupported: 'few' } } }
    field { name: 'bits' number: 5 type: TYPE_UINT32 label: LABEL_OPTIONAL
            options { [vision_model_fns.protos.rule] { only_for: 'a' values: ['8', '9']
                                                       unsupported: 'few' } } }
    field { name: 'deep' number: 6 type: TYPE_BOOL label: LABEL_OPTIONAL
            options { [vision_model_fns.protos.rule] {
              needs: 'size > 4 because it is wide'
              excludes: ['bits', 'back because it is old'] } } }
    options {
      [vision_model_fns.protos.conflict] {
        when: 'deep' of: ['size', 'bits'] ignored: 'without {back.kept}' }
      [vision_model_fns.protos.conflict] { of: 'size' ignored: 'it is small' }
      [vision_model_fns.protos.conflict] {
        at: 'size' problem: '{size}; expected { kept } or {back.kept}.' }
    }
    nested_type {
      name: 'NamesEntry'
      field { name: 'key' number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: 'value' number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL
              type_name: '.vision_model_fns.protos.Old' }
      options { map_entry: true }
    }
    enum_type { name: 'Kind' value { name: 'A' number: 0 } value { name: 'B' number: 1 } }
    oneof_decl { name: 'choice' }
  }
  message_type { name: 'Lost' }
  source_code_info {
    location { path: [4, 0, 2, 1] leading_comments: ' What is\\n new.\\n' }
    location { path: [4, 1, 2, 1] leading_comments: ' One | two.\\n' }
    location { path: [4, 2] leading_comments: ' A message.\\n' }
    location { path: [4, 2, 2, 0] leading_comments: ' In pixels.\\n' }
    location { path: [4, 2, 4, 0, 2, 1] leading_comments: ' The second.\\n' }
  }
}
"""


def test_a_page_by_hand(monkeypatch):
    files = text_format.Parse(FILE, descriptor_pb2.FileDescriptorSet())
    monkeypatch.setattr(config_page, 'BEHAVIORS', [('Title', ('New', 'Old.ours'))])
    page = config_page.render(config_page.read_schema(files))
    assert page.partition('## What a run does\n')[2] == (
        """
### 1. Title

A message.

`old.ours`: One | two. `A`. `B`: The second.

Fields: `new.size`, `new.back`, `new.lost`, `new.names`, `new.bits`, `new.deep`.

## Fields

### `TrainEvalPipelineConfig`, the config itself

| field | type | default | rule | what it does |
| --- | --- | --- | --- | --- |
| `old` = 1 | `Old` |  |  |  |
| `new` = 1000 | `New` |  |  | What is new. |

### `New`, at `new`

A message.

| field | type | default | rule | what it does |
| --- | --- | --- | --- | --- |
| `size` = 1 | `uint32`, one of `choice` | `7` | required; more than 0 and at most 9; at most \
`most`; no effect without `a: B\\|C` | In pixels. |
| `back` = 2 | `Old` |  | no effect: it is old |  |
| `lost` = 3 | `Lost` |  | not supported: it is lost |  |
| `names` = 4 | map from `string` to `Old` |  | only for `a`, `b`; for others not supported: few \
|  |
| `bits` = 5 | `uint32` |  | any value for `a`; for others only `8` or `9` |  |
| `deep` = 6 | `bool` |  | needs `size > 4`, because it is wide; excludes `bits`; excludes `back`, \
because it is old |  |

- `size`, `bits` with `deep`: no effect without `back.kept`.
- `size`: no effect: it is small.
- `size`: `size`; expected { kept } or `back.kept`.

### `Lost`, at `new.lost`

It is a part of what is not supported.

### `Old`, at `old`

| field | type | default | rule | what it does |
| --- | --- | --- | --- | --- |
| `kept` = 2 | `float` |  |  |  |
| `ours` = 1001 | list of `New.Kind` | `A` |  | One \\| two. `A`. `B`: The second. |
"""
    )
