"""Evaluating a checkpoint, and what follows: exports, early stopping."""
