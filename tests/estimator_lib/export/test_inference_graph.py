import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.export import inference_graph
from estimator_lib.export.writers import Source
from protos import export_pb2, pipeline_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1
IMAGES = np.random.RandomState(3).randint(0, 256, [2, 9, 12, 3]).astype(np.uint8)


@pytest.fixture
def source(tmp_path):
    checkpoint = tiny_task.save(tmp_path / 'model.ckpt', tiny_task.values())
    return Source(tiny_task.TinyTask(), pipeline_pb2.TrainEvalPipelineConfig(), checkpoint)


def test_the_graph_of_constants_computes_what_the_network_does(source):
    model = inference_graph.build(source, export_pb2.IMAGE_TENSOR, list(IMAGES))
    expected = tiny_task.expected_logits(IMAGES, tiny_task.values())
    logits = np.concatenate([outputs['logits'] for outputs in model.expected])
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    graph_def = model.frozen.to_graph_def()
    assert not [node.op for node in graph_def.node if 'Var' in node.op or 'BatchNorm' in node.op]
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(graph_def, name='')
        logits = session.run('logits:0', {'image_tensor:0': IMAGES})
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_the_signature_names_tensors_of_the_graph(source):
    model = inference_graph.build(source, export_pb2.SERIALIZED_TF_EXAMPLE)
    signature = model.signature()
    assert signature.inputs['inputs'].name == 'tf_example:0'
    assert {key: one.name for key, one in signature.outputs.items()} == {
        'logits': 'logits:0',
        'classes': 'classes:0',
    }
    assert not model.expected
