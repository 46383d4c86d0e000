"""The two-stage meta-architecture: proposals, then classes and boxes of them (Ren et al. 2015)."""
