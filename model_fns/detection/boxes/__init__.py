"""Boxes: their families, coders, anchors, similarities, matchers and targets."""
