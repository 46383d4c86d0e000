"""Comparison with the user's own Object Detection API: the same batches and initial values."""
