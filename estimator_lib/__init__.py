"""The engine, which turns any task into a `tf.estimator` `model_fn` and runs it."""

from estimator_lib import environment

environment.check()
environment.choose_kernels()
