"""What is wrong with an optimizer's config: what is missing, and schedules that cannot be."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Sequence

from google.protobuf import message as message_lib

from estimator_lib.config.rules import Problem
from protos import optimizer_pb2, train_pb2


def check_optimizer(optimizer: optimizer_pb2.Optimizer, num_steps: int) -> Iterator[Problem]:
    """What is wrong with `train_config.optimizer`, beside single values out of range.

    Args:
        optimizer: the message.
        num_steps: `train_config.num_steps`.
    """
    path = 'train_config.optimizer'
    kind = optimizer.WhichOneof('optimizer')
    if kind is None:
        yield Problem(path, f'not set; expected one of: {_members(optimizer, "optimizer")}.')
        return
    path = f'{path}.{kind}.learning_rate'
    rate = getattr(optimizer, kind).learning_rate
    schedule = rate.WhichOneof('learning_rate')
    if schedule is None:
        yield Problem(path, f'not set; expected one of: {_members(rate, "learning_rate")}.')
    elif schedule in _SCHEDULES:
        check = _SCHEDULES[schedule]
        yield from check(f'{path}.{schedule}', getattr(rate, schedule), num_steps)


def _members(message: message_lib.Message, oneof: str) -> str:
    return ', '.join(field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields)


def _manual_step(path: str, schedule: Any, num_steps: int) -> Iterator[Problem]:
    del num_steps
    if schedule.schedule:
        yield from _growing(f'{path}.schedule', [change.step for change in schedule.schedule])


def _growing(path: str, steps: Sequence[int]) -> Iterator[Problem]:
    """The steps at which a rate changes."""
    if not steps:
        yield Problem(path, 'empty; expected at least one step at which the rate changes.')
    elif steps[0] == 0:
        yield Problem(path, 'the first step is 0; expected at least 1.')
    for earlier, later in zip(steps, steps[1:]):
        if later <= earlier:
            yield Problem(path, f'step {later} after step {earlier}; expected growing steps.')


def _cosine(path: str, schedule: Any, num_steps: int) -> Iterator[Problem]:
    del num_steps
    if schedule.total_steps < schedule.warmup_steps:
        yield Problem(
            f'{path}.total_steps',
            f'{schedule.total_steps}; expected at least {schedule.warmup_steps}, warmup_steps.',
        )
    yield from _warmup(path, schedule)


def _warmup(path: str, schedule: Any, num_steps: int = 0) -> Iterator[Problem]:
    del num_steps
    rate, warmup = schedule.learning_rate_base, schedule.warmup_learning_rate
    if schedule.warmup_steps and rate < warmup:
        yield Problem(
            f'{path}.learning_rate_base',
            f'{rate:g}; expected at least {warmup:g}, warmup_learning_rate.',
        )


def _polynomial(path: str, schedule: Any, num_steps: int) -> Iterator[Problem]:
    yield from _length(f'{path}.decay_steps', schedule.decay_steps, num_steps)


def _length(path: str, steps: int, num_steps: int) -> Iterator[Problem]:
    """A schedule that may take its length from the run's."""
    if not steps and not num_steps:
        yield Problem(path, '0 stands for train_config.num_steps, which is 0 too; set one.')


def _deeplab(path: str, schedule: Any, num_steps: int) -> Iterator[Problem]:
    kind = optimizer_pb2.DeepLabLearningRate
    if schedule.policy == kind.MULTI_STEPS:
        yield from _growing(f'{path}.boundaries', list(schedule.boundaries))
        rates, expected = len(schedule.learning_rates), len(schedule.boundaries) + 1
        if rates != expected:
            yield Problem(
                f'{path}.learning_rates',
                f'{rates} rates for {expected - 1} boundaries; expected {expected}.',
            )
    needs_length = schedule.policy == kind.COSINE or not schedule.decay_steps
    if schedule.policy in (kind.POLY, kind.COSINE) and needs_length:
        field = f'{path}.training_number_of_steps'
        steps = schedule.training_number_of_steps
        yield from _length(field, steps, num_steps)
        if 0 < (steps or num_steps) <= schedule.slow_start_step:
            yield Problem(
                field,
                f'{steps or num_steps} steps; expected more than slow_start_step, '
                f'{schedule.slow_start_step}.',
            )


_SCHEDULES: Dict[str, Callable[[str, Any, int], Iterator[Problem]]] = {
    'manual_step_learning_rate': _manual_step,
    'cosine_decay_learning_rate': _cosine,
    'exponential_decay_with_warmup_learning_rate': _warmup,
    'polynomial_decay_learning_rate': _polynomial,
    'deeplab_learning_rate': _deeplab,
}


def doubts(train_config: train_pb2.TrainConfig) -> Iterator[str]:
    """What is allowed in a schedule, and probably not meant."""
    optimizer = train_config.optimizer.WhichOneof('optimizer')
    if not optimizer:
        return
    rate = getattr(train_config.optimizer, optimizer).learning_rate
    total = rate.cosine_decay_learning_rate.total_steps
    if rate.HasField('cosine_decay_learning_rate') and total < train_config.num_steps:
        yield (
            f'train_config.num_steps is {train_config.num_steps}, but the learning rate is 0 '
            f'after step {total}, total_steps of cosine_decay_learning_rate.'
        )
