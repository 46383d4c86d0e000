"""Metrics of segmentation: intersection over union, boundaries, panoptic quality."""
