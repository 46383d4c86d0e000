"""Pictures as NumPy arrays: boxes, text, masks and colors."""
