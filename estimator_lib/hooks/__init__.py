"""Session hooks: progress, preemption, numerics, profiling, early stop."""
