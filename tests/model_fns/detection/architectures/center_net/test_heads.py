"""Heads: their variables, initial values, and what they compute."""

import numpy as np
import tensorflow as tf

from model_fns.detection.architectures.center_net import heads

tf1 = tf.compat.v1


def test_each_feature_map_has_a_head_of_its_own():
    head = heads.Head('box/scale', 2, -2.19, (5, 4), (3, 1))
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = [tf.ones([1, 4, 4, 3]), tf.ones([1, 4, 4, 6])]
        outputs = heads.predict(head, maps, is_training=False)
        shapes = {one.op.name: one.shape.as_list() for one in tf1.global_variables()}
        session.run(tf1.global_variables_initializer())
        biases = {one.op.name: one for one in tf1.global_variables() if 'biases' in one.op.name}
        values = session.run(biases)
    assert [one.shape.as_list() for one in outputs] == [[1, 4, 4, 2]] * 2
    scope = 'PredictionHeads/box/scale/output_'
    for index, depth in enumerate((3, 6)):
        assert shapes[f'{scope}{index}/conv_1/weights'] == [3, 3, depth, 5]
        assert shapes[f'{scope}{index}/conv_2/weights'] == [1, 1, 5, 4]
        assert shapes[f'{scope}{index}/conv_3/weights'] == [1, 1, 4, 2]
        np.testing.assert_allclose(values[f'{scope}{index}/conv_3/biases'], [-2.19] * 2)
        assert not values[f'{scope}{index}/conv_1/biases'].any()
    assert len(shapes) == 12


def test_separable_convolutions_before_the_last():
    head = heads.Head('object_center', 7, filters=(4,), kernels=(3,))
    with tf.Graph().as_default():
        heads.predict(head, [tf.ones([1, 4, 4, 3])], is_training=True, separable=True)
        names = {one.op.name.partition('output_0/')[2] for one in tf1.global_variables()}
    assert names == {
        'conv_1/depthwise_weights',
        'conv_1/pointwise_weights',
        'conv_1/biases',
        'conv_2/weights',
        'conv_2/biases',
    }
