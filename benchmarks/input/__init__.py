"""Training input: its stages, and the time that steps wait for it."""
