"""Recovery of a lost config: from a frozen graph, a SavedModel or a checkpoint to a trainable run.

    python -m model_fns.recover_config --from=frozen_inference_graph.pb --output_dir=recovered

`recover-config` is the same command.
"""

from __future__ import annotations

from typing import Optional, Sequence

from estimator_lib import logs
from estimator_lib.processes import programs


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; the exit status is that of `programs.guard`."""
    with programs.guard():
        logs.silence_tensorflow()
        from model_fns.cli import recover_config  # imports TensorFlow

        recover_config.main(arguments)


if __name__ == '__main__':
    main()
