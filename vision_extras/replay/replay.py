"""`--mode=replay`: any step of a past run, again."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from vision_extras.replay import diagnosis, past_run, repeating, report, spikes


def replay(run: past_run.PastRun, step: int) -> List[str]:
    """Repeat a step of a run, and write it to `model_dir/replay/<step>/`.

    Args:
        run: the run.
        step: the step, from 1.

    Returns:
        Lines that describe the step.

    Raises:
        errors.UserError: the step cannot be repeated.
    """
    replayed, folder = replay_step(run, step)
    return [*report.lines(replayed), f'{report.JSON_FILE}, {report.CSV_FILE}: {folder}']


def replay_step(run: past_run.PastRun, step: int) -> Tuple[report.Replay, str]:
    """Repeat a step of a run and write it; return it with its folder."""
    folder = os.path.join(run.output_dir, past_run.FOLDER, str(step))
    with repeating.state_before(run, step) as (checkpoint, start, repeated):
        diagnosed = diagnosis.diagnose(run.localize(step), checkpoint)
    replayed = report.Replay(step, start, run.recorded, repeated, diagnosed)
    report.write(replayed, run.task, folder)
    return replayed, folder


def replay_spikes(run: past_run.PastRun) -> List[str]:
    """Replay the unusual steps of a run, and write their examples to `replay/spikes.csv`.

    Args:
        run: the run, read with gradients.

    Returns:
        Lines that describe the steps.

    Raises:
        errors.UserError: the events have too few steps, or the data has changed.
    """
    count = sum(report.TOTAL in each for each in run.recorded.values())
    if count <= spikes.LEAST_SIDE:
        raise errors.UserError(
            f'--find_spike: the events of {run.model_dir} have the losses of {count} steps; '
            f'expected more than {spikes.LEAST_SIDE} (train_config.progress.summary_every_n_steps).'
        )
    unusual = spikes.find_spikes(run.recorded)
    lines = [f'{len(unusual)} unusual of {count} recorded steps']
    counts = spikes.count_errors(run.model_dir)
    rows: List[Dict[str, Any]] = []
    for spike in unusual:
        lines.append(
            f'step {spike.step}: {spike.column} {spike.value:.6g}, usually {spike.usual:.6g}'
        )
        try:
            replayed, folder = replay_step(run, spike.step)
        except errors.DataError:  # the data of all steps
            raise
        except errors.UserError as error:  # other steps may be repeated
            lines.append(f'  not replayed: {error}')
            continue
        lines += [*report.lines(replayed), f'  {folder}']
        rows += spikes.suspects(spike, replayed, counts)
    if rows:
        path = os.path.join(run.output_dir, past_run.FOLDER, spikes.CSV_FILE)
        checkpoint_files.write_atomically(path, report.to_csv(rows))
        lines += [spikes.describe(row) for row in rows]
        lines.append(f'the examples with the largest losses: {path}')
    return lines
