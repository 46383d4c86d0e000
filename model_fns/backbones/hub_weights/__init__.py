"""Weights of timm's models, under the names of our variables."""
