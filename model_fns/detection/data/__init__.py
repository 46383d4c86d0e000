"""Conversion of records to images and groundtruth: decoding, resizing, augmentation, checks."""
