"""Network outputs become detections: suppression, post-processing, calibration, pictures."""
