"""Training in eager TensorFlow: a `tf.function` that runs several steps in each call."""
