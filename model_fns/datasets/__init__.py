"""Converters to TFRecord, and the embedded demo set."""
