"""Shapes of the machines that made a step, and the same step on the devices of one machine."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import Mode
from estimator_lib.run_records import run_file
from protos import cluster_pb2, pipeline_pb2

_ClusterConfig = cluster_pb2.ClusterConfig

# Modes with a replica on each device of one machine.
_WITH_DEVICES = {Mode.CLONES: _ClusterConfig.CLONES, Mode.MIRRORED: _ClusterConfig.MIRRORED}
_INEXACT = {
    Mode.ASYNC_PARAMETER_SERVERS: (
        'asynchronous parameter servers: each worker updated the variables when it was done, in an '
        'order that nothing records'
    ),
    Mode.SYNC_PARAMETER_SERVERS: (
        'synchronous parameter servers: each worker updated the statistics of batch norm by '
        'itself, in an order that nothing records, and the events have the losses of one of them'
    ),
}


class Shape(NamedTuple):
    """Shape of the machines of a start, as `run.json` has it.

    Attributes:
        mode: the distribution mode.
        workers: names of the processes of a cluster that trained, as `chief:0`; none for one
            machine.
        replicas: number of replicas that shared a batch.
    """

    mode: Mode
    workers: Tuple[str, ...]
    replicas: int

    @property
    def readers(self) -> Tuple[str, ...]:
        """The names of the readers of several workers, as `chief_0`; none where one has read."""
        if len(self.workers) < 2:
            return ()
        return tuple(name.replace(':', '_') for name in self.workers)

    def describe(self) -> str:
        """Describe the shape in a few words."""
        count = max(1, len(self.workers))
        return f'{self.mode.name} with {count} process{"es" if count > 1 else ""}' + (
            f' and {self.replicas} replicas' if self.replicas > 1 else ''
        )


def read_entries(model_dir: str) -> List[Dict[str, Any]]:
    """Read the entries of `run.json` with a first step, in the order of the starts."""
    starts = run_file.read_starts(os.path.join(model_dir, run_file.RUN_FILE))
    return [entry for entry in starts if isinstance(entry.get('first_step'), int)]


def find_entry(entries: List[Dict[str, Any]], step: int) -> Optional[Dict[str, Any]]:
    """Return the entry of the start that made a step; None if there is none."""
    before = [entry for entry in entries if entry['first_step'] < step]
    return before[-1] if before else None


def read_shape(entry: Optional[Mapping[str, Any]]) -> Optional[Shape]:
    """Return the shape of a start; None if an earlier version, or none, has written the entry."""
    recorded = (entry or {}).get(run_file.DISTRIBUTION)
    if not isinstance(recorded, dict):
        return None
    mode, workers, replicas = (recorded.get(name) for name in ('mode', 'workers', 'replicas'))
    types_fit = isinstance(mode, str) and isinstance(workers, list)
    if not types_fit or mode not in Mode.__members__ or not isinstance(replicas, (int, type(None))):
        return None
    return Shape(Mode[mode], tuple(map(str, workers)), replicas or 1)


def one_shape(model_dir: str, first: int, last: int) -> Optional[Shape]:
    """Return the shape of the machines that made some steps; None if it is not known.

    Args:
        model_dir: the folder of the run.
        first: the first step.
        last: the last step.

    Raises:
        errors.UserError: the shape has changed between the steps, or the steps of such machines
            cannot be repeated exactly.
    """
    entries = read_entries(model_dir)
    changes = {entry['first_step'] + 1 for entry in entries}
    steps = sorted({first, *(step for step in changes if first < step <= last)})
    known = [(step, read_shape(find_entry(entries, step))) for step in steps]
    shapes = [(step, shape) for step, shape in known if shape is not None]
    for (_, before), (step, after) in zip(shapes, shapes[1:]):
        if before != after:
            raise errors.UserError(
                f'--step={last}: the machines changed at step {step}, from {before.describe()} to '
                f'{after.describe()}, and the checkpoint of step {step - 1} is deleted '
                f'(train_config.checkpoints.keep_max); expected a step before {step}.'
            )
    shape = shapes[-1][1] if shapes else None
    if shape is not None and shape.mode in _INEXACT and shape.readers:
        raise errors.UserError(
            f'--step={last} was made by {_INEXACT[shape.mode]}; expected a step of one machine, or '
            f'of {Mode.MULTI_WORKER_MIRRORED.name}.'
        )
    return shape


def localize_config(
    config: pipeline_pb2.TrainEvalPipelineConfig, shape: Shape
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Return a config by which one process computes what machines of a shape have computed.

    A device takes the place of each replica: a replica has the same seeds wherever it is.
    """
    mode = shape.mode
    if mode not in _WITH_DEVICES:
        mode = Mode.MIRRORED if shape.replicas > 1 else Mode.ONE_DEVICE
    result = pipeline_pb2.TrainEvalPipelineConfig()
    result.CopyFrom(config)
    train_config = result.train_config
    for field in ('sync_replicas', 'replicas_to_aggregate', 'startup_delay_steps'):
        train_config.ClearField(field)
    on_cpu = train_config.cluster.clone_on_cpu
    train_config.ClearField('cluster')
    cluster = train_config.cluster
    if mode in _WITH_DEVICES:
        too_few = len(tf.config.list_physical_devices('GPU')) < shape.replicas
        cluster.mode = _WITH_DEVICES[mode]
        cluster.num_clones, cluster.clone_on_cpu = shape.replicas, on_cpu or too_few
    return result
