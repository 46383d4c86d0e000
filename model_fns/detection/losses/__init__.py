"""Losses of detection, and the mining of hard examples."""
