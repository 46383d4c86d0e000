"""A run that continues from a past step without some examples, in a folder of its own."""

from __future__ import annotations

import os
import statistics
import zlib
from typing import Any, Dict, List, Optional, Sequence

from estimator_lib import building, distribution, errors, training
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.cluster import run_lock
from estimator_lib.run_records import run_files
from estimator_lib.run_records.training_events import TrainingEvents
from vision_extras.replay import past_run, repeating, report

JSON_FILE = 'without.json'

_MOST_LINES = 10


def continue_without(
    run: past_run.PastRun, step: int, names: Sequence[str], until: Optional[int] = None
) -> List[str]:
    """Train from the state before a step without some examples.

    The other examples keep their order and their augmentation; they move up in the batches. The
    folder is `model_dir/replay/<step>-without-<digest of the names>/`: an interrupted run continues
    there, also with a later `until`.

    Args:
        run: the run.
        step: the first step without the examples, from 1.
        names: source ids, or `file:index` of records.
        until: the last step; None: the last step of the run.

    Returns:
        Lines that compare the losses.

    Raises:
        errors.UserError: the step cannot be repeated, or there are no such examples.
    """
    until = run.last_step if until is None else until
    if until < step:
        raise errors.UserError(f'--until={until} is before --step={step}; expected a later step.')
    run.check(step, run.checkpoint_before(step))
    repeated = run.localize(step)
    task, config = run.task, repeated.config
    plan = distribution.create_plan(config)
    # Its strategy divides the processor, which must come before TensorFlow reads any record.
    building.create_run_config(config, None, plan)
    repeated.input_fn(plan).without(names)  # an error comes before the work
    digest = zlib.crc32(repr(sorted(set(names))).encode())
    folder = os.path.join(run.output_dir, past_run.FOLDER, f'{step}-without-{digest:08x}')
    if checkpoint_files.latest_checkpoint(folder) is None:
        with repeating.state_before(run, step) as (checkpoint, _, _):
            past_run.copy_checkpoint(checkpoint, folder)
    files = run_files.RunFiles(task, config, folder, {'train': config.train_input_reader}, plan)
    with training.prepared_model_dir(config, folder), files.ended():
        hooks = [run_files.RunFilesHook(files), run_lock.LockHook(folder)]
        repeating.repeat_steps(repeated, folder, until, names, hooks)
    return _compare(run, folder, step, until, names)


def _compare(
    run: past_run.PastRun, folder: str, step: int, until: int, names: Sequence[str]
) -> List[str]:
    """Write the losses of both runs; return lines that compare them."""
    without = TrainingEvents(folder).read_steps()
    rows: List[Dict[str, Any]] = [
        {
            'step': each,
            'with': run.recorded[each][report.TOTAL],
            'without': without[each][report.TOTAL],
        }
        for each in without
        if step <= each <= until
        and report.TOTAL in without[each]
        and report.TOTAL in run.recorded.get(each, {})
    ]
    values = {'without': list(names), 'step': step, 'until': until, 'losses': rows}
    checkpoint_files.write_atomically(os.path.join(folder, JSON_FILE), evaluated.to_json(values))
    lines = [f'steps {step} to {until} without {errors.shortened(list(names))}: {folder}']
    lines += [
        f'  step {row["step"]}: loss {row["without"]:.6g}, with them {row["with"]:.6g}'
        for row in rows[:_MOST_LINES]
    ]
    if rows:
        means = [statistics.fmean(row[name] for row in rows) for name in ('without', 'with')]
        lines.append(
            f'mean loss of {len(rows)} recorded steps: {means[0]:.6g}, with them {means[1]:.6g}'
        )
    return lines
