"""The deployment and training-loop APIs of programs written for TF-Slim."""
