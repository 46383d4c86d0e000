"""Converter of data sets to TFRecord shards and a label map.

    python -m model_fns.datasets.convert --from=folders --images=photos/train \
        --label_map=data/label_map.pbtxt --output_prefix=data/train

`convert-records` is the same command.
"""

from __future__ import annotations

from typing import Optional, Sequence

from estimator_lib import logs
from estimator_lib.processes import programs


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; the exit status is that of `programs.guard`."""
    with programs.guard():
        logs.silence_tensorflow()
        from model_fns.datasets.convert import command  # imports TensorFlow

        command.main(arguments)
