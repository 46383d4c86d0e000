"""Benchmark of every export format of a model on the user's evaluation set."""
