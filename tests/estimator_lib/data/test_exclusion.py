"""Records that a reading leaves out: the others keep order, positions and augmentation."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import inputs
from estimator_lib.task import IMAGE, SOURCE_ID
from protos import input_reader_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line


class Shifted(Line):
    """Augmentation adds a random number to x."""

    def augment(self, example, seed):
        return {**example, IMAGE: example[IMAGE] + tf.random.stateless_uniform([1, 1, 1], seed)}


def create_input(folder, weights=(), **fields):
    reader = input_reader_pb2.InputReader(
        shuffle_buffer_size=4, sample_from_datasets_weights=weights, **fields
    )
    for name in ('a', 'b'):
        reader.tf_record_input_reader.input_path.append(str(folder / f'{name}.tfrecord'))
    return inputs.create_input_fn(Shifted(), reader, tf_estimator.ModeKeys.TRAIN, 2, 3)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('records')
    line_task.write_points(folder / 'a.tfrecord', (1.0, 2.0, 3.0, 4.0))
    line_task.write_points(folder / 'b.tfrecord', (5.0, 6.0, 7.0))
    return folder


def read(input_fn, count):
    """Source ids and images of the next examples."""
    found = []
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        features, _ = input_fn()
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(graph.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS))
        while len(found) < count:
            names, images = session.run((features[SOURCE_ID], features[IMAGE]))
            found += zip(names.tolist(), images.ravel().tolist())
    return found[:count]


def source_id(x):
    return f'{x:.6f}'


def test_the_others_keep_their_order_and_augmentation(folder):
    whole = read(create_input(folder), 40)
    left_out = {source_id(2.0).encode(), source_id(7.0).encode()}
    expected = [each for each in whole if each[0] not in left_out]
    names = [source_id(2.0), 'b.tfrecord:2']
    found = read(create_input(folder).without(names), 24)
    assert found == expected[:24]


def test_of_mixed_sources_each_has_its_own(folder):
    names = [f'{folder}/a.tfrecord:0', source_id(6.0)]
    found = read(create_input(folder, (0.5, 0.5)).without(names), 30)
    ids = {float(name) for name, _ in found}
    assert ids == {2.0, 3.0, 4.0, 5.0, 7.0}


@pytest.mark.parametrize(
    'names, weights, message',
    [
        ([source_id(2.5)], (), "2.500000: no training record .*; did you mean '2.000000'"),
        (['a.tfrecord:²'], (), 'a.tfrecord:²: no training record'),
        (['a.tfrecord:4'], (), 'a.tfrecord:4: the file has 4 records; expected an index from 0'),
        (['b.tfrecord:0', 'b.tfrecord:1', source_id(7.0)], (0.5, 0.5), 'all 3 records'),
    ],
)
def test_what_cannot_be_left_out(folder, names, weights, message):
    with pytest.raises(errors.DataError, match=message):
        create_input(folder, weights).without(names)


def test_the_reader_counts_no_skipped_records(folder):
    input_fn = create_input(folder).without(['a.tfrecord:1'])
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        features, _ = input_fn()
        _, state = inputs.pop_reader_state(features)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(graph.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS))
        skipped = [int(session.run(state.skipped)) for _ in range(8)]
    np.testing.assert_array_equal(skipped, 0)
