"""Folders and files of data sets: listings, texts, lists of images."""
