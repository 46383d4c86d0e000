"""Parts of variables as one whole, with the names and the values that checkpoints have."""

import numpy as np
import tensorflow as tf

from estimator_lib.optimization import partitioned

tf1 = tf.compat.v1


def build():
    """A whole [2], a matrix [4, 3] in two parts, and a whole scalar between."""
    tf1.get_variable('first', [2])
    tf1.get_variable('matrix', [4, 3], partitioner=tf1.fixed_size_partitioner(2))
    tf1.get_variable('last', [], tf.float64)
    return tf1.global_variables()


def test_parts_become_one_in_the_place_of_the_first():
    with tf.Graph().as_default():
        variables = build()
        first, matrix, last = partitioned.whole(variables)
        assert first is variables[0] and last is variables[3]
        assert matrix.parts == tuple(variables[1:3])
        assert (matrix.name, matrix.op.name, matrix.shape) == ('matrix', 'matrix', [4, 3])
        assert matrix.dtype.base_dtype == tf.float32


def test_names():
    with tf.Graph().as_default():
        variables = build()
        names = [partitioned.variable_name(variable) for variable in variables]
        assert names == ['first', 'matrix/part_0', 'matrix/part_1', 'last']
        wholes = [partitioned.whole_name(variable) for variable in variables]
        assert wholes == ['first', 'matrix', 'matrix', 'last']
        assert partitioned.slice_info(variables[0]) is None
        assert partitioned.slice_info(variables[2]).var_offset == [2, 0]


def test_what_a_part_holds_of_a_value():
    with tf.Graph().as_default():
        first, upper, lower, _ = build()
        value = np.arange(12).reshape(4, 3)
        assert partitioned.take_slice(value, upper).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert partitioned.take_slice(value, lower).tolist() == [[6, 7, 8], [9, 10, 11]]
        assert partitioned.take_slice(value[0, :2], first).tolist() == [0, 1]


def test_variables_outside_of_graphs_are_told_apart():
    eager = tf.Variable(1.0)
    assert partitioned.is_eager(eager)
    assert list(partitioned.components(eager)) == [eager]
    with tf.Graph().as_default():
        assert not partitioned.is_eager(tf.Variable(1.0))
    assert not partitioned.is_eager(
        partitioned.WholeVariable('whole', tf.TensorShape([1]), (eager,))
    )
