"""Conversion of network outputs to detections: suppression, post-processing, pictures."""
