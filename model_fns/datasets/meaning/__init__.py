"""Checks of what the annotations of a whole data set mean, as numbers and without tensors.

`annotated` describes an image as its files do, `checks` looks at all of them and returns issues.
"""
