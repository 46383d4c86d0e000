"""Where training computes in bfloat16, and where it does not."""

import os

import pytest
import tensorflow as tf

from estimator_lib import training
from estimator_lib.distribution import mixed_precision

tf1 = tf.compat.v1
ALLOWED = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE'
INFERRED = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_INFERLIST_REMOVE'


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (ALLOWED, INFERRED):
        monkeypatch.setenv(name, '')


def processor(monkeypatch, tmp_path, flags):
    path = tmp_path / 'cpuinfo'
    path.write_text(f'processor\t: 0\nmodel name\t: any\nflags\t\t: {flags}\nbugs\t\t: \n')
    monkeypatch.setattr(mixed_precision, '_CPU_INFO', str(path))
    return str(path)


@pytest.mark.parametrize(
    'flags, expected',
    [
        ('fpu sse2 avx512f avx512_bf16', True),
        ('fpu amx_bf16 amx_tile', True),
        ('fpu sse2 avx512f avx512_vnni', False),
        ('fpu not_avx512_bf16', False),
        ('', False),
    ],
)
def test_the_processor_decides(monkeypatch, tmp_path, flags, expected):
    path = processor(monkeypatch, tmp_path, flags)
    assert mixed_precision.cpu_flags(path) == set(flags.split())
    assert mixed_precision.multiplies_bfloat16() is expected
    options = training.create_session_config(True).graph_options.rewrite_options
    on = options.auto_mixed_precision_onednn_bfloat16 == options.ON
    assert on is expected
    options = training.create_session_config(False).graph_options.rewrite_options
    assert options.auto_mixed_precision_onednn_bfloat16 == options.DEFAULT
    gains_nothing = [line for line in mixed_precision.doubts() if 'gains nothing' in line]
    assert bool(gains_nothing) is not expected
    assert ('bfloat16' in mixed_precision.description()) is expected


def test_a_gpu_is_not_meant(monkeypatch):
    monkeypatch.setattr(mixed_precision, 'multiplies_bfloat16', lambda: True)
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: [kind])
    (said,) = mixed_precision.doubts()
    assert 'on a GPU is computed in float32' in said


def test_where_nothing_is_said_of_a_processor_it_has_nothing(tmp_path):
    assert mixed_precision.cpu_flags(str(tmp_path / 'missing')) == set()


def _graph(*maps):
    """A graph that normalises maps of those sizes."""
    with tf.Graph().as_default() as graph:
        for size in maps:
            vector = tf.ones([size[-1]])
            tf.raw_ops.FusedBatchNormV3(
                x=tf1.placeholder(tf.float32, [None, *size]),
                scale=vector,
                offset=vector,
                mean=tf.zeros([0]),
                variance=tf.zeros([0]),
            )
    return graph


def test_uneven_maps_count_by_their_size():
    assert mixed_precision.uneven_share(_graph((2, 3, 24), (2, 3, 32), (4, 2, 5))) == (
        (144 + 40) / (144 + 192 + 40)
    )
    assert mixed_precision.uneven_share(_graph((None, None, 8), (None, None, 32))) == 8 / 40
    assert mixed_precision.uneven_share(_graph()) == 0.0


def test_batch_norm_stays_where_it_would_be_slower_and_a_users_list_stays(monkeypatch):
    monkeypatch.setenv(INFERRED, 'Softmax')
    even, uneven = _graph((8, 8, 32), (2, 1, 8)), _graph((8, 8, 32), (8, 8, 8))
    for _ in range(2):
        mixed_precision.choose(uneven)
        assert os.environ[INFERRED] == 'Softmax,FusedBatchNormV3,FusedBatchNormGradV3'
    mixed_precision.choose(even)
    assert os.environ[INFERRED] == 'Softmax'
    assert os.environ[ALLOWED] == ','.join(mixed_precision.DEPTHWISE)


@pytest.mark.skipif(
    not mixed_precision.multiplies_bfloat16(), reason='this processor has no bfloat16'
)
@pytest.mark.parametrize('channels, norm_type', [(16, 'bfloat16'), (24, 'float32')])
def test_the_rewritten_graph_computes_in_these_types(channels, norm_type):
    """As the session runs it: depthwise gradients in float32, products in bfloat16."""
    with tf.Graph().as_default() as graph:
        image = tf1.get_variable('image', initializer=tf.ones([2, 8, 8, channels]))
        weights = tf1.get_variable('weights', [1, 1, channels, channels])
        depthwise = tf1.get_variable('depthwise', [3, 3, channels, 1])
        vector = tf1.get_variable('vector', [channels])
        outputs = image.read_value()
        for _ in range(2):
            outputs = tf.nn.conv2d(outputs, weights, 1, 'SAME')
            norm = tf.raw_ops.FusedBatchNormV3(
                x=outputs,
                scale=vector,
                offset=vector,
                mean=tf.zeros([0]),
                variance=tf.zeros([0]),
            )
            outputs = tf.nn.depthwise_conv2d(tf.nn.relu6(norm.y), depthwise, [1, 1, 1, 1], 'SAME')
        outputs = tf.nn.conv2d(outputs, weights, 1, 'SAME')
        gradients = tf.gradients(tf.nn.l2_loss(outputs), [weights, depthwise, vector])
        mixed_precision.choose(graph)
        metadata = tf1.RunMetadata()
        with tf1.Session(config=training.create_session_config(True)) as session:
            session.run(tf1.global_variables_initializer())
            options = tf1.RunOptions(output_partition_graphs=True)
            session.run(gradients, options=options, run_metadata=metadata)
    types = {}
    for node in metadata.partition_graphs[0].node:
        # What oneDNN computes has a prefix before the op's own name.
        kind = node.op.replace('_MklNative', '')
        if node.attr['T'].type:
            types.setdefault(kind, set()).add(tf.as_dtype(node.attr['T'].type).name)
    bfloat16 = {'bfloat16'}
    assert types['Conv2D'] == types['Conv2DBackpropFilter'] == bfloat16
    assert types['DepthwiseConv2dNative'] == bfloat16
    assert types['DepthwiseConv2dNativeBackpropInput'] == {'float32'}
    assert types['DepthwiseConv2dNativeBackpropFilter'] == {'float32'}
    assert types['FusedBatchNormV3'] == types['FusedBatchNormGradV3'] == {norm_type}
