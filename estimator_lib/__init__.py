"""The engine: turns any task into a `tf.estimator` `model_fn` and runs it; knows no task."""

from estimator_lib import environment

environment.check()
