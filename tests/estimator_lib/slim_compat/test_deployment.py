"""The deployment API: devices, scopes, what clones share, losses and gradients by hand."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.slim_compat import deployment
from estimator_lib.slim_compat.deployment import DeploymentConfig
from model_fns import layers

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def classifier(inputs, labels):
    """A layer with batch norm: 5 variables with the step, 2 updates a clone."""
    style = layers.LayerStyle(
        is_training=True,
        activation=tf.sigmoid,
        batch_norm=layers.BatchNorm(),
        regularizer=layers.l2(1),
    )
    with tf1.variable_scope('BatchNormClassifier'):
        outputs = layers.fully_connected(inputs, 1, style, 'fully_connected')
    tf1.losses.log_loss(labels, outputs)
    return outputs


def batch():
    random = np.random.RandomState(0)
    inputs = random.uniform(size=[16, 4]).astype(np.float32)
    return tf.constant(inputs), tf.constant((inputs.sum(1, keepdims=True) > 2).astype(np.float32))


REFUSED = {
    'replicas without servers': ({'num_replicas': 2}, 'at least one parameter server'),
    'a job without name': ({'num_ps_tasks': 1, 'worker_job_name': ''}, 'worker_job_name is empty'),
    'servers without name': ({'num_ps_tasks': 1, 'ps_job_name': ''}, 'ps_job_name is empty'),
    'one replica too many': (
        {'num_replicas': 2, 'replica_id': 2, 'num_ps_tasks': 1},
        'replica_id is 2; expected less than num_replicas, 2',
    ),
    'no clone': ({'num_clones': 0}, 'num_clones is 0'),
}


@pytest.mark.parametrize('case', sorted(REFUSED))
def test_configs_that_cannot_be(case):
    options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        DeploymentConfig(**options)


def test_a_clone_that_is_not_there():
    config = DeploymentConfig(num_clones=2)
    for method in (config.clone_device, config.clone_scope):
        with pytest.raises(ValueError, match='clone_index is 2'):
            method(2)


# (options, device of clone 0, device of clone 1, of the optimizer and the inputs, scope of clone 1)
PLACES = [
    ({'num_clones': 2}, '/device:GPU:0', '/device:GPU:1', '/device:CPU:0'),
    ({'num_clones': 2, 'clone_on_cpu': True}, '/device:CPU:0', '/device:CPU:0', '/device:CPU:0'),
    (
        {'num_clones': 2, 'num_ps_tasks': 1},
        '/job:worker/device:GPU:0',
        '/job:worker/device:GPU:1',
        '/job:worker/device:CPU:0',
    ),
    (
        {'num_clones': 2, 'num_ps_tasks': 1, 'clone_on_cpu': True, 'worker_job_name': 'w'},
        '/job:w/device:CPU:0',
        '/job:w/device:CPU:0',
        '/job:w/device:CPU:0',
    ),
]


@pytest.mark.parametrize(('options', 'first', 'second', 'host'), PLACES)
def test_devices_and_scopes(options, first, second, host):
    config = DeploymentConfig(**options)
    assert [config.clone_device(0), config.clone_device(1)] == [first, second]
    assert config.optimizer_device() == config.inputs_device() == host
    assert [config.clone_scope(0), config.clone_scope(1)] == ['clone_0', 'clone_1']
    assert DeploymentConfig().clone_scope(0) == ''
    if 'num_ps_tasks' not in options:
        assert config.variables_device() == '/device:CPU:0'
        assert config.caching_device() is None


@pytest.mark.parametrize('use_resource', [False, True])
def test_variables_go_round_the_parameter_servers(use_resource):
    config = DeploymentConfig(num_ps_tasks=2)
    with tf1.device(config.variables_device()):
        found = [tf1.Variable(0.0, use_resource=use_resource) for _ in range(3)]
        product = tf.constant(1.0) * 2.0
    assert [variable.device for variable in found] == [
        f'/job:ps/device:CPU:0/task:{task}' for task in (0, 1, 0)
    ]
    assert product.device == ''
    assert config.caching_device()(product.op) == ''


def test_one_clone():
    clones = deployment.create_clones(DeploymentConfig(clone_on_cpu=True), classifier, batch())
    tf1.train.get_or_create_global_step()
    assert len(tf1.global_variables()) == 5  # weights, beta, two moving statistics, the step
    assert len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)) == 2
    (clone,) = clones
    assert clone.scope == '' and clone.device == '/device:CPU:0'
    assert clone.outputs.op.name == 'BatchNormClassifier/fully_connected/Sigmoid'


def test_clones_share_variables_and_have_updates_of_their_own():
    config = DeploymentConfig(num_clones=4)
    clones = deployment.create_clones(config, classifier, batch())
    assert len(tf1.global_variables()) == 4
    assert {variable.device for variable in tf1.global_variables()} == {'/device:CPU:0'}
    assert len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)) == 8
    assert len(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)) == 1
    for index, clone in enumerate(clones):
        assert len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS, clone.scope)) == 2
        assert len(tf1.get_collection(tf1.GraphKeys.LOSSES, clone.scope)) == 1
        assert clone.scope == f'clone_{index}/'
        assert clone.device == f'/device:GPU:{index}'
        name = f'clone_{index}/BatchNormClassifier/fully_connected/Sigmoid'
        assert clone.outputs.op.name == name
        assert clone.outputs.device == f'/device:GPU:{index}'


def test_variables_of_clones_on_parameter_servers():
    deployment.create_clones(
        DeploymentConfig(num_clones=2, num_ps_tasks=2, clone_on_cpu=True), classifier, batch()
    )
    variables = tf1.global_variables()
    devices = [tf.DeviceSpec.from_string(v.device) for v in variables]
    assert [device.task for device in devices] == [0, 1, 0, 1]
    assert [tf.DeviceSpec.from_string(v.value().device) for v in variables] == devices


def test_a_variable_on_a_server_is_read_once_however_many_ops_need_it():
    def twice():
        w = tf1.get_variable('w', [2])
        return tf.exp(w) + tf.sin(w)

    deployment.create_clones(DeploymentConfig(num_clones=2, num_ps_tasks=1), twice)
    ops = tf1.get_default_graph().get_operations()
    read = {op.inputs[0] for op in ops if op.type in ('Exp', 'Sin')}
    assert len(read) == 1 and '/job:ps' in read.pop().device


def line(x, y):
    """Loss (w x - y)^2 + (w x - y)^2 / 2 as two losses, L2 loss w^2 / 2, and an idle variable."""
    w = tf1.get_variable('w', initializer=3.0)
    tf1.get_variable('idle', initializer=5.0)
    error = tf1.get_default_graph().get_tensor_by_name('x:0') * w - y
    tf1.losses.add_loss(error**2)
    tf1.losses.add_loss(0.5 * error**2)
    collection = tf1.GraphKeys.REGULARIZATION_LOSSES
    if not tf1.get_collection(collection):
        tf1.add_to_collection(collection, 0.5 * w**2)
    return w


def test_losses_are_scaled_and_gradients_summed():
    x = tf.constant(2.0, name='x')
    clones = deployment.create_clones(
        DeploymentConfig(num_clones=2, clone_on_cpu=True), line, (x, 1.0)
    )
    loss, pairs = deployment.optimize_clones(clones, tf1.train.GradientDescentOptimizer(0.1))
    assert loss.op.name == 'total_loss'
    ((gradient, variable),) = pairs  # the idle one has none
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        # Error 5: each clone 37.5 / 2; L2 loss 4.5, once. Gradient 3 * 5 * 2 + 3.
        assert session.run([loss, gradient]) == [42.0, 33.0]
    assert variable.op.name == 'w'
    loss, _ = deployment.optimize_clones(
        clones, tf1.train.GradientDescentOptimizer(0.1), regularization_losses=[]
    )
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(loss) == 37.5


def test_deploy_trains_a_step_with_the_first_clones_updates():
    config = DeploymentConfig(num_clones=2, clone_on_cpu=True)
    optimizer = tf1.train.GradientDescentOptimizer(0.01)
    model = deployment.deploy(
        config, classifier, batch(), optimizer=optimizer, summarize_gradients=True
    )
    mean = next(v for v in tf1.global_variables() if v.op.name.endswith('moving_mean'))
    step = tf1.train.get_global_step()
    assert len(tf1.global_variables()) == 5 and len(model.clones) == 2
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        losses = [session.run(model.train_op) for _ in range(20)]
        assert losses[-1] < losses[0] and session.run(step) == 20
        assert session.run(mean).any()
        summary = tf1.Summary.FromString(session.run(model.summary_op))
    tags = {value.tag for value in summary.value}
    assert 'Loss/total_loss' in tags and any(tag.startswith('gradients/') for tag in tags)
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    needed = {op.name for op in tf1.get_default_graph().get_operations() if _feeds(op, updates)}
    assert {name.split('/')[0] for name in needed} == {'clone_0'}


def _feeds(op, updates):
    """Whether an update op is waited for by some op."""
    return op in updates and any('clone_' not in user.name for user in op._control_outputs)


def test_deploy_without_optimizer():
    model = deployment.deploy(DeploymentConfig(clone_on_cpu=True), classifier, batch())
    assert model.train_op is None and model.total_loss.op.name == 'total_loss'
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(model.total_loss) > 0


def test_a_model_without_losses():
    model = deployment.deploy(DeploymentConfig(clone_on_cpu=True), lambda: tf.constant(1.0))
    assert model.total_loss is None and model.summary_op is None
