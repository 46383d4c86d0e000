"""Commands of the front door and of the scripts beside it."""
