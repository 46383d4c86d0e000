"""Cluster of the front door on Kubernetes: the command `launch-jobset`, which prints a JobSet."""
