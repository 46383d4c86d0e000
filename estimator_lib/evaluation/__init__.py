"""Evaluation of checkpoints and exported files, and its consequences: exports, early stopping."""
