"""Where training computes in bfloat16, and where it does not."""

import contextlib
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.framework import kernels
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import tf_optimizer

from estimator_lib import building, model_fn, tf_estimator, training
from estimator_lib.distribution import half_types, mixed_precision, modes
from estimator_lib.hooks import non_finite
from estimator_lib.task import IMAGE, SOURCE_ID
from protos import cluster_pb2, train_pb2
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.line_task import Line

pytestmark = pytest.mark.usefixtures('forked_processes')

tf1 = tf.compat.v1
ALLOWED = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE'
INFERRED = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_INFERLIST_REMOVE'


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (ALLOWED, INFERRED):
        monkeypatch.setenv(name, '')
    yield
    mixed_precision.restore()


def choose(graph):
    """Let the rewrite find what is chosen for a graph."""
    mixed_precision.choose(graph)
    mixed_precision.apply(graph)


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


@pytest.mark.parametrize('half', [None, tf.bfloat16, tf.float16])
def test_the_half_type_decides(config, monkeypatch, half):
    monkeypatch.setattr(half_types, 'half_type', lambda: half)
    options = building.create_session_config(True).graph_options.rewrite_options
    on = options.auto_mixed_precision_onednn_bfloat16 == options.ON
    assert on is (half is tf.bfloat16)
    assert (options.auto_mixed_precision == options.ON) is (half is tf.float16)
    options = building.create_session_config(False).graph_options.rewrite_options
    assert options.auto_mixed_precision_onednn_bfloat16 == options.DEFAULT
    assert options.auto_mixed_precision == options.DEFAULT
    said = mixed_precision.description(_graph((8, 8, 16), products=64))
    assert ('computes in bfloat16' in said) is (half is tf.bfloat16)
    assert ('in float16 on the GPU' in said) is (half is tf.float16)
    config.train_config.loss_scale = 8.0
    for is_on in (True, False):
        config.train_config.use_bfloat16 = is_on
        scales = is_on and half is tf.float16
        assert (mixed_precision.create_loss_scale(config.train_config) is not None) is scales
        idle = modes.idle_fields(modes.alone(config), config.train_config)
        assert ('train_config.loss_scale' in idle) is not scales


def test_lists_made_for_processors_are_not_for_gpus(monkeypatch):
    monkeypatch.setenv(INFERRED, 'Softmax')
    uneven = _graph((8, 8, 8))
    choose(uneven)
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.float16)
    choose(uneven)
    assert (os.environ[ALLOWED], os.environ[INFERRED]) == ('', 'Softmax')


def rewritten_for_a_gpu(graph, keep, session_config):
    """The nodes of a graph as a session would rewrite them for a GPU that is not there."""
    graph.get_collection_ref('train_op')[:] = keep  # what Grappler takes for fetches
    session_config.graph_options.rewrite_options.min_graph_nodes = -1
    environment = {'architecture': '8.0', 'cuda': '12020', 'cudnn': '8900'}
    processor, gpu = (
        device_properties_pb2.NamedDevice(
            name=f'/job:localhost/replica:0/task:0/device:{kind}:0',
            properties=device_properties_pb2.DeviceProperties(
                type=kind, num_cores=8, frequency=1000, memory_size=2**33, environment=more
            ),
        )
        for kind, more in (('CPU', {}), ('GPU', environment))
    )
    meta = tf1.train.export_meta_graph(graph=graph)
    devices = grappler_cluster.Cluster(devices=[gpu, processor])
    return list(tf_optimizer.OptimizeGraph(session_config, meta, cluster=devices).node)


HAS_KERNELS_OF_GPUS = any(
    kernel.device_type == 'GPU'
    for kernel in kernels.get_registered_kernels_for_op('FusedBatchNormGradV3').kernel
)


@pytest.mark.skipif(not HAS_KERNELS_OF_GPUS, reason='this TensorFlow is not built for GPUs')
@pytest.mark.parametrize('mode', ['train', 'eval', 'infer'])
def test_what_a_gpu_computes_in_float16(config, monkeypatch, mode):
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.float16)
    config.train_config.use_bfloat16 = True
    trains = mode == 'train'
    session_config = training.create_run_config(config, None, trains=trains).session_config
    with tf.Graph().as_default() as graph:
        tf1.train.get_or_create_global_step()
        size = tiny_task.SIZE
        images = tf1.placeholder(tf.float32, [2, size, size, 3])
        features = {IMAGE: images, SOURCE_ID: tf.constant(['a', 'b'])}
        spec = model_fn.create_model_fn(tiny_task.TinyTask(), config)(features, {}, mode)
        fetched = [spec.predictions['logits']] if mode == 'infer' else [spec.loss]
        nodes = rewritten_for_a_gpu(
            graph, [*fetched, *([spec.train_op] if trains else [])], session_config
        )
        variables = tf1.global_variables()
        assert {v.dtype.base_dtype for v in variables} <= {tf.float32, tf.int64}
        assert any('loss_scale' in v.name for v in variables) is trains
    if not trains:
        assert not any('loss_scale' in op.name for op in graph.get_operations())
    types = {}
    for node in nodes:
        kind = tf.as_dtype(node.attr['T'].type or node.attr['dtype'].type or tf.int32).name
        types.setdefault(node.op, set()).add(kind)
    half = {'float16'} if trains else {'float32'}
    assert types['Conv2D'] == types['FusedBatchNormV3'] == half
    assert types['Mean'] <= {'float32'} | half
    # Of statistics, of what the optimizer is given, and of all that is reported.
    assert {node.attr['U'].type for node in nodes if 'BatchNorm' in node.op} == {tf.float32}
    assert types['ReadVariableOp'] <= {'float32', 'int64'}
    by_name = {node.name: node for node in nodes}
    assert by_name[fetched[0].op.name].attr['T'].type == tf.float32
    if trains:
        assert types['Conv2DBackpropFilter'] == half
        assert types['ResourceApplyGradientDescent'] == {'float32'}
    elif 'Cast' in types:
        assert 'float16' not in {
            tf.as_dtype(node.attr['DstT'].type).name for node in nodes if node.op == 'Cast'
        }


@pytest.mark.skipif(not HAS_KERNELS_OF_GPUS, reason='this TensorFlow is not built for GPUs')
@pytest.mark.parametrize(
    'variable, kind',
    [(mixed_precision._PRODUCTS, 'Conv2D'), (mixed_precision._FOLLOWING, 'FusedBatchNormV3')],
)
def test_the_rewrite_reads_the_lists_of_the_environment(monkeypatch, variable, kind):
    """Whatever the processor: TensorFlow ignores a variable that it does not know."""
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [2, 8, 8, 16])
        vector = tf.ones([16])
        products = tf.nn.conv2d(images, tf1.placeholder(tf.float32, [3, 3, 16, 16]), 1, 'SAME')
        norm = tf.raw_ops.FusedBatchNormV3(
            x=products, scale=vector, offset=vector, mean=tf.zeros([0]), variance=tf.zeros([0])
        )
        outputs = tf.nn.conv2d(norm.y, tf1.placeholder(tf.float32, [3, 3, 16, 16]), 1, 'SAME')
        outputs = tf.identity(outputs, 'outputs')
    session_config = tf1.ConfigProto()
    session_config.graph_options.rewrite_options.auto_mixed_precision = 1

    def types():
        with graph.as_default():
            nodes = rewritten_for_a_gpu(graph, [outputs], session_config)
        return {tf.as_dtype(node.attr['T'].type) for node in nodes if node.op == kind}

    assert types() == {tf.float16}
    monkeypatch.setenv(variable, kind)
    assert types() == {tf.float32}


class HalfLine(Line):
    """Its gradients pass float16, as they do on a GPU."""

    def losses(self, predictions, features, labels):
        rounded = tf.cast(tf.cast(predictions['y'], tf.float16), tf.float32)
        return super().losses({'y': rounded}, features, labels)


def descended(steps, scale, slope=0.0):
    """What `HalfLine` comes to: its slope, its scale, and how many steps were skipped."""
    skipped = 0
    for step in range(steps):
        x = np.float32([(1.0, 2.0), (3.0, 4.0)][step % 2])
        y = np.float32(np.float16(np.float32(slope) * x))
        with np.errstate(over='ignore'):
            gradient = np.float32(scale * (y - 3.0 * x)).astype(np.float16)
        if np.isfinite(gradient).all():
            slope -= 0.05 * float(np.sum(np.float64(gradient) * x)) / scale
        else:
            scale, skipped = scale / 2.0, skipped + 1
    return slope, scale, skipped


def saved(model_dir):
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    return caplog


@pytest.fixture
def float16(config, monkeypatch):
    """A config whose run has loss scaling; what would be computed on the GPU is, on the CPU."""
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.float16)
    config.train_config.use_bfloat16 = True
    config.train_config.num_steps = 8
    return config


def trained_in_float16(config, model_dir, loop, mode):
    """Run 8 steps; what would be computed on the GPU is, on the CPU."""
    half_types.half_type = lambda: tf.float16
    config.train_config.use_bfloat16 = True
    config.train_config.num_steps = 8
    config.train_config.loop = train_pb2.TrainingLoop.Value(loop)
    if mode == 'MIRRORED':
        config.train_config.cluster.mode = cluster_pb2.ClusterConfig.MIRRORED
        config.train_config.cluster.num_clones = 2
    training.train_and_evaluate(HalfLine(), config, str(model_dir), evaluate=False)


@pytest.mark.parametrize(
    'loop, mode',
    [
        ('ESTIMATOR', 'ONE_DEVICE'),
        ('ESTIMATOR', 'MIRRORED'),
        ('TF_FUNCTION', 'ONE_DEVICE'),
        ('TF_FUNCTION', 'MIRRORED'),
    ],
)
def test_a_run_finds_its_scale_and_is_not_stopped(float16, tmp_path, log, loop, mode):
    if (loop, mode) == ('TF_FUNCTION', 'MIRRORED'):
        # Eager TensorFlow divides the CPU before its first work only: a process of its own.
        code = (
            'import pathlib, sys\n'
            f'from {__name__} import line_task, trained_in_float16\n'
            'folder = pathlib.Path(sys.argv[1])\n'
            'config = line_task.create_config(folder)\n'
            f'trained_in_float16(config, folder / "run", {loop!r}, {mode!r})'
        )
        subprocess.run([sys.executable, '-c', code, str(tmp_path)], check=True)
    else:
        trained_in_float16(float16, tmp_path / 'run', loop, mode)  # `float16` restores `half_type`
    slope, scale, skipped = descended(8, 2.0**15)
    assert 2 < skipped < 5
    found = saved(tmp_path / 'run')
    assert found['slope'] == pytest.approx(slope, rel=1e-5)
    assert (found['loss_scale/scale'], found['global_step']) == (scale, 8)
    assert found['loss_scale/finite_steps'] > 0
    assert not [record for record in log.records if 'not finite' in record.getMessage()]


def test_a_run_goes_on_with_its_scale_or_in_another_type(float16, tmp_path, log, monkeypatch):
    def train(steps):
        float16.train_config.num_steps = steps
        training.train_and_evaluate(HalfLine(), float16, str(tmp_path / 'run'), evaluate=False)
        return saved(tmp_path / 'run')

    train(2)
    found = train(8)
    slope, scale, _ = descended(8, 2.0**15)
    assert found['loss_scale/scale'] == scale
    assert found['slope'] == pytest.approx(slope, rel=1e-5)
    monkeypatch.setattr(half_types, 'half_type', lambda: None)
    assert 'loss_scale/scale' not in train(10)
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.float16)
    assert train(11)['loss_scale/scale'] >= 2.0**14
    (said,) = [line for line in log.text.splitlines() if line.endswith('start fresh')]
    assert 'loss_scale/scale' in said


def test_what_a_smaller_scale_cannot_mend_is_for_the_policy(float16, tmp_path):
    float16.train_config.loss_scale = 2.0**20
    with pytest.raises(non_finite.NonFiniteLossError, match='step 1: a gradient is not finite'):
        training.train_and_evaluate(HalfLine(), float16, str(tmp_path / 'run'), evaluate=False)
    float16.train_config.loss_scale = 0.0
    path = float16.train_input_reader.tf_record_input_reader.input_path[0]
    line_task.write_points(path, (1.0, float('nan')))
    with pytest.raises(non_finite.NonFiniteLossError, match='step 1: the loss squared is nan'):
        training.train_and_evaluate(HalfLine(), float16, str(tmp_path / 'run'), evaluate=False)


def _graph(*maps, products=0, gates=0):
    """A graph that normalizes maps of those sizes.

    `products`: multiply-adds for each number of a convolution from the maps; `gates`: so many
    products of numbers follow each map.
    """
    with tf.Graph().as_default() as graph:
        for size in maps:
            vector = tf.ones([size[-1]])
            image = tf1.placeholder(tf.float32, [None, *size])
            norm = tf.raw_ops.FusedBatchNormV3(
                x=image, scale=vector, offset=vector, mean=tf.zeros([0]), variance=tf.zeros([0])
            )
            for _ in range(gates):
                tf.multiply(norm.y, image)
            if products:
                channels = size[-1]
                # As many numbers as the map has, each of `products` multiply-adds.
                weights = tf1.placeholder(tf.float32, [1, products // channels, channels, channels])
                tf.nn.conv2d(image, weights, 1, 'SAME')
    return graph


def test_products_are_weighed_against_what_is_converted():
    even, uneven = (4, 4, 16), (4, 4, 8)
    assert mixed_precision.balance(_graph(even, products=32)) == (32.0, 30.0, False)
    assert mixed_precision.balance(_graph(even, products=16)) == (16.0, 30.0, False)
    # Batch norm in float32: more is converted.
    assert mixed_precision.balance(_graph(uneven, products=64)) == (64.0, 65.0, True)
    assert mixed_precision.balance(_graph(uneven, products=72)) == (72.0, 65.0, True)
    # A gate costs, and two of them so much that float32 is better for batch norm.
    assert mixed_precision.balance(_graph(even, products=48, gates=1)) == (48.0, 40.0, False)
    assert mixed_precision.balance(_graph(even, products=48, gates=2)) == (48.0, 45.0, True)
    assert mixed_precision.balance(_graph(even, products=48, gates=9)) == (48.0, 45.0, True)
    # Sides that are not known are alike; without batch norm nothing is converted but images.
    assert mixed_precision.balance(_graph((None, None, 16), products=32)) == (32.0, 30.0, False)
    nothing = mixed_precision.balance(_graph())
    assert nothing == (0.0, 0.0, False) and not nothing.gains
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.ones([2, 3]), tf.ones([5, 3]), transpose_b=True)
    assert mixed_precision.balance(graph) == (30.0, 0.0, False)


def test_what_initializers_compute_does_not_count():
    with tf.Graph().as_default() as graph:
        tf1.get_variable('weights', [3, 3, 16, 16], initializer=tf1.random_uniform_initializer())
        vector = tf.ones([16])
        tf.raw_ops.FusedBatchNormV3(
            x=tf.ones([1, 2, 2, 16]),
            scale=vector,
            offset=vector,
            mean=tf.zeros([0]),
            variance=tf.zeros([0]),
        )
    assert any(op.type in ('Mul', 'AddV2') for op in graph.get_operations())
    assert mixed_precision.balance(graph) == (0.0, 30.0, False)


def test_uneven_maps_count_by_their_size():
    def norms_stay(*maps):
        return mixed_precision.balance(_graph(*maps)).norms_stay

    # 30 of 318 numbers, and 35 of 323.
    assert not norms_stay((2, 1, 15), (3, 6, 16))
    assert norms_stay((2, 1, 15), (3, 6, 16), (1, 1, 5))
    assert not norms_stay((None, None, 8), (None, None, 80))
    assert norms_stay((None, None, 8), (None, None, 64))


def test_batch_norm_stays_where_it_would_be_slower_and_a_users_list_stays(monkeypatch):
    monkeypatch.setenv(INFERRED, 'Softmax')
    even = _graph((8, 8, 32), (2, 1, 8), products=64)
    uneven = _graph((8, 8, 32), (8, 8, 8), products=96)
    for _ in range(2):
        choose(uneven)
        assert os.environ[INFERRED] == 'Softmax,FusedBatchNormV3,FusedBatchNormGradV3'
    choose(even)
    assert os.environ[INFERRED] == 'Softmax'
    assert os.environ[ALLOWED] == ','.join(mixed_precision.DEPTHWISE)


def test_a_network_of_small_products_stays_float32_whole(monkeypatch):
    monkeypatch.setattr(half_types, 'multiplies_bfloat16', lambda: True)
    monkeypatch.setenv(ALLOWED, 'Conv3DMine')
    small, large = (_graph((8, 8, 32), products=products) for products in (32, 64))
    assert 'training computes in bfloat16 where' in mixed_precision.description(large)
    monkeypatch.setattr(mixed_precision, '_COST', 40.0)
    assert (
        'training stays float32 because bfloat16 would be no faster: this network has 32 multiply-'
        'adds for each number that would be converted between them, and more than 40 would'
    ) in mixed_precision.description(small)
    choose(small)
    removed = os.environ[ALLOWED].split(',')
    assert {'Conv3DMine', 'Conv2D', 'Conv2DBackpropInput', 'MatMul'} < set(removed)
    choose(large)
    assert os.environ[ALLOWED].split(',') == ['Conv3DMine', *mixed_precision.DEPTHWISE]
    monkeypatch.setattr(half_types, 'half_type', lambda: tf.float16)
    choose(small)
    assert os.environ[ALLOWED] == 'Conv3DMine'
    assert 'float32 because' not in mixed_precision.description(small)


@pytest.mark.parametrize('of_user', [None, '', 'Softmax,FusedBatchNormV3'])
def test_the_environment_is_given_back_as_it_was(monkeypatch, of_user):
    if of_user is None:
        monkeypatch.delenv(INFERRED)
    else:
        monkeypatch.setenv(INFERRED, of_user)
    choose(_graph((8, 8, 8), products=96))
    choose(_graph((8, 8, 32), products=64))
    # Entries of the user stay, even those that are chosen for other networks.
    assert os.environ[INFERRED] == (of_user or '')
    choose(_graph((8, 8, 8), products=96))
    assert set(os.environ[INFERRED].split(',')) == {
        *(['Softmax'] if of_user else []),
        'FusedBatchNormV3',
        'FusedBatchNormGradV3',
    }
    mixed_precision.restore()
    assert os.environ.get(INFERRED) == of_user


class Watching(tf_estimator.SessionRunHook):
    """Notes the user's list of products as it is in a step; then fails, where it is to."""

    def __init__(self, fails):
        self._fails = fails

    def after_run(self, run_context, run_values):
        self.seen = os.environ[ALLOWED]
        if self._fails:
            raise ValueError('as told')


@pytest.mark.parametrize('loop', ['ESTIMATOR', 'TF_FUNCTION'])
@pytest.mark.parametrize('fails', [False, True])
def test_training_leaves_nothing_in_the_environment(config, tmp_path, monkeypatch, loop, fails):
    monkeypatch.setenv(ALLOWED, 'Conv3DMine')
    monkeypatch.delenv(INFERRED)
    monkeypatch.setattr(half_types, 'multiplies_bfloat16', lambda: True)
    monkeypatch.setattr(mixed_precision, 'rewrite', lambda session_config: None)
    config.train_config.use_bfloat16 = True
    config.train_config.num_steps = 2
    config.train_config.loop = train_pb2.TrainingLoop.Value(loop)
    watching = Watching(fails)
    with pytest.raises(ValueError, match='as told') if fails else contextlib.nullcontext():
        training.train_and_evaluate(
            Line(), config, str(tmp_path / 'run'), evaluate=False, hooks=[watching]
        )
    assert watching.seen.startswith('Conv3DMine,') and 'MatMul' in watching.seen
    assert os.environ[ALLOWED] == 'Conv3DMine'
    assert INFERRED not in os.environ


@pytest.mark.bfloat16
@pytest.mark.skipif(not half_types.multiplies_bfloat16(), reason='this processor has no bfloat16')
@pytest.mark.parametrize(
    'channels, kernel, product_type, norm_type',
    [
        (16, 3, 'bfloat16', 'bfloat16'),
        (24, 3, 'bfloat16', 'float32'),
        (16, 1, 'float32', 'float32'),
    ],
)
def test_the_rewritten_graph_computes_in_these_types(channels, kernel, product_type, norm_type):
    """As the session runs it: depthwise gradients in float32, products in bfloat16."""
    with tf.Graph().as_default() as graph:
        image = tf1.get_variable('image', initializer=tf.ones([2, 8, 8, channels]))
        weights = tf1.get_variable('weights', [kernel, kernel, channels, channels])
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
        choose(graph)
        metadata = tf1.RunMetadata()
        with tf1.Session(config=building.create_session_config(True)) as session:
            session.run(tf1.global_variables_initializer())
            options = tf1.RunOptions(output_partition_graphs=True)
            session.run(gradients, options=options, run_metadata=metadata)
    types = {}
    for node in metadata.partition_graphs[0].node:
        # What oneDNN computes has a prefix before the op's own name.
        kind = node.op.replace('_MklNative', '')
        if node.attr['T'].type:
            types.setdefault(kind, set()).add(tf.as_dtype(node.attr['T'].type).name)
    assert types['Conv2D'] == types['Conv2DBackpropFilter'] == {product_type}
    assert types['DepthwiseConv2dNative'] == {product_type}
    assert types['DepthwiseConv2dNativeBackpropInput'] == {'float32'}
    assert types['DepthwiseConv2dNativeBackpropFilter'] == {'float32'}
    assert types['FusedBatchNormV3'] == types['FusedBatchNormGradV3'] == {norm_type}
