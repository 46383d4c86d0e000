"""Checks of the optimizer's config and of its learning rate schedule."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, NamedTuple, Sequence

from google.protobuf import message as message_lib

from estimator_lib.config import message_checks
from estimator_lib.config.rules import ConfigRules, Problem
from estimator_lib.config.section import Section
from protos import optimizer_pb2, train_pb2


def check_optimizer(optimizer: optimizer_pb2.Optimizer, num_steps: int) -> Iterator[Problem]:
    """Check `train_config.optimizer` beyond the ranges of single fields.

    Args:
        optimizer: the message.
        num_steps: `train_config.num_steps`.

    Yields:
        The problems.
    """
    section = Section(optimizer, 'train_config.optimizer')
    kind = optimizer.WhichOneof('optimizer')
    if kind is None:
        members = _members(optimizer, 'optimizer')
        yield section.problem('', f'not set; expected one of: {members}.')
        return
    rate = section.child(f'{kind}.learning_rate')
    yield from _check_rate(rate, num_steps)
    # An evaluation builds the schedule too, and its run need not have an end.
    stable = rate.child('warmup_stable_decay_learning_rate')
    if stable.message.cool_down_steps and not (stable.message.total_steps or num_steps):
        yield stable.problem(
            'cool_down_steps',
            'the run has no end to cool down for; expected train_config.num_steps or total_steps.',
        )


def require_optimizer(optimizer: optimizer_pb2.Optimizer) -> None:
    """Check the fields of an optimizer that is built without the rest of its config, each alone.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(ConfigRules(), Section(optimizer, 'train_config.optimizer'))


def require_rate(rate: optimizer_pb2.LearningRate, num_steps: int) -> None:
    """Check a schedule that is built without the rest of its config.

    Args:
        rate: the message.
        num_steps: `train_config.num_steps`.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    section = Section(rate, 'learning_rate')
    message_checks.check_message(ConfigRules(), section, _check_rate(section, num_steps))


def _check_rate(section: Section[optimizer_pb2.LearningRate], num_steps: int) -> Iterator[Problem]:
    """Check a schedule beyond the ranges of single fields."""
    schedule = section.message.WhichOneof('learning_rate')
    if schedule is None:
        members = _members(section.message, 'learning_rate')
        yield section.problem('', f'not set; expected one of: {members}.')
    elif schedule in _SCHEDULES:
        yield from _SCHEDULES[schedule](section.child(schedule), num_steps)


def _members(message: message_lib.Message, oneof: str) -> str:
    return ', '.join(field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields)


def _manual_step(section: Section[Any], num_steps: int) -> Iterator[Problem]:
    del num_steps
    changes = section.children('schedule')
    steps = [change.message.step for change in changes]
    if steps[:1] == [0]:
        yield changes[0].problem(
            'step',
            '0; expected at least 1. The rate of the first steps is initial_learning_rate: write '
            f'initial_learning_rate: {changes[0].message.learning_rate:g} and leave this entry '
            'out.',
        )
        steps = steps[1:]
    if steps:
        yield from _growing(section, 'schedule', steps)


def _growing(section: Section[Any], field: str, steps: Sequence[int]) -> Iterator[Problem]:
    """Check that the steps at which a rate changes grow from 1."""
    if not steps:
        yield section.problem(field, 'empty; expected at least one step at which the rate changes.')
    elif steps[0] == 0:
        yield section.problem(field, 'the first step is 0; expected at least 1.')
    for earlier, later in zip(steps, steps[1:]):
        if later <= earlier:
            text = f'step {later} after step {earlier}; expected growing steps.'
            yield section.problem(field, text)


def _warmup_stable_decay(section: Section[Any], num_steps: int) -> Iterator[Problem]:
    del num_steps
    least = section.message.warmup_steps + section.message.cool_down_steps
    if 0 < section.message.total_steps < least:
        yield section.problem(
            'total_steps', expected=f'at least {least}, warmup_steps and cool_down_steps'
        )


def _polynomial(section: Section[Any], num_steps: int) -> Iterator[Problem]:
    yield from _length(section, 'decay_steps', num_steps)


def _length(section: Section[Any], field: str, num_steps: int) -> Iterator[Problem]:
    """Check that a schedule without a length can use the length of the run."""
    if not getattr(section.message, field) and not num_steps:
        text = '0 stands for train_config.num_steps, which is 0 too; set one.'
        yield section.problem(field, text)


def _deeplab(section: Section[Any], num_steps: int) -> Iterator[Problem]:
    kind, schedule = optimizer_pb2.DeepLabLearningRate, section.message
    if schedule.policy == kind.MULTI_STEPS:
        yield from _growing(section, 'boundaries', list(schedule.boundaries))
        rates, expected = len(schedule.learning_rates), len(schedule.boundaries) + 1
        if rates != expected:
            yield section.problem(
                'learning_rates',
                f'{rates} rates for {expected - 1} boundaries; expected {expected}.',
            )
    needs_length = schedule.policy == kind.COSINE or not schedule.decay_steps
    if schedule.policy in (kind.POLY, kind.COSINE) and needs_length:
        field = 'training_number_of_steps'
        yield from _length(section, field, num_steps)
        steps = schedule.training_number_of_steps or num_steps
        if 0 < steps <= schedule.slow_start_step:
            least = f'slow_start_step, {schedule.slow_start_step}'
            yield section.problem(field, f'{steps} steps; expected more than {least}.')


_SCHEDULES: Dict[str, Callable[[Section[Any], int], Iterator[Problem]]] = {
    'manual_step_learning_rate': _manual_step,
    'polynomial_decay_learning_rate': _polynomial,
    'warmup_stable_decay_learning_rate': _warmup_stable_decay,
    'deeplab_learning_rate': _deeplab,
}


class Span(NamedTuple):
    """Lengths of a schedule and of its warm-up.

    Attributes:
        warmup_field: the field of the schedule that sets the length of the warm-up.
        warmup: the steps of the warm-up; 0: there is none.
        length_field: the field of the schedule that sets its whole length.
        length: the steps until the final rate; 0: the length of the run, or no end.
    """

    warmup_field: str = ''
    warmup: int = 0
    length_field: str = ''
    length: int = 0


def span(rate: optimizer_pb2.LearningRate) -> Span:
    """Return the lengths of a learning rate schedule and of its warm-up."""
    schedule = rate.WhichOneof('learning_rate')
    return _SPANS[schedule](getattr(rate, schedule)) if schedule in _SPANS else Span()


def _span_of_cosine(schedule: Any) -> Span:
    length = schedule.total_steps if schedule.HasField('total_steps') else 0
    return Span('warmup_steps', schedule.warmup_steps, 'total_steps', length)


def _span_of_warmup_stable_decay(schedule: Any) -> Span:
    return Span('warmup_steps', schedule.warmup_steps, 'total_steps', schedule.total_steps)


def _span_of_manual_steps(schedule: Any) -> Span:
    steps = [change.step for change in schedule.schedule]
    if not steps:
        return Span()
    # The last rate begins at its step: only a run of one step more uses it.
    return Span('schedule', steps[0] if schedule.warmup else 0, 'schedule', steps[-1] + 1)


def _span_of_deeplab(schedule: Any) -> Span:
    kind, start = optimizer_pb2.DeepLabLearningRate, schedule.slow_start_step
    field, length = '', 0
    if schedule.policy == kind.MULTI_STEPS and schedule.boundaries:
        # One more than above: DeepLab's rate changes in the step after its boundary.
        field, length = 'boundaries', start + schedule.boundaries[-1] + 2
    elif schedule.policy == kind.POLY and schedule.decay_steps:
        field, length = 'decay_steps', start + schedule.decay_steps
    elif schedule.policy in (kind.POLY, kind.COSINE):
        field, length = 'training_number_of_steps', schedule.training_number_of_steps
    return Span('slow_start_step', start, field, length)


_SPANS: Dict[str, Callable[[Any], Span]] = {
    'exponential_decay_learning_rate': lambda schedule: Span('burnin_steps', schedule.burnin_steps),
    'manual_step_learning_rate': _span_of_manual_steps,
    'cosine_decay_learning_rate': _span_of_cosine,
    'polynomial_decay_learning_rate': lambda schedule: Span(
        length_field='decay_steps', length=schedule.decay_steps
    ),
    'deeplab_learning_rate': _span_of_deeplab,
    'warmup_stable_decay_learning_rate': _span_of_warmup_stable_decay,
    'exponential_decay_with_warmup_learning_rate': lambda schedule: Span(
        'warmup_steps', schedule.warmup_steps
    ),
}


def find_warnings(train_config: train_pb2.TrainConfig) -> Iterator[str]:
    """Yield warnings about schedules that do not fit the length of the run."""
    optimizer = train_config.optimizer.WhichOneof('optimizer')
    if not optimizer:
        return
    rate = getattr(train_config.optimizer, optimizer).learning_rate
    yield from _length_warnings(rate, train_config.num_steps)


def _length_warnings(rate: optimizer_pb2.LearningRate, num_steps: int) -> Iterator[str]:
    """Yield warnings about a run that is shorter or longer than its schedule."""
    schedule, steps = rate.WhichOneof('learning_rate'), span(rate)
    run = f'train_config.num_steps is {num_steps}'
    if not num_steps:
        return
    stays_at_end_rate = schedule in (
        'cosine_decay_learning_rate',
        'warmup_stable_decay_learning_rate',
    )
    if stays_at_end_rate and 0 < steps.length < num_steps:
        end = getattr(rate, schedule).end_learning_rate
        yield (
            f'{run}, but the learning rate is {end:g} after step {steps.length}, total_steps of '
            f'{schedule}.'
        )
    if num_steps <= steps.warmup:
        yield (
            f'{run}: training ends within the warm-up of the learning rate, {steps.warmup} steps '
            f'({schedule}.{steps.warmup_field}); shorten it with the run.'
        )
    elif num_steps < steps.length:
        yield (
            f'{run}: training ends before the schedule of the learning rate, {steps.length} steps '
            f'({schedule}.{steps.length_field}), and so at a rate that is meant for its middle; '
            'shorten it with the run.'
        )
    elif schedule == 'warmup_stable_decay_learning_rate':
        yield from _cool_down_warnings(getattr(rate, schedule), num_steps)


def _cool_down_warnings(schedule: Any, num_steps: int) -> Iterator[str]:
    least = schedule.warmup_steps + schedule.cool_down_steps
    if num_steps < least:
        yield (
            f'train_config.num_steps is {num_steps}: training ends before the learning rate has '
            f'cooled down, as warm-up and cool-down take {least} steps '
            '(warmup_stable_decay_learning_rate.cool_down_steps); shorten it with the run.'
        )
