"""Comparison of runs: configs, metrics with confidence intervals, curves."""
