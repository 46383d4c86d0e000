"""Objects as points: heat maps of centers, and what is predicted there (Zhou et al. 2019)."""
