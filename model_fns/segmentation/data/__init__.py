"""Records become images and label maps: decoding, cropping, distorting, targets."""
