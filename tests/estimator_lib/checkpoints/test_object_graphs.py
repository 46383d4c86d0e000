import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, object_graphs

tf1 = tf.compat.v1
KERNEL = np.arange(6, dtype=np.float32).reshape([2, 3])


def holder(**children):
    """Build an object with edges of these names, like programs of TensorFlow 2."""
    made = tf.Module()
    for name, child in children.items():
        setattr(made, name, child)
    return made


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """Write a checkpoint like a training loop: an object with two paths, and an optimizer."""
    layer = holder(kernel=tf.Variable(KERNEL))
    model = holder(backbone=holder(first=layer), layers=[layer], heads={'box/scale': [layer]})
    # The shortest path to the layer's kernel is `layer`, wherever it is looked for.
    root = tf.train.Checkpoint(model=model, layer=layer, step=tf.Variable(12, dtype=tf.int64))
    optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, momentum=0.9)
    optimizer.apply_gradients([(tf.ones([2, 3]), layer.kernel)])
    root.optimizer = optimizer
    return root.save(str(tmp_path_factory.mktemp('trained') / 'ckpt')), layer.kernel.numpy()


def save_as_it_is(folder, values):
    """Write tensors by name, among them a malformed graph of objects."""
    prefix = str(folder / 'ckpt-0')
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[''] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
    return prefix


@pytest.mark.parametrize(
    'path',
    [
        'layer/kernel',
        'model/backbone/first/kernel',
        'model/layers/0/kernel',
        'model/heads/box.Sscale/0/kernel',
    ],
)
def test_every_path_leads_to_the_one_key(trained, path):
    prefix, kernel = trained
    key = object_graphs.read(prefix).find_key(path)
    assert key == 'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE'
    reader = checkpoint_files.open_checkpoint(prefix)
    np.testing.assert_array_equal(reader.get_tensor(key), kernel)


def test_what_is_no_path_to_a_variable_has_no_key(trained):
    graph = object_graphs.read(trained[0])
    assert graph.find_key('model/backbone') is None
    assert graph.find_key('model/backbone/second/kernel') is None
    assert graph.keyed({'layer/kernel': 1, 'layer/bias': 2}) == {
        'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE': 1,
        'layer/bias': 2,
    }
    assert graph.roots() == ['layer', 'model', 'optimizer', 'save_counter', 'step']


def test_a_slot_stands_for_its_variable_where_there_is_one(trained):
    prefix, _ = trained
    graph = object_graphs.read(prefix)
    slot = 'layer/kernel/.OPTIMIZER_SLOT/optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE'
    assert list(graph.keyed({'model/layers/0/kernel': 0}, slot='momentum')) == [slot]
    assert slot in checkpoint_files.checkpoint_shapes(prefix)
    assert list(graph.keyed({'model/layers/0/kernel': 0}, slot='average')) == [
        'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE'
    ]


def test_the_step_is_in_the_content_and_the_number_counts(trained):
    assert trained[0].endswith('ckpt-1')
    assert checkpoint_files.checkpoint_step(trained[0]) == 12


def test_a_checkpoint_that_names_variables_by_scope_has_no_graph(tmp_path):
    assert object_graphs.read(save_as_it_is(tmp_path, {'conv/weights': KERNEL})) is None


def graph_bytes(node_id):
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.nodes.add().children.add(node_id=node_id, local_name='model')
    return graph.SerializeToString()


@pytest.mark.parametrize(
    ('value', 'message'),
    [
        (b'\xff\xff\xff', 'in it is no graph of objects'),
        (graph_bytes(3), 'has edges to what is not in it'),
        (graph_bytes(-1), 'has edges to what is not in it'),
        (b'', 'has edges to what is not in it'),
    ],
)
def test_a_damaged_graph_is_one_sentence(tmp_path, value, message):
    prefix = save_as_it_is(tmp_path, {object_graphs.GRAPH_KEY: value, 'a': KERNEL})
    with pytest.raises(errors.CheckpointError, match=message) as caught:
        object_graphs.read(prefix)
    assert prefix in str(caught.value) and '\n' not in str(caught.value)


def test_what_is_written_loads_into_objects_with_these_edges(tmp_path):
    values = {
        'model/backbone/layer_with_weights-0/kernel': KERNEL,
        'model/heads/box.Sscale/0/bias': np.float32([1, 2]),
        'step': np.int64(7),
    }
    prefix = object_graphs.write(values, str(tmp_path / 'out'))
    assert prefix == str(tmp_path / 'out' / 'ckpt-0')
    assert checkpoint_files.latest_checkpoint(str(tmp_path / 'out')) == prefix
    assert set(checkpoint_files.checkpoint_shapes(prefix)) == {
        *(f'{path}{object_graphs.ENDING}' for path in [*values, 'save_counter']),
        object_graphs.GRAPH_KEY,
    }
    backbone, head = tf.Module(), holder(bias=tf.Variable([0.0, 0.0]))
    setattr(backbone, 'layer_with_weights-0', holder(kernel=tf.Variable(np.zeros_like(KERNEL))))
    model = holder(backbone=backbone, heads={'box/scale': [head]})
    step = tf.Variable(0, dtype=tf.int64)
    status = tf.train.Checkpoint(model=model, step=step).restore(prefix)
    status.assert_existing_objects_matched()
    np.testing.assert_array_equal(getattr(backbone, 'layer_with_weights-0').kernel, KERNEL)
    np.testing.assert_array_equal(head.bias, [1, 2])
    assert step == 7


@pytest.mark.parametrize('name', ['a', 'box/scale', 'a.b', '.S', 'a./b', '/.', '...'])
def test_names_of_edges_come_back_from_keys(name):
    assert object_graphs.unescaped(object_graphs.escaped(name)) == name
    assert '/' not in object_graphs.escaped(name)
