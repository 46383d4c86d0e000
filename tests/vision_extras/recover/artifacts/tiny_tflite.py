"""A tiny network as a TFLite file: of an image [1, 4, 4, 3] in [0, 255]."""

import numpy as np
import tensorflow as tf

KERNEL = np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2)
BIAS = np.array([0.5, -1.0], np.float32)


def convert():
    """Return the content of a file of relu6((pixels - 1) * KERNEL + BIAS)."""

    @tf.autograph.experimental.do_not_convert
    def serve(image):
        features = tf.nn.conv2d(image - 1.0, KERNEL, 2, 'SAME', name='net/one/Conv2D')
        return {'features': tf.nn.relu6(tf.nn.bias_add(features, BIAS))}

    module = tf.Module()
    signature = tf.TensorSpec([1, 4, 4, 3], name='image')
    module.serve = tf.function(serve, input_signature=[signature])
    functions = [module.serve.get_concrete_function()]
    return tf.lite.TFLiteConverter.from_concrete_functions(functions, module).convert()
