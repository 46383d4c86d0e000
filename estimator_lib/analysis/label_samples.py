"""Labels of a sample of the data of a config, as a section of the report."""

from __future__ import annotations

import contextlib
from typing import Dict, List, Optional

from estimator_lib import errors
from estimator_lib.analysis.parts import Section
from estimator_lib.data import inputs
from estimator_lib.task import Task
from protos import pipeline_pb2

RECORDS = 500  # records of each reader that are examined


def create_section(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[Section]:
    """Return a section on the labels of the first records of each reader; None without figures.

    A reader without files is left out: an evaluation does not need the training data.

    Args:
        task: examines the records, and draws.
        config: has the readers.
    """
    examined: Dict[str, List[object]] = {}
    for name, reader in inputs.named_readers(config):
        with contextlib.suppress(errors.UserError):
            examined[name] = inputs.examine_first(task, reader, RECORDS)
    figures = task.label_figures(examined)
    if not figures:
        return None
    return Section('Labels', figures, f'Of the first {RECORDS} records of each input reader.')
