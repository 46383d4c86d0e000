"""Measurements behind design decisions; repeat them when TensorFlow changes."""
