"""The deployment and training-loop APIs that programs made for TF-Slim call."""
