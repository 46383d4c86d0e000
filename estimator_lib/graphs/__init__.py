"""Graphs of tasks: losses, evaluation, and checks of the results of task methods."""
