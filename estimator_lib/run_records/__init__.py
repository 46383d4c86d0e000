"""Files that a run leaves: `results.csv`, `results.png`, `run.json`, HParams for TensorBoard."""
