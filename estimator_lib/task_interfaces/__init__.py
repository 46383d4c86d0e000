"""Typed interfaces of the optional features of a task; `estimator_lib.task` exports all."""
