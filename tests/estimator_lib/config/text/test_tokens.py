"""Tokens, places and braces of a config's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib.config.text import tokens as tokens_lib


def kinds(text):
    return [(token.kind, token.text) for token in tokens_lib.tokenize(text)[:-1]]


def test_tokens():
    text = "a: -1.5e-3 # comment {\n[b] { 'it\\'s' \"x#y\" }"
    assert kinds(text) == [
        ('word', 'a'),
        ('symbol', ':'),
        ('word', '-1.5e-3'),
        ('symbol', '['),
        ('word', 'b'),
        ('symbol', ']'),
        ('symbol', '{'),
        ('string', "'it\\'s'"),
        ('string', '"x#y"'),
        ('symbol', '}'),
    ]


def test_a_string_ends_with_its_line():
    assert kinds('a: "b\nc') == [
        ('word', 'a'),
        ('symbol', ':'),
        ('unclosed string', '"b'),
        ('word', 'c'),
    ]


def test_the_end_stands_behind_the_last_token():
    end = tokens_lib.tokenize('ab  # c\n\n')[-1]
    assert (end.kind, end.text, end.offset) == ('end', '', 2)


@given(st.text(max_size=80))
def test_tokens_are_where_they_say(text):
    for token in tokens_lib.tokenize(text):
        assert text.startswith(token.text, token.offset)


@given(st.text('ab\n\t ', max_size=40), st.data())
def test_places_and_offsets_are_inverse(text, data):
    source = tokens_lib.Source(text, 'f')
    offset = data.draw(st.integers(0, len(text)))
    line, column = source.line_number(offset), source.column(offset)
    before = sum(len(each) + 1 for each in text.split('\n')[: line - 1])
    assert before + column - 1 == offset
    assert source.line(offset) == text.split('\n')[line - 1]


def test_place_and_picture():
    source = tokens_lib.Source('one\n\ttwo three\n', 'f')
    assert source.place(9) == 'f:2:6'
    assert source.picture(9) == '\ttwo three\n\t    ^'


@pytest.mark.parametrize(
    ('text', 'fault'),
    [
        ('a {\n  b {\n  }\n}\n', None),
        ('a { b { } }', None),
        ('a < b { } >', None),
        ('a {\n  b {\n    c {\n  }\n}\n', ('{', 3)),  # `}` on line 4 was meant for b
        ('a {\n  b {\n    c: 1\n', ('{', 2)),
        ('a {\n}\n}\n', ('}', 3)),
        ('a {\n  b {\n    }\n    }\n  }\n}\n', ('}', 3)),  # the first one that is too far right
        ('}', ('}', 1)),
    ],
)
def test_brace_faults(text, fault):
    source = tokens_lib.Source(text, 'f')
    found = tokens_lib.find_brace_fault(source, tokens_lib.tokenize(text))
    if fault is None:
        assert found is None
    else:
        assert (found.token.text, source.line_number(found.token.offset)) == fault
        assert found.is_unclosed == (fault[0] == '{')
