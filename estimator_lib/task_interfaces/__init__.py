"""Typed interfaces of what a task can do beside training; `estimator_lib.task` has them all."""
