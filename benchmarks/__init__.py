"""What is claimed about speed, as commands."""
