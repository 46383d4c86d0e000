"""Detectors in files for devices: forms of networks, their suppression, their agreement."""
