"""Files become shuffled, decoded, batched tensors, for any task."""
