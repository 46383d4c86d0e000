"""Analysis of a detector's evaluation: errors by type, confusions, curves, labels."""
