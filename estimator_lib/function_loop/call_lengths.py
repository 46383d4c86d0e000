"""The number of steps of each call: up to the next step at which a hook acts."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from protos import train_pb2

# Longer calls gain nothing: a loop in a session took 0.090 ms of overhead a step with 10 steps in a
# call, 0.059 with 50, and single steps 0.38.
MOST_STEPS = 100
# Signals, and checkpoints by time, wait for the end of a call.
_SECONDS = 1.0


class CallLengths:
    """Choice of the number of steps of each call.

    Args:
        first: the global step at which the run begins; the first call has one step.
        multiples: calls end where the global step is a multiple of one of these; 0: not used.
        cadences: (step, number): calls end every `number` steps after `step`; 0: not used.
        ends: global steps at which a call ends.
        most: largest number of steps; 0: as many as take about a second, at most `MOST_STEPS`.
    """

    def __init__(
        self,
        first: int,
        multiples: Sequence[int] = (),
        cadences: Sequence[Tuple[int, int]] = (),
        ends: Sequence[int] = (),
        most: int = 0,
    ):
        self._first = first
        self._multiples = [number for number in multiples if number]
        self._cadences = [(start, number) for start, number in cadences if number]
        self._ends = list(ends)
        self._is_chosen = not most
        self._most = most or MOST_STEPS

    @classmethod
    def from_config(
        cls,
        config: train_pb2.TrainConfig,
        first: int,
        max_steps: Optional[int],
        single_steps: bool,
    ) -> CallLengths:
        """Create call lengths such that a call ends wherever a hook of training acts.

        Args:
            config: cadences of reports and checkpoints, and `steps_per_call`.
            first: the global step at which the run begins.
            max_steps: the global step at which training ends; None: no end.
            single_steps: True for calls of one step.
        """
        reports, profiled = config.progress, config.progress.profile_step
        ends = [profiled - 1, profiled] if profiled else []
        return cls(
            first,
            [
                max(1, reports.every_n_steps),
                reports.summary_every_n_steps,
                reports.pictures_every_n_steps,
            ],
            [(first, config.checkpoints.save_every_n_steps)],  # from the session's begin on
            [*ends, *([] if max_steps is None else [max_steps])],
            1 if single_steps else config.steps_per_call,
        )

    def next(self, step: int) -> int:
        """Return the number of steps of the call that begins at a global step, at least 1."""
        if step == self._first:
            return 1
        ends = [step + self._most]
        ends += [(step // number + 1) * number for number in self._multiples]
        for start, number in self._cadences:
            ends.append(start + ((step - start) // number + 1) * number)
        ends += [end for end in self._ends if end > step]
        return min(ends) - step

    def took(self, count: int, seconds: float) -> None:
        """Adapt the length to the duration of a call (not of the first, which compiles)."""
        if self._is_chosen and seconds > 0:
            self._most = int(min(MOST_STEPS, max(1, _SECONDS * count / seconds)))
