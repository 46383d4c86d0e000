"""Metadata in and beside exported files, for programs that know nothing of this project."""
