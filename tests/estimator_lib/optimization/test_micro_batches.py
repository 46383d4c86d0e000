"""A part of a graph that is repeated for each micro-batch, against numbers by hand."""

import numpy as np
import tensorflow as tf

from estimator_lib.optimization import micro_batches

tf1 = tf.compat.v1


def test_means_and_rows_over_micro_batches():
    with tf.Graph().as_default(), tf1.Session() as session:
        batch = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        first = tf.identity(batch[:2])
        index = tf1.placeholder_with_default(tf.constant(0, tf.int64), [])
        weight = tf1.get_variable('weight', initializer=3.0)
        unused = 2.0 * weight
        shape = tf.constant([9])
        rows = tf.IndexedSlices(first[:1], tf.stack([index]), shape)
        outputs = [tf.reduce_sum(first) * weight, tf.cast(index, tf.float32), unused, rows]
        shares = [micro_batches.Share([batch], [first])]
        means = micro_batches.repeat(3, shares, index, outputs)
        session.run(tf1.global_variables_initializer())
        product, number, same, slices = session.run(means)
    # Sums of 3, 7 and 11, indices 0, 1 and 2, and a value of no micro-batch.
    assert (product, number, same) == (21.0, 1.0, 6.0)
    np.testing.assert_array_equal(slices.indices, [0, 1, 2])
    np.testing.assert_array_equal(slices.dense_shape, [9])
    np.testing.assert_allclose(slices.values, np.array([1.0, 3.0, 5.0]) / 3)


def test_a_value_that_a_micro_batch_assigns_is_read_by_the_next():
    with tf.Graph().as_default(), tf1.Session() as session:
        batch = tf.constant([1.0, 2.0, 4.0])
        first = tf.identity(batch[:1])
        index = tf1.placeholder_with_default(tf.constant(0, tf.int64), [])
        total = tf1.get_variable('total', initializer=0.0, use_resource=True)
        before = total.read_value()
        with tf.control_dependencies([total.assign(before + first[0], read_value=False)]):
            after = tf.identity(before)
        shares = [micro_batches.Share([batch], [first])]
        (mean,) = micro_batches.repeat(3, shares, index, [after])
        session.run(tf1.global_variables_initializer())
        assert session.run(mean) == np.float32((0 + 1 + 3) / 3)
        assert session.run(total) == 7.0
