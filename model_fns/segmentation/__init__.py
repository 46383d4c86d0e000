"""Semantic segmentation, with optional heads for instances and edges."""
