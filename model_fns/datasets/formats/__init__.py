"""Formats of data sets that the converter and the readers of files read."""
