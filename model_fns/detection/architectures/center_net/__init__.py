"""CenterNet, objects as points: heat maps of centers, with predictions there (Zhou et al. 2019)."""
