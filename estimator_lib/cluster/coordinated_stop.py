"""A stop of all trainers of a cluster after the same step.

Trainers that wait for each other (collectives, synchronized gradients) hang when one of them leaves
alone. So any of them may request a stop. The chief answers with a step that no trainer has reached
yet, and all trainers stop there. The request and the answer are files in a folder that all share.
"""

from __future__ import annotations

import collections
import json
import math
import os
import time
import uuid
from typing import Any, Callable, Deque, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files, state_files
from estimator_lib.hooks import global_steps
from estimator_lib.processes import preemption

# Where this is the reason, every task ends as a process does that was told to end (status 143).
PREEMPTION = 'preemption'
# The rate of the steps is estimated from this many looks.
_LOOKS = 6


class StopAgreement:
    """The request to stop, and the chief's answer.

    A process makes one agreement. Its constructor discards the files of an earlier run. All
    sessions of the process share the agreement, also when a session is lost and opened again.

    Args:
        folder: a folder that all trainers see.
        is_chief: whether this task answers.
    """

    def __init__(self, folder: str, is_chief: bool):
        self.is_chief = is_chief
        self._request = os.path.join(folder, 'stop_request.json')
        self._answer = os.path.join(folder, 'stop_at.json')
        # The chief deletes the files of an earlier run, maybe after another trainer has started.
        # Until then that one must not obey the old answer.
        self._leftover = None if is_chief else state_files.read_json(self._answer)
        for path in (self._request, self._answer) if is_chief else ():
            if tf.io.gfile.exists(path):
                tf.io.gfile.remove(path)

    def ask(self, reason: str) -> None:
        """Request a stop; repeat the request when a restarted chief has deleted it."""
        if self.asked() is None:
            checkpoint_files.write_atomically(self._request, json.dumps({'reason': reason}))

    def asked(self) -> Optional[str]:
        """Return the reason of the requested stop; None before any request."""
        request = state_files.read_json(self._request)
        return request['reason'] if request else None

    def answer(self, step: int, reason: str) -> None:
        """Write the step after which all trainers stop. Only the chief answers."""
        # The id makes two answers differ that have the same step and reason, for `_leftover`.
        answer = {'step': step, 'reason': reason, 'id': uuid.uuid4().hex}
        checkpoint_files.write_atomically(self._answer, json.dumps(answer))

    def agreed(self) -> Optional[Tuple[int, str]]:
        """Return the agreed step and the reason; None before the chief has answered."""
        answer = state_files.read_json(self._answer)
        if answer is None or answer == self._leftover:
            return None
        return answer['step'], answer['reason']


class AgreedStopHook(global_steps.GlobalStepHook):
    """Hook that stops all trainers after the same step; replaces `PreemptionHook` in a cluster.

    Args:
        agreement: the files by which the trainers agree on the step.
        reasons: by reason, a function of the global step that returns whether to stop. A request to
            end this process is always a reason.
        every_n_seconds: seconds between two looks at the reasons and files.
        margin_seconds: seconds from the chief's answer to the last step; longer than all others
            need to look.
        nobody_answers: returns whether the chief is gone; another trainer then stops at once.
    """

    def __init__(
        self,
        agreement: StopAgreement,
        reasons: Optional[Mapping[str, Callable[[int], bool]]] = None,
        *,
        every_n_seconds: float = 0.5,
        margin_seconds: float = 2.0,
        nobody_answers: Callable[[], bool] = lambda: False,
    ):
        self._nobody_answers = nobody_answers
        self._agreement = agreement
        self._reasons = {PREEMPTION: lambda step: preemption.requested(), **(reasons or {})}
        self._every_n_seconds = every_n_seconds
        self._margin_seconds = margin_seconds
        self._agreed: Optional[Tuple[int, str]] = None
        self._looks: Deque[Tuple[float, int]] = collections.deque(maxlen=_LOOKS)

    @property
    def reason(self) -> Optional[str]:
        """The reason of the agreed stop; None before the agreement."""
        return None if self._agreed is None else self._agreed[1]

    def session_begun(self) -> None:
        """Make signals wait for the end of a step."""
        preemption.wait_for_step(True)
        self._next_look = time.monotonic()
        self._looks.clear()

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Request or answer a stop from time to time, and stop after the agreed step."""
        del run_values
        # By time and not by steps: looks are reads of a shared file system, and steps may take 1
        # ms.
        if self._agreed is None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._every_n_seconds
            self._looks.append((time.monotonic(), self.step))
            self._look()
        if self._reached_last_step():
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """Handle signals at once again, as the session has ended.

        Where steps come in calls, all trainers stop after the call in which the first one stops. A
        trainer that has not looked since the answer reads the answer here.
        """
        del session
        self._agreed = self._agreed or self._agreement.agreed()
        self._reached_last_step()
        preemption.wait_for_step(False)

    def _reached_last_step(self) -> bool:
        """Return whether the agreed step is reached; note a signal that another task got."""
        if self._agreed is None or self.step < self._agreed[0]:
            return False
        if self._agreed[1] == PREEMPTION:
            preemption.request()
        return True

    def _look(self) -> None:
        self._agreed = self._agreement.agreed()
        if self._agreed is not None:  # by an earlier session of this process, or by the chief
            return
        reason = next((name for name, wants in self._reasons.items() if wants(self.step)), None)
        if self._agreement.is_chief:
            reason = reason or self._agreement.asked()
            # The rate of the steps is known from the second look on.
            # Else the chief answers at its next look, when it knows a rate.
            if reason is not None and len(self._looks) > 1:
                self._agreement.answer(self.step + self._margin_steps(), reason)
        elif reason is not None:
            self._agreement.ask(reason)
        self._agreed = self._agreement.agreed()
        if self._agreed is None and reason is not None and self._nobody_answers():
            self._agreed = self.step, reason

    def _margin_steps(self) -> int:
        """Return the steps of `margin_seconds` at the highest rate of the last intervals."""
        # In a slower interval this trainer may have waited for others.
        looks = list(self._looks)
        rate = max(
            (step - earlier_step) / max(1e-3, now - earlier)
            for (earlier, earlier_step), (now, step) in zip(looks, looks[1:])
        )
        # At least one step ahead: the others may have begun it already.
        return 1 + math.ceil(rate * self._margin_seconds)
