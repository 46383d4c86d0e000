"""Two-stage meta-architecture: proposals, then their classes and boxes (Ren et al. 2015)."""
