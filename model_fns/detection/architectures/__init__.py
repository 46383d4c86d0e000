"""The detectors, a file or a folder each."""
