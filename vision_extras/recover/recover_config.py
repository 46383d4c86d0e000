"""Recovery of a lost config: from a frozen graph, a SavedModel or a checkpoint to a trainable run.

    recover-config --from=frozen_inference_graph.pb --output_dir=recovered

The artifact of a stranger is read in a process of its own: a damaged one may end it.
"""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from estimator_lib.processes import child_processes, programs
from vision_extras.recover import command

_MOST_SECONDS = 3600.0


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; the exit status is that of `programs.guard`."""
    with programs.guard():
        arguments = sys.argv[1:] if arguments is None else arguments
        flags = command.parse(arguments)
        child_processes.run(
            command.__name__,
            *arguments,
            subject=f'--from: {flags.source}',
            seconds=_MOST_SECONDS,
        )


if __name__ == '__main__':
    main()
