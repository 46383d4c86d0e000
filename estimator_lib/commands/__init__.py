"""What the modes `check` and `predict` of the front door do."""
