"""The bare network in measurements of memory."""

import tensorflow as tf

from benchmarks.training import memory

tf1 = tf.compat.v1


class OneLayer:
    """Predictions of two kinds, one of which is no number."""

    def predict(self, features, mode, labels):
        weights = tf1.get_variable('weights', [3, 2], initializer=tf1.ones_initializer())
        unused = tf1.get_variable('unused', [])
        assert mode == 'train' and labels == {} and unused is not None
        logits = features['image'] @ weights
        return {'logits': logits, 'names': tf.constant('no number')}


def test_a_bare_step_is_the_gradient_of_the_squares():
    with tf.Graph().as_default(), tf1.Session() as session:
        features = {'image': tf.constant([[1.0, 2.0, 3.0]])}
        step = memory.bare_step(OneLayer(), features, {})
        session.run(tf1.global_variables_initializer())
        # Logits are 6 and 6; the gradient of half their squares by the first weight is 1 x 6.
        assert session.run(step[0]) == 6.0
        assert tf1.get_collection(tf1.GraphKeys.TRAIN_OP) == []
