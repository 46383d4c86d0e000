"""Session hooks: progress, the end after a signal, numerics, profiling and summaries."""
