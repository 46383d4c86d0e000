"""Checkpoints: which variables come from where, and how a restore is reported."""
