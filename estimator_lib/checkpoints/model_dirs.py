"""Checks of a `model_dir` before a run: it is writable, of this model, and listed correctly."""

from __future__ import annotations

import logging
import os
import uuid
from typing import Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import model_variables, restore_report
from estimator_lib.checkpoints.checkpoint_files import (
    checkpoint_shapes,
    latest_checkpoint,
    latest_step,
    list_by_name,
)
from estimator_lib.optimization import partitioned
from estimator_lib.optimization.partitioned import variable_name

log = logging.getLogger('estimator_lib')


def is_trained(model_dir: str, num_steps: int) -> bool:
    """Return whether a run has reached its last step, and say so.

    Args:
        model_dir: the folder of the run.
        num_steps: the last step; 0 for none.
    """
    step = latest_step(model_dir)
    if not 0 < num_steps <= step:
        return False
    level = logging.INFO if step == num_steps else logging.WARNING
    message = 'nothing is trained: the latest checkpoint of %s is of step %d, and num_steps is %d'
    log.log(level, message, model_dir, step, num_steps)
    return True


def ensure_writable(folder: str, name: str = 'model_dir', advice: str = '') -> None:
    """Create a folder if needed, and check that it is writable.

    Args:
        folder: the folder.
        name: the flag or the name of the folder, for the message.
        advice: end of the message.

    Raises:
        errors.UserError: it is not.
    """
    # A name of its own: all tasks of a job may look at the same time.
    probe = os.path.join(folder, f'.writable-{uuid.uuid4().hex}')
    try:
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(probe, 'w') as file:
            file.write('')
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError) as error:
        end = f'; {advice}.' if advice else ''
        raise errors.UserError(
            f'{name} {folder} cannot be written to: {errors.first_line(error)}{end}'
        ) from error


def refuse_own_checkpoint(model_dir: str, fine_tune_checkpoint: str) -> None:
    """Refuse a `fine_tune_checkpoint` inside `model_dir`.

    Raises:
        errors.CheckpointError: it is inside: the run would resume from it instead.
    """
    if not fine_tune_checkpoint:
        return
    # Real paths: a link to the folder would hide that it is the same.
    ours = os.path.realpath(model_dir)
    theirs = os.path.realpath(fine_tune_checkpoint)
    if ours in (theirs, os.path.dirname(theirs)):
        raise errors.CheckpointError(
            f'train_config.fine_tune_checkpoint: {fine_tune_checkpoint} is in model_dir itself '
            f'({model_dir}), whose checkpoints are resumed from; use another model_dir to start '
            'from it, or leave the field out to resume.'
        )


def require_listed(folder: str) -> None:
    """Refuse a moved folder in which TensorFlow, unlike `latest_checkpoint`, finds nothing.

    An Estimator would evaluate or predict with initial values. The list is corrected for the next
    call.

    Raises:
        errors.CheckpointError: the folder was moved.
    """
    prefix = latest_checkpoint(folder)
    # `tf.train.latest_checkpoint` is what an Estimator asks: it returns None for a listed file that
    # is missing, and the Estimator continues with initializers.
    if prefix is None or tf.train.latest_checkpoint(folder) is not None:
        return
    list_by_name(folder)
    raise errors.CheckpointError(
        f'{folder} was moved: its list of checkpoints named files that are not there, so that '
        f'tf.estimator would use initial values. The list has been corrected, and its latest is '
        f'{prefix}: call again.'
    )


def check_model_dir(
    model_dir: str, variables: Sequence[tf.Variable], complete: bool = True, hint: str = ''
) -> None:
    """Refuse to resume from the checkpoint of another model or another optimizer.

    Further variables in the checkpoint are allowed: session hooks create theirs after the
    `model_fn`.

    Args:
        model_dir: the folder; it may be missing or empty.
        variables: the variables of the graph that resumes.
        complete: whether these are all variables of the graph; False for the variables of the
            model alone, without optimizer slots and the global step.
        hint: a sentence about the model of the folder, for the end of the message.

    Raises:
        errors.CheckpointError: the checkpoint does not fit; the message has a table of differences.
    """
    prefix = latest_checkpoint(model_dir)
    if prefix is None:
        return
    # A checkpoint stores a partitioned variable as one tensor, under the name of the whole.
    wanted = {variable_name(variable): variable for variable in partitioned.whole(variables)}
    of_model, of_run = restore_report.differences(checkpoint_shapes(prefix), wanted)
    of_run = of_run.only(lambda name: not restore_report.may_start_fresh(name))
    advice = (
        'Use another model_dir (there, train_config.fine_tune_checkpoint can name this checkpoint).'
        + (f' {hint}' if hint else '')
    )
    of_hooks = frozenset()
    if of_model.unused:
        unused = frozenset(entry.name for entry in of_model.unused)
        of_hooks = unused - model_variables.saved_names(prefix, default=unused)
        of_model = of_model.only(lambda name: name not in of_hooks)
    if not of_model.is_complete or of_model.unused:
        raise errors.CheckpointError(
            f'model_dir {model_dir} belongs to another model: its latest checkpoint is {prefix}. '
            f'{advice}\n{of_model.sections()}'
        )
    if complete and (of_run.missing or of_run.mismatched):
        raise errors.CheckpointError(
            f'model_dir {model_dir} cannot be resumed: its latest checkpoint, {prefix}, is of the '
            'same model, but of a run with another optimizer. '
            f'{advice}\n{of_run.sections()}'
        )
    if complete and of_run.unused:
        log.info('%s holds %d variables that this run does not keep', prefix, len(of_run.unused))
    if of_hooks:
        log.info(
            '%s holds %d variables beside those of the model, which session hooks may create: %s',
            prefix,
            len(of_hooks),
            errors.shortened(sorted(of_hooks), 3),
        )
