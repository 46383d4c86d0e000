"""Labels of a sample of the data of a config, as a section of the report."""

from __future__ import annotations

import contextlib
from concurrent import futures
from typing import Dict, List, Mapping, NamedTuple, Optional

from estimator_lib import errors
from estimator_lib.analysis import rendering
from estimator_lib.analysis.parts import Part, Section
from estimator_lib.data import inputs
from estimator_lib.drawing import figures
from estimator_lib.task import Task
from protos import pipeline_pb2

RECORDS = 500  # records of each reader that are examined


class DrawnLabels(NamedTuple):
    """Section on the labels of the data, with its drawn figures by name."""

    section: Section
    drawings: Mapping[str, rendering.Drawing]


def start_drawing(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig
) -> futures.Future[Optional[DrawnLabels]]:
    """Draw the labels in a thread, while an evaluation waits for its network.

    See `draw_labels` for arguments and result.
    """
    pool = futures.ThreadPoolExecutor(1, thread_name_prefix='draw_labels')
    started = pool.submit(draw_labels, task, config)
    # It only refuses further tasks; the thread ends with this one.
    pool.shutdown(wait=False)
    return started


def draw_labels(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[DrawnLabels]:
    """Draw the labels of the first records of each reader; None where the task has no figures.

    A reader without files is left out: an evaluation does not need the training data.

    Args:
        task: examines the records, and draws.
        config: has the readers.
    """
    examined: Dict[str, List[object]] = {}
    for name, reader in inputs.named_readers(config):
        with contextlib.suppress(errors.UserError):
            examined[name] = inputs.examine_first(task, reader, RECORDS)
    parts: List[Part] = []
    with figures.tolerated('labels of the data'):
        parts = list(task.checks.label_figures(examined))
    section = Section('Labels', parts, f'Of the first {RECORDS} records of each input reader.')
    drawings = rendering.render_all([section])
    return DrawnLabels(section, drawings) if drawings else None
