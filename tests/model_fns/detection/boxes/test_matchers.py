from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import matcher_builder, matchers
from protos import target_assignment_pb2

tf1 = tf.compat.v1

NO, SKIP = matchers.UNMATCHED, matchers.IGNORED
FORCED = 'force_match_for_each_row: true'
SIMILARITY = [[0.7, 0.45, 0.1, 0.0], [0.1, 0.2, 0.0, 0.3]]


def matcher_of(text):
    return matcher_builder.build_matcher(
        Section(text_format.Parse(text, target_assignment_pb2.Matcher()), 'here.matcher')
    )


def argmax(options='', similarity=SIMILARITY, valid=None, claiming=None):
    return match(f'argmax_matcher {{ {options} }}', similarity, valid, claiming)


@functools.cache
def graph_of(text):
    """Build a session with the placeholders and matches of a matcher."""
    with tf.Graph().as_default() as graph:
        inputs = (
            tf1.placeholder(tf.float32, [None, None, None]),
            tf1.placeholder(tf.bool, [None, None]),
            tf1.placeholder(tf.bool, [None, None]),
        )
        matches = matcher_of(text).match(*inputs)
    assert matches.dtype == tf.int32
    return tf1.Session(graph=graph), inputs, matches


def match_batch(text, similarity, valid, claiming):
    session, inputs, matches = graph_of(text)
    return session.run(matches, dict(zip(inputs, (similarity, valid, claiming)))).tolist()


def match(text, similarity, valid=None, claiming=None):
    """Return the matches of one image as a list."""
    valid = [True] * len(similarity) if valid is None else valid
    claiming = valid if claiming is None else claiming
    return match_batch(text, [similarity], [valid], [claiming])[0]


def test_the_most_alike_box_that_is_alike_enough():
    assert argmax() == [0, NO, NO, NO]
    assert argmax('matched_threshold: 0.2 unmatched_threshold: 0.2') == [0, 0, NO, 1]


def test_exactly_the_threshold_is_enough():
    assert argmax(similarity=[[0.5, 0.4999]]) == [0, NO]
    between = 'matched_threshold: 0.7 unmatched_threshold: 0.3'
    assert argmax(between, [[0.3, 0.7]]) == [SKIP, 0]


def test_between_two_thresholds_an_anchor_is_ignored():
    assert argmax('unmatched_threshold: 0.25') == [0, SKIP, NO, SKIP]


def test_negatives_between_the_thresholds():
    swapped = 'unmatched_threshold: 0.25 negatives_lower_than_unmatched: false'
    assert argmax(swapped) == [0, NO, SKIP, NO]


def test_without_thresholds_every_anchor_is_matched():
    assert argmax('ignore_thresholds: true') == [0, 0, 0, 1]


def test_of_equal_boxes_the_first():
    assert argmax(similarity=[[0.6], [0.6]]) == [0]


def test_each_box_claims_its_best_anchor():
    assert argmax(FORCED) == [0, NO, NO, 1]


def test_the_first_of_two_boxes_that_want_an_anchor_gets_it():
    both_want_the_first = [[0.3, 0.1], [0.9, 0.2]]
    assert argmax(FORCED, both_want_the_first) == [0, NO]
    assert argmax('', both_want_the_first) == [1, NO]


def test_boxes_without_weight_claim_nothing():
    assert argmax(FORCED, claiming=[True, False]) == [0, NO, NO, NO]
    assert argmax(FORCED, claiming=[False, True]) == [0, NO, NO, 1]


def test_padding_is_matched_by_nothing():
    similarity = [[0.6, 0.1], [0.9, 0.9]]
    for options in ('', FORCED):
        assert argmax(options, similarity, valid=[True, False]) == [0, NO]
    assert argmax('ignore_thresholds: true', similarity, valid=[True, False]) == [0, 0]


@pytest.mark.parametrize(
    'options',
    [
        '',
        FORCED,
        'ignore_thresholds: true',
        'unmatched_threshold: 0.2 negatives_lower_than_unmatched: false',
    ],
)
def test_an_image_without_boxes_has_negatives_alone(options):
    assert argmax(options, valid=[False, False]) == [NO] * 4


def test_a_batch_without_any_row():
    rows = np.zeros([2, 0], bool)
    found = match_batch(f'argmax_matcher {{ {FORCED} }}', np.zeros([2, 0, 3]), rows, rows)
    assert found == [[NO] * 3] * 2


def test_images_of_a_batch_are_matched_by_themselves():
    valid = [[True, True], [False, True]]
    found = match_batch(f'argmax_matcher {{ {FORCED} }}', [SIMILARITY] * 2, valid, valid)
    assert found == [[0, NO, NO, 1], [NO, NO, NO, 1]]


def test_static_shapes():
    with tf.Graph().as_default(), tf1.Session() as session:
        rows = tf.constant([[True, True]])
        matches = matcher_of('argmax_matcher {}').match(tf.constant([SIMILARITY]), rows, rows)
        assert matches.shape.as_list() == [1, 4]
        assert session.run(matches).tolist() == [[0, NO, NO, NO]]


def slow_forced(similarity, valid, claiming, matched, unmatched):
    """Match one image, anchor by anchor."""
    rows, anchors = similarity.shape
    matches = []
    for anchor in range(anchors):
        best = max(
            (row for row in range(rows) if valid[row]),
            key=lambda row, at=anchor: (similarity[row, at], -row),
            default=None,
        )
        if best is None or similarity[best, anchor] < unmatched:
            matches.append(NO)
        else:
            matches.append(best if similarity[best, anchor] >= matched else SKIP)
    for row in reversed(range(rows)):
        if claiming[row]:
            matches[int(similarity[row].argmax())] = row
    return matches


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_as_one_by_one(data):
    rows, anchors = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    steps = st.integers(0, 10).map(lambda value: np.float32(value / 10))
    similarity = np.array(
        data.draw(st.lists(steps, min_size=rows * anchors, max_size=rows * anchors))
    ).reshape(rows, anchors)
    flags = st.lists(st.booleans(), min_size=rows, max_size=rows)
    valid = np.array(data.draw(flags))
    claiming = np.logical_and(valid, data.draw(flags))
    options = 'matched_threshold: 0.7 unmatched_threshold: 0.3 ' + FORCED
    assert argmax(options, similarity, valid, claiming) == slow_forced(
        similarity, valid, claiming, np.float32(0.7), np.float32(0.3)
    )


def test_bipartite():
    # The best pair is (1, 0); of what is left (0, 1), though row 0 prefers column 0.
    similarity = [[0.8, 0.5, 0.1], [0.9, 0.6, 0.2]]
    assert match('bipartite_matcher {}', similarity) == [1, 0, NO]


def test_bipartite_leaves_out_rows_without_weight_and_padding():
    similarity = [[0.8, 0.5, 0.1], [0.9, 0.6, 0.2]]
    assert match('bipartite_matcher {}', similarity, valid=[True, False]) == [0, NO, NO]
    assert match('bipartite_matcher {}', similarity, claiming=[True, False]) == [0, NO, NO]
    assert match('bipartite_matcher {}', similarity, valid=[False, False]) == [NO] * 3


def test_bipartite_with_more_boxes_than_anchors():
    assert match('bipartite_matcher {}', [[0.1], [0.3], [0.2]]) == [1]


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', '^here.matcher: empty; expected one of argmax_matcher'),
        (
            'argmax_matcher { negatives_lower_than_unmatched: false }',
            'argmax_matcher.negatives_lower_than_unmatched: false, .*; expected true',
        ),
    ],
)
def test_configs_that_contradict_themselves(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        matcher_of(text)
