import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data.caches import graph_digests


def of(factor=3, swapped=False, names=('b', 'a'), before=0):
    with tf.Graph().as_default() as graph:
        value = tf.compat.v1.placeholder(tf.int32, [], name='value' * (before + 1))
        keys = tf.lookup.KeyValueTensorInitializer(list(names), [1, 2])
        table = tf.lookup.StaticHashTable(keys, 0)
        looked = table.lookup(tf.strings.as_string(value))

        @tf.function
        def less(left, right):
            return right - left if swapped else left - right

        tf.cond(value > 2, lambda: value * factor, lambda: less(value, looked) + looked)
        return graph_digests.digest(graph.as_graph_def())


def test_what_is_computed_decides_and_names_do_not():
    # TensorFlow numbers functions in a process, so the second graph has other names than the first.
    assert of() == of() == of(before=1)
    assert len(of()) == 32
    assert len({of(), of(factor=4), of(swapped=True), of(names=('b', 'c'))}) == 4


@pytest.mark.parametrize('call', [tf.numpy_function, tf.py_function])
def test_a_graph_that_calls_python_has_no_digest(call):
    with tf.Graph().as_default() as graph:
        value = tf.compat.v1.placeholder(tf.int32, [])
        tf.cond(value > 2, lambda: call(lambda one: one, [value], tf.int32), lambda: value)
    with pytest.raises(errors.ConfigError, match='calls a Python function'):
        graph_digests.digest(graph.as_graph_def())
