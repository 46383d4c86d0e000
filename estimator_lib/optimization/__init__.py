"""Optimizers, learning rates, and what happens to a gradient before it is applied."""
