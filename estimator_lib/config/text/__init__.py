"""Text of configs: tokens, places of fields, parsing, names of other systems."""
