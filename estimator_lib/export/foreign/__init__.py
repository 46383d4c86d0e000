"""Files of any program, read by their outputs alone."""
