"""Input pipelines for any task: files become shuffled, decoded, batched tensors."""
