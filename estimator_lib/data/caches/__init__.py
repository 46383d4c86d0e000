"""Cache of decoded examples in files, and what its name is made from."""
