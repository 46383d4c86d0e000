"""Single-shot detectors: one network pass from an image to boxes (Liu et al. 2016)."""
