"""Training: start, steps, memory and loops, of each kind of model."""
