"""Warning about a learning rate that jumps where a run continues with another schedule."""

from __future__ import annotations

from typing import List, Optional

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.optimization import learning_rates, optimizers
from protos import pipeline_pb2

_JUMP = 1.2  # factor between two steps; schedules of thousands of steps change by less


def find_jump(config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str) -> Optional[str]:
    """Compare the rate of the next step with that of the last one before, in a resumed run.

    A run of 100 steps with a cosine ended at a rate of nearly 0. With 150 steps the cosine of the
    same config is at a quarter of its height after step 100.

    Args:
        config: of the run.
        model_dir: its folder, with the config of the start before.

    Returns:
        A sentence; None where the rate continues, also by a step of the schedule of before.
    """
    step = checkpoint_files.latest_step(model_dir)
    before = config_lib.load_saved_config(model_dir)
    if not step or before is None:
        return None
    try:
        last, planned = _rates(before, step - 1, step)
        (following,) = _rates(config, step)
    except errors.UserError:  # a config that the run will refuse
        return None
    if following == planned or max(last, following) <= _JUMP * min(last, following):
        return None
    lengths = before.train_config.num_steps, config.train_config.num_steps
    reason = f', as num_steps was {lengths[0]} and is {lengths[1]}' if len(set(lengths)) > 1 else ''
    return (
        f'the learning rate jumps from {last:.3g} at step {step - 1} to {following:.3g} at step '
        f'{step}{reason}: this run is not the one that was planned with so many steps from its '
        'start. A longer warmup_stable_decay_learning_rate continues exactly'
    )


def _rates(config: pipeline_pb2.TrainEvalPipelineConfig, *steps: int) -> List[float]:
    train_config = config.train_config
    schedule = optimizers.learning_rate_config(train_config.optimizer)
    rates = learning_rates.compute_rates(schedule, steps, train_config.num_steps)
    return [float(rate) for rate in rates]
