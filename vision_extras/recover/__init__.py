"""Recovery of configs and checkpoints from artifacts, for all tasks."""
