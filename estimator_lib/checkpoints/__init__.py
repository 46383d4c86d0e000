"""Checkpoints: their files, the mapping of variables, restores, and reports of restores."""
