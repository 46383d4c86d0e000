"""Metadata in exported files, for programs that know nothing of this project."""
