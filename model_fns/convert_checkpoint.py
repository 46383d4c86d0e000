"""Converter of checkpoints between our names and those of TensorFlow 2's programs.

    python -m model_fns.convert_checkpoint --pipeline_config_path=pipeline.config \
        --checkpoint_path=checkpoint/ckpt-0 --output_dir=converted

It converts an object-based checkpoint to one with variables named by scope, and back. With `--from`
it writes weights of timm (`.safetensors`) as a checkpoint.
`convert-checkpoint` is the same command.
"""

from __future__ import annotations

from typing import Optional, Sequence

from estimator_lib import logs
from estimator_lib.processes import programs


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; the exit status is that of `programs.guard`."""
    with programs.guard():
        logs.silence_tensorflow()
        from model_fns.cli import convert_checkpoint  # imports TensorFlow

        convert_checkpoint.main(arguments)


if __name__ == '__main__':
    main()
