"""Detectors, one module or package per meta-architecture."""
