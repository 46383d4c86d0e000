"""All that is trained lives on the parameter servers; else each worker would train alone."""

import tensorflow as tf

from estimator_lib.distribution import replicas

tf1 = tf.compat.v1


def test_the_copy_of_a_worker_keeps_the_device_function_around_it():
    def device(op):
        return '/job:ps/task:1' if op.type in ('VariableV2', 'VarHandleOp') else '/job:worker'

    def losses(features, labels):
        del labels
        weight = tf1.get_variable('weight', initializer=1.0, use_resource=True)
        return {'loss': tf.reduce_mean(features['x']) * weight}

    with tf.Graph().as_default() as graph, tf1.device(device):
        made = replicas.mean_losses(('',), losses, {'x': tf.ones([2])}, {})
        (variable,) = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    assert variable.device == '/job:ps/task:1'
    assert '/job:worker' in made['loss'].device
