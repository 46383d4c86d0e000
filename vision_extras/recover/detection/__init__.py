"""Recovery of detectors from artifacts."""
