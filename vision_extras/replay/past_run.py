"""A past run as its folder tells it: checkpoints, recorded losses, and fingerprint of its data."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib import building, distribution, errors
from estimator_lib.checkpoints import checkpoint_files, plain_paths
from estimator_lib.config import loading
from estimator_lib.data import inputs
from estimator_lib.run_records import run_file
from estimator_lib.run_records.training_events import TrainingEvents
from estimator_lib.task import Task
from protos import pipeline_pb2
from vision_extras.replay import shapes

log = logging.getLogger('estimator_lib')

FOLDER = 'replay'  # in model_dir

Scalars = Mapping[int, Mapping[str, float]]  # by step and column of `results.csv`


@dataclasses.dataclass(frozen=True)
class PastRun:
    """Run that has trained in a folder.

    Attributes:
        task: the task of the run.
        config: the config of the run.
        model_dir: the folder, which a replay does not change.
        output_dir: the folder of `FOLDER`, with the results of replays.
        recorded: the scalars of its events by step and column of `results.csv`.
        last_step: the last step that it is known to have made.
        readers: names of the readers of several workers, whose steps this process repeats.
    """

    task: Task
    config: pipeline_pb2.TrainEvalPipelineConfig
    model_dir: str
    recorded: Scalars
    last_step: int
    output_dir: str
    readers: Sequence[str] = ()

    def checkpoint_before(self, step: int) -> str:
        """Return the prefix of the latest checkpoint before a step.

        Raises:
            errors.UserError: the run has not made the step, or no checkpoint before it is left.
        """
        steps = {
            checkpoint_files.checkpoint_step(prefix): prefix
            for prefix in checkpoint_files.list_prefixes(self.model_dir)
        }
        if not steps:
            raise errors.CheckpointError(
                f'{self.model_dir} has no checkpoint; expected the folder of a run.'
            )
        first, last = min(steps) + 1, self.last_step
        expected = f'expected {first} to {last}' if first <= last else 'no step can be repeated'
        if not 1 <= step <= last:
            raise errors.UserError(
                f'--step={step}: the run in {self.model_dir} has made {last} steps; {expected}.'
            )
        before = [each for each in steps if each < step]
        if not before:
            raise errors.UserError(
                f'--step={step}: the checkpoints before this step were deleted '
                f'(train_config.checkpoints.keep_max), and the earliest one left is of step '
                f'{min(steps)}; {expected}.'
            )
        return checkpoint_files.resolve_checkpoint(steps[max(before)])

    def check(self, step: int, checkpoint: str) -> None:
        """Check that the step can be repeated: the same data, by machines of a known shape.

        Args:
            step: the step to repeat.
            checkpoint: the prefix of the checkpoint to start from.

        Raises:
            errors.UserError: files of the data are missing or have changed, or what the machines
                have computed cannot be repeated.
        """
        _require_known_machines(self.model_dir, step, checkpoint)
        inputs.input_files(self.config.train_input_reader)  # an error names what is missing
        now = run_file.describe_data(self.config.train_input_reader)
        entry = shapes.find_entry(shapes.read_entries(self.model_dir), step)
        if entry is None:
            log.warning(
                '%s has no start of this run before step %d: whether the data is the same is not '
                'known',
                os.path.join(self.model_dir, run_file.RUN_FILE),
                step,
            )
            return
        before = (entry.get('data') or {}).get('train')
        if before and before.get('sha256') != (now or {}).get('sha256'):
            raise errors.DataError(
                f'--step={step}: the training data has changed since the run: it had '
                f'{_described(before)}, and now has {_described(now)}; expected the files of '
                f'{run_file.RUN_FILE}.'
            )
        digest = loading.hash_config(self.config).hexdigest()
        if digest != (entry.get('config') or {}).get('sha256'):
            log.warning(
                'the config is not that of the run at step %d (%s): the step may differ',
                step,
                run_file.RUN_FILE,
            )

    def localize(self, step: int) -> PastRun:
        """Return the run with what one process needs to repeat a step as its machines made it."""
        shape = shapes.read_shape(shapes.find_entry(shapes.read_entries(self.model_dir), step))
        if shape is None:
            return self
        config = shapes.localize_config(self.config, shape)
        return dataclasses.replace(self, config=config, readers=shape.readers)

    def input_fn(self, plan: distribution.Plan) -> inputs.RecordInput:
        """Create the input function of the run's training."""
        input_fn = building.train_input_fn(self.task, self.config, plan)
        return input_fn.as_workers(self.readers) if self.readers else input_fn


def read(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    gradients: bool = False,
    output_dir: Optional[str] = None,
) -> PastRun:
    """Read the events of a run.

    Args:
        task: the task of the run.
        config: the config of the run.
        model_dir: the folder of the run.
        gradients: whether to read norms of gradients, which takes longer.
        output_dir: for the results; None: `model_dir`.
    """
    model_dir = plain_paths.plain_path(model_dir)
    recorded = TrainingEvents(model_dir, gradients).read_steps()
    last = max([checkpoint_files.latest_step(model_dir), *recorded])
    output_dir = plain_paths.plain_path(output_dir or model_dir)
    return PastRun(task, config, model_dir, recorded, last, output_dir)


def copy_checkpoint(prefix: str, folder: str) -> None:
    """Copy a checkpoint to a folder, as its latest one."""
    tf.io.gfile.makedirs(folder)
    for path in tf.io.gfile.glob(f'{prefix}.*'):
        tf.io.gfile.copy(path, os.path.join(folder, os.path.basename(path)), overwrite=True)
    copied = os.path.join(folder, os.path.basename(prefix))
    checkpoint_files.write_list(folder, [copied])


def _require_known_machines(model_dir: str, step: int, checkpoint: str) -> None:
    cluster = distribution.read_tf_config()
    if cluster is not None:
        raise errors.UserError(
            f'--mode=replay runs as one process, but TF_CONFIG is set, to {cluster.name}; unset it.'
        )
    first = checkpoint_files.checkpoint_step(checkpoint) + 1
    if shapes.one_shape(model_dir, first, step) is not None:
        return
    start = f'{checkpoint_files.READER_SCOPE}/'
    names = checkpoint_files.checkpoint_shapes(checkpoint)
    readers = sorted(name.split('/')[1] for name in names if name.startswith(start))
    if len(readers) > 1:
        raise errors.UserError(
            f'{checkpoint} is of a cluster, whose {len(readers)} processes each read their own '
            f'examples ({errors.shortened(readers)}), and {run_file.RUN_FILE} does not say in '
            f'which mode: this run is of an earlier version; expected a run of this version, or of '
            'one process.'
        )


def _described(data: Optional[Mapping[str, Any]]) -> str:
    if data is None:
        return 'no files that can be read'
    count = 'an unknown number of' if data.get('records') is None else data['records']
    return (
        f'{data.get("files")} files, {data.get("bytes")} bytes, {count} records '
        f'(sha256 {str(data.get("sha256"))[:12]})'
    )
