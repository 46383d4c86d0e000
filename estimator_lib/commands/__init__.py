"""Commands beside training: `--mode=check`, `--mode=predict` and `convert-checkpoint`."""
