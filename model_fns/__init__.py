"""The tasks, and the factory that makes one out of a pipeline config."""
