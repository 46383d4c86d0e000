"""Collection of examples: which are kept, which errors they have, and where their records are."""

import numpy as np
import tensorflow as tf

from estimator_lib.analysis import collecting
from estimator_lib.analysis.collecting import Collector, Place
from estimator_lib.hooks import summaries
from estimator_lib.task import IMAGE, SOURCE_ID
from tests.estimator_lib.analysis.analyzed_line import AnalyzedLine

tf1 = tf.compat.v1
SIDE = 750  # of images that are large enough to be compressed


def locate(record_id):
    return f'file-{record_id // 100}', record_id % 100


def collect(task, errors, records=True, passes=1, enabled=True):
    """Pass points with some errors through a collector, in batches of 2; return the collector."""
    hook = Collector(task.analysis, locate)
    hook.enabled = enabled
    with tf.Graph().as_default():
        error = tf1.placeholder(tf.float32, [None])
        names = tf.strings.as_string(error, precision=1)
        features = {
            IMAGE: tf.tile(error[:, None, None, None], [1, SIDE, SIDE, 1]),
            SOURCE_ID: names,
        }
        ids = tf1.placeholder(tf.int64, [None])
        outputs = {'y': tf.zeros_like(error), 'large': tf.zeros([1000])}
        summaries.offer_examples(features, outputs, {'y': error}, ids if records else None)
        hook.begin()
        with tf1.Session() as session:
            for _ in range(passes):
                hook.after_create_session(session, None)
                for start in range(0, len(errors), 2):
                    batch = errors[start : start + 2]
                    numbers = np.arange(start, start + len(batch)) + 300
                    fetched = session.run(
                        hook.before_run(None).fetches, {error: batch, ids: numbers}
                    )
                    hook.after_run(None, tf1.train.SessionRunValues(fetched, None, None))
    return hook


def test_the_worst_come_first_with_all_errors_and_their_records():
    analyzed = collect(AnalyzedLine(), [1.0, 4.0, 2.0, 3.0, 0.0]).finish({'error': 2.0})
    assert analyzed.count == 5
    # Examples 1 and 3 have two errors, 0 and 2 have one, and 4 is not bad.
    assert [each.place.index for each in analyzed.worst] == [1, 3, 2, 0]
    first = analyzed.worst[0]
    assert first.place == Place('4.0', 'file-3', 1)
    assert [error.kind for error in first.errors] == ['early', 'late']
    assert first.errors[1].note == 'number 1'
    np.testing.assert_array_equal(first.features[IMAGE], np.full([SIDE, SIDE, 1], 4.0, np.float32))
    assert set(first.outputs) == {'y'} and first.labels['y'] == 4.0
    listed = [(place.index, error.kind) for place, error in analyzed.errors]
    assert listed == [
        (0, 'early'),
        (1, 'early'),
        (1, 'late'),
        (2, 'early'),
        (3, 'early'),
        (3, 'late'),
        (4, 'early'),
    ]


def test_a_bounded_number_is_kept_and_what_is_large_is_compressed():
    errors = np.random.RandomState(0).permutation(200).astype(float) + 1.0
    hook = collect(AnalyzedLine(), list(errors))
    assert len(hook._worst) == 2 * collecting.SHOWN
    kept = hook._worst[0][1][0][IMAGE]
    assert len(kept.content) < 20_000 < SIDE * SIDE * 4
    analyzed = hook.finish({'error': 1.0})
    assert len(analyzed.worst) == collecting.SHOWN
    found = [float(each.place.name) for each in analyzed.worst]
    # Of the 64 with the largest numbers, those at odd positions have two errors.
    largest = sorted(errors, reverse=True)[: 2 * collecting.SHOWN]
    odd = [error for error in largest if list(errors).index(error) % 2]
    even = [error for error in largest if error not in odd]
    assert found == [*odd, *even][: collecting.SHOWN]


def test_each_pass_starts_anew():
    analyzed = collect(AnalyzedLine(), [1.0, 2.0], passes=3).finish({'error': 1.0})
    assert analyzed.count == 2 and len(list(analyzed.errors)) == 3


def test_records_that_are_not_known():
    analyzed = collect(AnalyzedLine(), [1.0], records=False).finish({'error': 1.0})
    assert analyzed.worst[0].place == Place('1.0', '', -1)


def test_a_pass_that_is_not_analyzed_and_a_task_without_analysis():
    assert collect(AnalyzedLine(), [1.0], enabled=False).finish({}) is None
    assert collect(AnalyzedLine(), []).finish({}) is None
