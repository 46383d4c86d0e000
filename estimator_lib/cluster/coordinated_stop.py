"""How the trainers of a cluster stop after the same step.

Where trainers wait for each other (collectives, synchronised gradients) one that leaves alone makes
the others hang. So any of them may ask for the end, the chief answers with a step that none has
reached yet, and all stop there; the two messages are files in a folder that all of them see.
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

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.hooks import global_steps, preemption

# The reason whose end is that of a process that was told to end, on every task.
PREEMPTION = 'preemption'
# Of so many the rate of the steps is told.
_LOOKS = 6


class StopAgreement:
    """The request to stop, and the chief's answer.

    Made once in the life of a process: what an earlier run has left is forgotten then, while the
    sessions of this process, which may be lost and opened again, share what was said since.

    Args:
        folder: a folder that all trainers see.
        is_chief: whether this task answers.
    """

    def __init__(self, folder: str, is_chief: bool):
        self.is_chief = is_chief
        self._request = os.path.join(folder, 'stop_request.json')
        self._answer = os.path.join(folder, 'stop_at.json')
        self._leftover = None if is_chief else checkpoint_files.read_json(self._answer)
        for path in (self._request, self._answer) if is_chief else ():
            if tf.io.gfile.exists(path):
                tf.io.gfile.remove(path)

    def ask(self, reason: str) -> None:
        """Any task: asks for the end; again, where a chief that was started anew forgot it."""
        if self.asked() is None:
            checkpoint_files.write_atomically(self._request, json.dumps({'reason': reason}))

    def asked(self) -> Optional[str]:
        """Return the reason that a task has given for the end; None before one has."""
        request = checkpoint_files.read_json(self._request)
        return request['reason'] if request else None

    def answer(self, step: int, reason: str) -> None:
        """The chief: says after which step all stop."""
        answer = {'step': step, 'reason': reason, 'id': uuid.uuid4().hex}
        checkpoint_files.write_atomically(self._answer, json.dumps(answer))

    def agreed(self) -> Optional[Tuple[int, str]]:
        """Step and reason; None before the chief has answered."""
        answer = checkpoint_files.read_json(self._answer)
        if answer is None or answer == self._leftover:
            return None
        return answer['step'], answer['reason']


class AgreedStopHook(global_steps.GlobalStepHook):
    """Stops this trainer when all do; in a cluster it takes the place of `PreemptionHook`.

    Args:
        agreement: on the step.
        reasons: whether to stop after a step, by reason; asked every so often, beside whether this
            process has been told to end.
        every_n_seconds: between two looks at reasons and files.
        margin_seconds: how far in the future the chief puts the last step, in time; more than it
            takes for all others to look.
        nobody_answers: whether the chief is gone; who is not the chief then stops at once.
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
        """Why all have agreed to stop; None while they have not."""
        return None if self._agreed is None else self._agreed[1]

    def session_begun(self) -> None:
        """From here on a signal waits for the end of a step."""
        preemption.wait_for_step(True)
        self._next_look = time.monotonic()
        self._looks.clear()

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Look, asks, answers, and stops after the agreed step."""
        del run_values
        if self._agreed is None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._every_n_seconds
            self._looks.append((time.monotonic(), self.step))
            self._look()
        if self._is_over():
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """The session has ended: a signal need not wait any more.

        Where steps come in calls, all stop after the call in which the first one does; one that has
        not looked since the answer learns here what it was.
        """
        del session
        self._agreed = self._agreed or self._agreement.agreed()
        self._is_over()
        preemption.wait_for_step(False)

    def _is_over(self) -> bool:
        """Whether the agreed step is reached; a signal of another task is then this one's too."""
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
            # Before the second look it does not know how fast the steps are.
            if reason is not None and len(self._looks) > 1:
                self._agreement.answer(self.step + self._margin_steps(), reason)
        elif reason is not None:
            self._agreement.ask(reason)
        self._agreed = self._agreement.agreed()
        if self._agreed is None and reason is not None and self._nobody_answers():
            self._agreed = self.step, reason

    def _margin_steps(self) -> int:
        """By the fastest of the last intervals: in others one may have waited for the others."""
        looks = list(self._looks)
        rate = max(
            (step - earlier_step) / max(1e-3, now - earlier)
            for (earlier, earlier_step), (now, step) in zip(looks, looks[1:])
        )
        return 1 + math.ceil(rate * self._margin_seconds)
