"""Tiles of the images of a data set."""
