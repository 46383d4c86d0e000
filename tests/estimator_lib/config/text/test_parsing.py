"""What a user reads when a config does not parse."""

import re

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.config.text import parsing, tokens
from protos import label_map_pb2, pipeline_pb2

Config = pipeline_pb2.TrainEvalPipelineConfig


def message_of(text, message=None):
    with pytest.raises(errors.ConfigError) as caught:
        parsing.parse(text, Config() if message is None else message, 'a.config')
    return str(caught.value)


def test_place_path_line_caret_suggestion_and_known_fields():
    lines = message_of('model {\n  classification {\n    num_clases: 3\n  }\n}\n').splitlines()
    assert lines[0] == (
        "a.config:3:5: in model.classification: Classification has no field 'num_clases'; "
        "did you mean 'num_classes'?"
    )
    assert lines[1] == '    num_clases: 3'
    assert lines[2] == '    ^'
    assert lines[3].startswith('Fields of Classification, nearest first: num_classes, ')
    assert 'label_smoothing' in ' '.join(lines[3:])


def test_the_caret_stands_under_its_character_after_tabs():
    lines = message_of('train_config {\n\tbatch_size:\tx\n}').splitlines()
    assert lines[0].startswith('a.config:2:14: in train_config: ')
    assert lines[1:3] == ['\tbatch_size:\tx', '\t           \t^']


def test_a_long_line_is_cut_around_the_place():
    text = 'train_config { ' + 'freeze_variables: "x" ' * 40 + 'oops: 1 }'
    lines = message_of(text).splitlines()
    column = lines[2].index('^')
    assert len(lines[1]) <= 110 and lines[1][column:].startswith('oops')


# The five causes that people really hit.


@pytest.mark.parametrize('quotes', ['“”', '‘’', '„“', '«»'])
def test_smart_quotes_are_named(quotes):
    text = f'train_config {{\n  fine_tune_checkpoint: {quotes[0]}/a/b{quotes[1]}\n}}'
    message = message_of(text)
    assert message.startswith('a.config:2:25: in train_config: ')
    assert 'typographic ("smart") quote' in message


def test_a_string_that_ends_with_a_smart_quote_is_named():
    message = message_of('train_config {\n  fine_tune_checkpoint: "/a/b”\n}')
    assert 'typographic ("smart") quote' in message


def test_smart_quotes_within_a_string_or_comment_are_fine():
    config = Config()
    parsing.parse('# “x”\ntrain_config { freeze_variables: "“x”" }', config, 'a.config')
    assert config.train_config.freeze_variables == ['“x”']


UNCLOSED = """model {
  classification {
    num_classes: 3
    backbone {
      name: 'lenet'
    label_smoothing: 0.1
  }
}
train_config {
}
"""


def test_an_unclosed_brace_is_named_by_the_line_that_opened_it():
    message = message_of(UNCLOSED)
    assert message.startswith('a.config:6:5: in model.classification.backbone: ')
    assert "the brace opened on line 4, column 14 ('backbone {') is not closed" in message
    assert "the '}' on line 7 stands left of it" in message


def test_an_unclosed_brace_at_the_end_of_the_text_is_named():
    message = message_of('train_config {\n  batch_size: 3\n')
    assert message.startswith('a.config:2:16: in train_config: ')
    assert "the brace opened on line 1, column 14 ('train_config {') is not closed." in message


def test_an_unclosed_brace_in_one_line_is_named():
    message = message_of('model { classification { num_classes: 3 } train_config { batch_size: 3 }')
    assert 'the brace opened on line 1, column 7 ' in message
    assert "so 'train_config' is read as a part of it" in message


def test_an_unclosed_brace_is_not_blamed_for_an_earlier_mistake():
    message = message_of('model {\n  clasification {\n  }\n}\ntrain_config {\n')
    assert "did you mean 'classification'?" in message and 'brace' not in message


def test_one_brace_too_many_is_named():
    message = message_of('train_config {\n}\n}\n')
    assert message.startswith('a.config:3:1: ')
    assert "one closing brace too many, most likely '}' on line 3" in message


def test_a_stray_brace_before_a_field_of_the_closed_message_is_named():
    text = 'model {\n  classification {\n    backbone {\n    }\n    }\n    num_classes: 3\n  }\n}\n'
    message = message_of(text)
    assert message.startswith('a.config:6:5: in model: ')
    assert "there is one closing brace too many, most likely '}' on line 5." in message


@pytest.mark.parametrize(
    'text',
    [
        '<!DOCTYPE html>\n<html><body>model {}</body></html>',
        '\n\n<html lang="en">\n',
        '<?xml version="1.0"?>\n',
        'model {\n  <span class="pl-c1">ssd</span> {\n  }\n}',
        'train_config {\n  freeze_variables: &quot;x&quot;\n}',
    ],
)
def test_a_pasted_web_page_is_named(text):
    message = message_of(text)
    assert 'this is a web page (HTML)' in message and 'raw' in message


def test_angle_brackets_are_braces_where_they_balance():
    config = Config()
    parsing.parse('train_config < batch_size: 3 >', config, 'a.config')
    assert config.train_config.batch_size == 3


@pytest.mark.parametrize(
    ('written', 'mended'),
    [
        (r'C:\new\data', 'C:/new/data'),
        (r'C:\Users\me', 'C:/Users/me'),
        (r'D:\x.record', 'D:/x.record'),
        (r'data\train.record', 'data/train.record'),
    ],
)
def test_backslashes_of_a_windows_path_are_named(written, mended):
    text = f'train_input_reader {{\n  tf_record_input_reader {{ input_path: "{written}" }}\n}}'
    message = message_of(text)
    assert message.startswith('a.config:2:40: in train_input_reader.tf_record_input_reader: ')
    assert f'write "{mended}" with slashes, or double each backslash' in message


def test_a_path_that_ends_with_a_backslash_is_named():
    message = message_of('train_config { fine_tune_checkpoint: "C:\\data\\" }')
    assert 'A backslash before a quote keeps the string open' in message


@pytest.mark.parametrize('written', [r'C:\\new\\data', r'a\\b', '/x/\\303\\244'])
def test_escaped_backslashes_and_octal_bytes_are_fine(written):
    config = Config()
    parsing.parse(f'train_config {{ fine_tune_checkpoint: "{written}" }}', config, 'a.config')
    assert config.train_config.fine_tune_checkpoint


def test_a_word_boundary_written_as_a_backspace_is_named():
    message = message_of(r'train_config { freeze_variables: "Conv\b" }')
    assert r'"\b" in a string is a control character' in message and r'write "\\b"' in message


def test_backslashes_of_a_regular_expression_are_fine():
    config = Config()
    parsing.parse(r'train_config { freeze_variables: "Conv\d+\.x" }', config, 'a.config')
    assert config.train_config.freeze_variables == [r'Conv\d+\.x']


def test_a_field_of_another_place_is_found():
    message = message_of('num_steps: 3')
    assert "TrainEvalPipelineConfig has no field 'num_steps'." in message
    assert 'Here it is train_config.num_steps.' in message


def test_a_field_of_another_system_has_its_name_here():
    message = message_of('train_config {\n  keep_checkpoint_max: 3\n}')
    assert 'Here it is train_config.checkpoints.keep_max.' in message


def test_a_field_of_another_version_is_called_that():
    message = message_of('model {\n  ssd {\n    frobnicate: 1\n  }\n}')
    assert 'another version or variant of the config' in message
    assert 'Fields of Ssd, nearest first: ' in message


def test_a_dotted_path_in_a_file_is_explained():
    assert 'A dotted path is for settings' in message_of('train_config.batch_size: 3')


# Values of the wrong type.


@pytest.mark.parametrize(
    ('field', 'expected'),
    [
        ('batch_size: "8"', 'a whole number from 0 to 4294967295, got the string "8": write 8 w'),
        ('batch_size: -1', "a whole number from 0 to 4294967295, got '-1'"),
        ('batch_size: 1.5', "a whole number from 0 to 4294967295, got '1.5'"),
        ('batch_size: 4294967296', "got '4294967296'"),
        ('batch_size: }', "got '}'"),
        ('sync_replicas: yes', "'sync_replicas' expects true or false, got 'yes'"),
        ('sync_replicas: 2', 'expects true or false'),
        ('gradient_clipping_by_norm: ten', "expects a number, got 'ten'"),
        ('fine_tune_checkpoint: a', 'expects a string in quotes, got \'a\': write "a"'),
        ('fine_tune_checkpoint: 3', 'expects a string in quotes, got \'3\': write "3"'),
        (
            'non_finite_loss_policy: WRN',
            "one of STOP_TRAINING, WARN, SKIP_STEP, got 'WRN'; did you mean WARN",
        ),
        ('non_finite_loss_policy: "WARN"', 'write WARN without quotes'),
        ('non_finite_loss_policy: 9', 'one of STOP_TRAINING, WARN, SKIP_STEP'),
        ('optimizer: 2', "expected '{': 'optimizer' is a message (Optimizer), got '2'"),
        ('batch_size { }', "expected ':' after 'batch_size', got '{'"),
        ('batch_size = 3', 'Fields are set with ":", not with "="'),
        ('batch_size: [1, 2]', "'batch_size' takes one value, not a list"),
        ('freeze_variables: ["a" "b" }', "expected ',' or ']' in a list, got '}'"),
        ('// c', 'Comments begin with "#"'),
        ('\u200bbatch_size: 3', 'ZERO WIDTH SPACE (U+200B)'),
        ('[a.b]: 3', 'Extensions'),
        ('3: 4', "TrainConfig has no field '3'"),
    ],
)
def test_what_was_expected_is_said(field, expected):
    assert expected in message_of(f'train_config {{\n  {field}\n}}\n')


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('train_config { num_steps 5 }', "expected ':' after 'num_steps', got '5'."),
        ('train_config { num_steps }', "expected ':' after 'num_steps', got '}'."),
        ('train_config { num_steps', "expected ':' after"),
        ('model ssd { }', "expected '{': 'model' is a message"),
        ('train_config "x"', "expected '{':"),
        ('train_config { num_steps = 5 }', "expected ':' after 'num_steps'"),
    ],
)
def test_a_field_without_its_colon_or_brace_is_explained(text, expected):
    explanation = message_of(text).splitlines()[0].partition(': ')[2]
    assert explanation.removeprefix('in train_config: ').startswith(expected)


@pytest.mark.parametrize(
    'text',
    [
        'train_config { fine_tune_checkpoint: "\\377" }',
        'train_config < fine_tune_checkpoint: "\\377" >',
        'train_config { fine_tune_checkpoint: "\\377" num_steps: 3 }',
    ],
)
def test_a_string_that_is_not_utf8_keeps_the_reason_of_the_parser(text):
    explanation = message_of(text).splitlines()[0]
    assert "'utf-8' codec can't decode byte 0xff" in explanation and 'expected' not in explanation


@pytest.mark.parametrize(
    ('text', 'name'),
    [
        ('train_config: [ { } ]', 'train_config'),
        ('train_config [ { } ]', 'train_config'),
        ('train_config { num_steps: [1] }', 'num_steps'),
    ],
)
def test_a_list_for_one_value_is_named(text, name):
    explanation = message_of(text).splitlines()[0]
    assert explanation.endswith(f': {name!r} takes one value, not a list.')


def test_json_is_recognised():
    assert 'This looks like JSON' in message_of('{"model": {}}')


def test_a_field_given_twice_names_the_first_line():
    message = message_of('train_config {\n  batch_size: 1\n  num_steps: 2\n  batch_size: 3\n}')
    assert message.startswith('a.config:4:3: in train_config: ')
    assert "'batch_size' is given twice, first on line 2; it takes one value." in message


def test_two_members_of_a_oneof_name_each_other():
    text = 'train_config {\n optimizer {\n  adam_optimizer {}\n  sgd_optimizer {}\n }\n}'
    message = message_of(text)
    assert message.startswith('a.config:4:3: in train_config.optimizer: ')
    assert "'sgd_optimizer' excludes 'adam_optimizer', which line 3 gives." in message


def test_repeated_messages_are_counted_in_the_path():
    text = 'eval_input_reader {}\neval_input_reader {\n  shuffle: maybe\n}'
    assert 'in eval_input_reader.1: ' in message_of(text)


def test_messages_of_other_kinds_are_parsed_too():
    message = message_of('item {\n  idd: 3\n}', label_map_pb2.StringIntLabelMap())
    assert message.startswith("a.config:2:3: in item.0: StringIntLabelMapItem has no field 'idd'")


VALID = """
model { ssd { num_classes: 3 anchor_generator { ssd_anchor_generator { scales: [0.1, .2, 3] } } } }
train_config: {
  batch_size: 8, optimizer < adam_optimizer { epsilon: 1e-7 } >
  freeze_variables: "a" 'b'
  sync_replicas: true; non_finite_loss_policy: WARN
}
eval_config { super_categories { key: "a" value: "b" } }
eval_input_reader { name: 'x' } # comment
eval_input_reader: [{ name: "y" }, { shuffle: false }]
"""
TOKENS = tokens.tokenize(VALID)[:-1]
PIECES = ['{', '}', '[', ']', '<', '>', ':', ',', ';', '"', '“', '=', '-', '1', '-1', '1.5', 'true']
PIECES += ['"x"', 'num_classes', 'name', '#', '\\', '\n', '0x1F', '1e5', 'inf', 'nan', '.5', '5.']
PIECES += ['1f', '077', 'a.b', '\u00a0', '\u200b', "'a' 'b'", '+1', '1_000', 'WARN', 't', '$']


@st.composite
def changed_texts(draw):
    """Draw the valid text with one or two tokens removed, replaced, or added."""
    text = VALID
    for place in sorted(draw(st.sets(st.integers(0, len(TOKENS) - 1), max_size=2)), reverse=True):
        token = TOKENS[place]
        end = token.offset + len(token.text)
        instead = draw(st.sampled_from(['', *PIECES, *(f'{p} {token.text}' for p in PIECES)]))
        text = f'{text[: token.offset]} {instead} {text[end:]}'
    return text


@settings(max_examples=300, deadline=None)
@given(changed_texts())
def test_every_text_that_the_parser_refuses_is_explained(text):
    try:
        text_format.Parse(text, Config())
    except text_format.ParseError:
        assert re.match(r'a\.config:\d+:\d+: ', message_of(text))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_parses_or_is_explained(text):
    try:
        parsing.parse(text, Config(), 'a.config')
    except errors.ConfigError as error:
        assert re.match(r'a\.config:\d+:\d+: ', str(error))
