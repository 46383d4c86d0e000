"""Parts of two-stage detectors in artifacts."""
