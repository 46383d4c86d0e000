"""Tools for developers, outside of the package."""
