"""Recognition of data sets by their files, for runs that begin with a path of data."""
