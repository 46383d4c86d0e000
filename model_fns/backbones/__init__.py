"""The networks between an image and its feature maps: one file a family, found by name."""
