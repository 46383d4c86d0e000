"""Continuation of a finished run at the point where its learning rate began to cool down."""

from __future__ import annotations

import logging
from typing import Optional

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.optimization import learning_rates, optimizers
from protos import pipeline_pb2, train_pb2

log = logging.getLogger('estimator_lib')


def first_step(train_config: train_pb2.TrainConfig) -> Optional[int]:
    """Return the step at which the cool-down of the learning rate begins; None without one.

    It is 750 for 1000 steps and a cool-down of 250.

    Raises:
        errors.ConfigError: no optimizer is chosen.
    """
    rate = optimizers.learning_rate_config(train_config.optimizer)
    schedule = rate.warmup_stable_decay_learning_rate
    total = learning_rates.warmup_stable_decay_length(schedule, train_config.num_steps)
    if not (rate.HasField('warmup_stable_decay_learning_rate') and schedule.cool_down_steps):
        return None
    return total - schedule.cool_down_steps if total else None


def go_back(config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str) -> None:
    """Make a run that is longer now resume where the cool-down of the shorter one began.

    Until there both are the same run. Without a whole checkpoint of that step it is the last one
    before.

    Args:
        config: of the run that begins; its durations are steps.
        model_dir: its folder, with the config of the run before.
    """
    saved = config_lib.load_saved_config(model_dir)
    if saved is None:
        return
    try:
        before, now = first_step(saved.train_config), first_step(config.train_config)
    except errors.ConfigError:  # a later check describes it
        return
    latest = checkpoint_files.latest_step(model_dir)
    if before is None or now is None or not before < min(now, latest):
        return
    start = checkpoint_files.return_to(model_dir, before)
    if start is None:
        log.warning(
            'the cool-down of the learning rate began at step %d, and no checkpoint up to there is '
            'left: training continues after the cool-down, at step %d',
            before,
            latest,
        )
        return
    log.info(
        'training continues at step %d, not at %d: the cool-down of the learning rate, which began '
        'at step %d, begins at step %d now',
        checkpoint_files.checkpoint_step(start),
        latest,
        before,
        now,
    )
