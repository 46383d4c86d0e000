"""The first thing in a text that its schema does not allow, and values of words."""

import math

import pytest

from estimator_lib.config.text import schema_walk
from estimator_lib.config.text.tokens import tokenize
from protos import pipeline_pb2, ssd_pb2

Config = pipeline_pb2.TrainEvalPipelineConfig
TRAIN = Config.DESCRIPTOR.fields_by_name['train_config'].message_type.fields_by_name


def problem(text):
    return schema_walk.Walk(tokenize(text), Config.DESCRIPTOR).run()


def test_a_sound_text_has_no_problem():
    assert problem('train_config < batch_size: 3; freeze_variables: ["a", "b"] >') is None


@pytest.mark.parametrize(
    'text, kind, at, path, brace',
    [
        ('train_config { oops: 1 }', schema_walk.UNKNOWN_FIELD, 'oops', 'train_config', ''),
        (
            'train_config { model {} }',
            schema_walk.UNKNOWN_FIELD,
            'model',
            'train_config',
            schema_walk.MISSING,
        ),
        (
            'train_config { } batch_size: 3',
            schema_walk.UNKNOWN_FIELD,
            'batch_size',
            '',
            schema_walk.EXTRA,
        ),
        ('train_config {', schema_walk.UNBALANCED, '', 'train_config', schema_walk.MISSING),
        ('}', schema_walk.UNBALANCED, '}', '', schema_walk.EXTRA),
        ('train_config { >', '', '>', 'train_config', ''),
        ('eval_input_reader {} eval_input_reader { name: x }', '', 'x', 'eval_input_reader.1', ''),
    ],
)
def test_what_and_where(text, kind, at, path, brace):
    found = problem(text)
    assert (found.kind, found.token.text, found.path, found.brace) == (kind, at, path, brace)


def test_a_second_value_knows_the_first():
    found = problem('train_config { batch_size: 1 batch_size: 2 }')
    assert found.kind == schema_walk.DUPLICATE
    assert (found.other.offset, found.token.offset) == (15, 29)


def test_an_escape_in_a_path_is_a_problem_though_it_parses():
    assert problem(r'train_config { fine_tune_checkpoint: "C:\new" }').kind == schema_walk.ESCAPE
    assert problem(r'train_config { freeze_variables: "a\d" }') is None


@pytest.mark.parametrize(
    'field, word, value',
    [
        ('batch_size', '0x1F', 31),
        ('batch_size', '017', 15),
        ('batch_size', '-1', None),
        ('batch_size', '4294967295', 4294967295),
        ('batch_size', '4294967296', None),
        ('batch_size', '1.0', None),
        ('sync_replicas', 't', True),
        ('sync_replicas', '0', False),
        ('sync_replicas', 'yes', None),
        ('gradient_clipping_by_norm', '1e3f', 1000.0),
        ('gradient_clipping_by_norm', '-inf', -math.inf),
        ('gradient_clipping_by_norm', 'ten', None),
        ('non_finite_loss_policy', 'WARN', 1),
        ('non_finite_loss_policy', '1', 1),
        ('non_finite_loss_policy', 'warn', None),
    ],
)
def test_values_of_words(field, word, value):
    assert schema_walk.scalar_value(TRAIN[field], word) == value


def test_expectations():
    assert schema_walk.expectation(TRAIN['batch_size']) == 'a whole number from 0 to 4294967295'
    assert schema_walk.expectation(TRAIN['sync_replicas']) == 'true or false'
    assert schema_walk.expectation(TRAIN['fine_tune_checkpoint']) == 'a string in quotes'
    assert schema_walk.enum_hint(TRAIN['non_finite_loss_policy'], 'WRN') == '; did you mean WARN?'
    assert schema_walk.enum_hint(TRAIN['batch_size'], 'WRN') == '.'


def test_a_deprecated_value_is_read_and_not_proposed():
    box_type = ssd_pb2.Ssd.DESCRIPTOR.fields_by_name['box_type']
    assert schema_walk.scalar_value(box_type, 'UPRIGHT') == 0
    assert schema_walk.scalar_value(box_type, 'AXIS_ALIGNED') == 0
    assert schema_walk.expectation(box_type) == 'one of AXIS_ALIGNED, ROTATED'
    assert schema_walk.enum_hint(box_type, 'UPRIHT') == '.'
