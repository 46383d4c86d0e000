"""Converter of checkpoints between our names and those of TensorFlow 2's programs.

    python -m model_fns.convert_checkpoint --pipeline_config_path=pipeline.config \
        --checkpoint_path=checkpoint/ckpt-0 --output_dir=converted

An object-based checkpoint becomes one that names variables by scope, and the other way about.
`convert-checkpoint` is the same command.
"""

from __future__ import annotations

from typing import Optional, Sequence

from estimator_lib import logs


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; exit with 2 and one sentence where something is wrong."""
    logs.silence_tensorflow()
    from model_fns.cli import convert_checkpoint  # imports TensorFlow

    convert_checkpoint.main(arguments)


if __name__ == '__main__':
    main()
