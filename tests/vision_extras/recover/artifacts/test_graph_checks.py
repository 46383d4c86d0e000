"""Bounds of graphs: what is damaged is refused before anything follows an edge."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from vision_extras.recover.artifacts import graph_checks, reading

tf1 = tf.compat.v1

REASONS = {
    'abort_dtype': 'has values of the type 3; expected 1',
    'const_13GB_of_100_bytes': 'repeats one value in 14400000000 bytes',
    'const_dtype_99': 'has values of the type 99; expected 1',
    'const_negative_dim': r'has the shape \[3, 3, 3, -4\]',
    'const_short_content': 'has 7 bytes; expected 432',
    'const_without_value': 'the constant has no value',
    'conv_one_input': 'Conv2D has the inputs .* expected 2',
    'dangling_kernel': 'its input missing_node is not there',
    'enter_cycle': 'its inputs lead back to itself',
    'identity_cycle': 'its inputs lead back to itself',
    'identity_self': 'its inputs lead back to itself',
    'identity_without_input': r'Identity has the inputs \[\]; expected 1',
}


@pytest.mark.parametrize('name', sorted(REASONS))
def test_a_damaged_graph_is_one_sentence(name, shared):
    path = shared / 'cases' / 'damaged_graphs' / f'{name}.pb'
    with pytest.raises(errors.UserError, match=REASONS[name]) as caught:
        reading.read(str(path))
    assert str(caught.value).startswith(f'--from: {path} is damaged: node ')


def graph(*nodes):
    """A graph of (name, op, inputs)."""
    result = tf1.GraphDef()
    for name, op, inputs in nodes:
        result.node.add(name=name, op=op, input=inputs)
    return result


@pytest.mark.parametrize(
    'nodes, reason',
    [
        ([('a', 'Identity', ['b:1']), ('b', 'Identity', ['a'])], 'lead back'),
        ([('a', 'NoOp', ['^a'])], 'lead back'),
        ([('a', 'NoOp', ['^b'])], 'its input b is not there'),
        ([('a', 'NoOp', []), ('b', 'Add', ['a', 'a', 'a'])], 'expected 2'),
        ([('a', 'NoOp', []), ('b', 'ConcatV2', ['a', 'a', 'a'])], None),
        ([('a', 'Merge', ['c']), ('b', 'Add', ['a', 'a']), ('c', 'NextIteration', ['b'])], None),
        ([('a', 'NoOp', []), ('b', 'OpOfTomorrow', ['a', 'a'])], None),
    ],
)
def test_inputs_and_cycles(nodes, reason):
    if reason is None:
        graph_checks.check(graph(*nodes))
        return
    with pytest.raises(errors.UserError, match=reason):
        graph_checks.check(graph(*nodes))


def test_functions_are_checked_too():
    damaged = graph(('a', 'NoOp', []))
    body = damaged.library.function.add().node_def
    body.add(name='x', op='Identity', input=['y:output:0'])
    body.add(name='y', op='Identity', input=['x:output:0'])
    with pytest.raises(errors.UserError, match='node x: its inputs lead back to itself'):
        graph_checks.check(damaged)


def test_a_long_chain_needs_no_deep_stack():
    nodes = [(str(index), 'Identity', [str(index + 1)]) for index in range(20000)]
    graph_checks.check(graph(*nodes, ('20000', 'Placeholder', [])))


def test_a_type_that_tensorflow_does_not_have():
    damaged = graph(('a', 'Placeholder', []))
    damaged.node[0].attr['dtype'].type = 99
    with pytest.raises(errors.UserError, match='node a: dtype is the type 99'):
        graph_checks.check(damaged)


def test_valid_constants_are_accepted():
    with tf.Graph().as_default() as built:
        tf.constant([[1.0, 2.0]])
        tf.zeros([1000])
        tf.constant(['a', 'b'])
        tf.constant([True, False])
        tf.constant([1, 2], tf.bfloat16)
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    graph_checks.check(built.as_graph_def())
