"""Evaluation, prediction and exported models."""
