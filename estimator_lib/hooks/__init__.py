"""Session hooks: progress, preemption, numerics, profiling and summaries."""
