"""Exports: serving inputs, frozen graphs, exporters, and the predictor that reads an export."""
