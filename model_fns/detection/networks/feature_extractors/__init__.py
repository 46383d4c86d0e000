"""Feature extractors, from images to the feature maps of anchors: one module per family."""
