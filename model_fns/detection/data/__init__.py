"""Records become images and groundtruth: decoding, resizing, augmentation, checks."""
