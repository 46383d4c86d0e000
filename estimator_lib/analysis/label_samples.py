"""Samples of the data of a config, for figures of its labels."""

from __future__ import annotations

import contextlib
from typing import Dict, List, Sequence

from estimator_lib import errors
from estimator_lib.analysis.parts import Figure
from estimator_lib.data import inputs
from estimator_lib.task import Task
from protos import pipeline_pb2

RECORDS = 500  # records of each reader that are examined


def draw_labels(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> Sequence[Figure]:
    """Return the figures of the labels of the first records of each reader.

    A reader without files is left out: an evaluation does not need the training data.

    Args:
        task: examines the records, and draws.
        config: has the readers.
    """
    examined: Dict[str, List[object]] = {}
    for name, reader in inputs.named_readers(config):
        with contextlib.suppress(errors.UserError):
            examined[name] = inputs.examine_first(task, reader, RECORDS)
    return task.label_figures(examined)
