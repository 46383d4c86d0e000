"""Results compared with their expected values or documented limits."""
