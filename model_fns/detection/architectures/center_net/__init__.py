"""Objects as points: heat maps of centres, and what is predicted there (Zhou et al. 2019)."""
