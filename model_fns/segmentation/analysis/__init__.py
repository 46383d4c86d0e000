"""Analysis of the errors of a segmentation: classes, their confusion, their boundaries."""
