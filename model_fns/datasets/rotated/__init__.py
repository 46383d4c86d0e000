"""Rotated boxes in records, and records of the tiles of large images."""
