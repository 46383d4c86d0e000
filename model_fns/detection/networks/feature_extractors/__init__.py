"""Between an image and the feature maps that anchors lie on: one file a family, found by name."""
