"""Analyses of evaluations of classifiers."""
