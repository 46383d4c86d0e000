"""Conversion and prediction as Apache Beam pipelines, on whatever runner there is."""
