"""Artifacts of any program: frozen graphs, SavedModels and checkpoints, read without a config."""
