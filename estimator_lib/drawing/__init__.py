"""Pictures as NumPy arrays: boxes, text, masks, colors."""
