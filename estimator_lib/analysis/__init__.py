"""Analyses of evaluations: errors by kind, tables, figures, and a report that explains them."""
