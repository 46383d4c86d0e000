"""Optimizers, learning rates, and the processing of gradients before they are applied."""
