"""Replay of past steps: repeated losses, their examples, and runs without some examples."""
