"""The messages and fields that the tokens of a text are in."""

import pytest

from estimator_lib.config.text import places
from estimator_lib.config.text.tokens import tokenize
from protos import pipeline_pb2

TEXT = """
train_config { batch_size: 3 freeze_variables: ["a", "b"] optimizer < adam_optimizer {} > }
eval_input_reader {}
eval_input_reader: [{ shuffle: false }, { name: "x" }]
oops { inner: 4 }
"""


def place_of(text, whole=TEXT):
    """Return path, field, and the place for a value and a name, of the only token of a text."""
    root = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
    (found,) = [
        (place.path, place.frames[-1].field, place.is_value, place.is_name)
        for place in places.walk(tokenize(whole), root)
        if place.token.text == text
    ]
    path, field, is_value, is_name = found
    return path, field.name if field else None, is_value, is_name


@pytest.mark.parametrize(
    'token, expected',
    [
        ('train_config', ('', None, False, True)),
        ('batch_size', ('train_config', None, False, True)),
        ('3', ('train_config', 'batch_size', True, False)),
        ('"a"', ('train_config', 'freeze_variables', True, False)),
        ('"b"', ('train_config', 'freeze_variables', True, False)),
        ('<', ('train_config', 'optimizer', False, False)),
        ('adam_optimizer', ('train_config.optimizer', None, False, True)),
        ('false', ('eval_input_reader.1', 'shuffle', True, False)),
        ('"x"', ('eval_input_reader.2', 'name', True, False)),
        ('4', ('oops', None, True, False)),
    ],
)
def test_where_a_token_stands(token, expected):
    assert place_of(token) == expected


def test_a_message_knows_the_last_one_that_it_held():
    root = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
    *_, last = places.walk(tokenize('model {} train_config { optimizer {} }'), root)
    (frame,) = last.frames
    assert frame.closed.name == 'TrainConfig' and not frame.has('batch_size')
