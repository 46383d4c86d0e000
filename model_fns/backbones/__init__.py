"""Networks from images to feature maps: one file for each family, and a registry by name."""
