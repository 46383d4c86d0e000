"""Measurements that decided how something is built; to be repeated when TensorFlow changes."""
