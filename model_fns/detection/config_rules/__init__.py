"""Rules on the fields of detectors that go beyond one field."""
