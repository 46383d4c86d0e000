"""A campaign of faults: kills, stops and preempts tasks of clusters at random moments.

    python -m tests.campaigns.chaos [--faults=50] [--modes=ASYNC_PARAMETER_SERVERS,...] [--seed=1]

Each job is a chief, workers, a parameter server where the mode has any, and an evaluator, as
processes of this machine, which are started again when they are killed. The seed decides who is
struck by what, and when; what a moment finds the job doing is the machine's choice. Ends with
status 0 when all jobs have finished, no checkpoint is damaged and none was forgotten.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
import time
from typing import Callable, Dict, List, Optional, Sequence

from estimator_lib.cluster import local_processes

# Read when TensorFlow is first imported, whose build reports missing GPU libraries as errors.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from tests.campaigns import chaos_job

_JOB_SECONDS = 900.0
_RECOVERY_SECONDS = 240.0
_STOPPED_SECONDS = 90.0
_POLL_SECONDS = 0.05
_SAVING_POLL_SECONDS = 0.001
_KINDS = ('kill', 'kill', 'kill', 'terminate', 'stop')
_MOMENTS = ('training', 'training', 'saving', 'after restart')


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is done to whom, when.

    Attributes:
        kind: `kill` (SIGKILL), `terminate` (SIGTERM), or `stop` (SIGSTOP, and SIGCONT when the
            others have noticed).
        role: of the task that is struck.
        moment: `training`, `saving` (while a checkpoint is written), or `after restart` (the task
            that was struck last, as soon as it has been started again).
        seconds: from then.
    """

    kind: str
    role: str
    moment: str
    seconds: float

    def __str__(self) -> str:
        return f'{self.kind} {self.role}, {self.moment}, after {self.seconds:.1f} s'


def plan_fault(source: random.Random, roles: Sequence[str]) -> Fault:
    """A random fault.

    Args:
        source: of randomness.
        roles: that the job has.
    """
    moment = source.choice(_MOMENTS)
    seconds = source.uniform(0.0, 0.1) if moment == 'saving' else source.uniform(0.0, 6.0)
    return Fault(source.choice(_KINDS), source.choice(list(roles)), moment, seconds)


class Struck:
    """One job, and the faults that it gets.

    Args:
        job: not started yet.
        source: of randomness.
        say: prints a line.
    """

    def __init__(self, job: chaos_job.Job, source: random.Random, say: Callable[[str], None]):
        self.faults: List[Fault] = []
        self.problems: List[str] = []
        self._job = job
        self._source = source
        self._say = say
        self._roles = sorted({task.role for task in job.cluster.tasks})
        self._deadline = time.monotonic() + _JOB_SECONDS

    def run(self, num_faults: int) -> bool:
        """Run the job to its end.

        Args:
            num_faults: to inject, or fewer when the job is finished before.

        Returns:
            Whether it has finished.
        """
        self._job.cluster.start()
        try:
            while len(self.faults) < num_faults and self._wait_for_progress():
                self._inject(plan_fault(self._source, self._roles))
            self._wait(lambda: self._job.is_over, _JOB_SECONDS)
            finished = self._job.last_step() >= self._job.num_steps
        except TimeoutError as error:
            self.problems.append(str(error))
            finished = False
        finally:
            self._job.close()
        if not finished and not self.problems:
            self.problems.append('the job ended before its last step')
        return finished

    def _wait_for_progress(self) -> bool:
        """Wait for new steps; return False when the job is over."""
        best = self._job.step
        self._wait(lambda: self._job.is_over or self._job.step > best, _RECOVERY_SECONDS)
        return not self._job.is_over and self._job.last_step() == 0

    def _inject(self, fault: Fault) -> None:
        names = [name for name in self._job.names if name.startswith(fault.role)]
        name = self._source.choice(names)
        if fault.moment == 'saving':
            self._wait_for_saving()
        self._pause(fault.seconds if fault.moment != 'after restart' else 0.0)
        if fault.moment == 'after restart' and self._strike(name, Fault('kill', *_rest(fault))):
            self._pause(fault.seconds)
        self._strike(name, fault)

    def _strike(self, name: str, fault: Fault) -> bool:
        task = self._job.cluster.task(name)
        if task.name in self._job.cluster.ended or self._job.last_step():
            return False
        self._job.note(f'{fault.kind} {name}, {fault.moment}')
        self._say(f'  step {self._job.step:5d}: {fault.kind} {name}, {fault.moment}')
        self.faults.append(fault)
        if fault.kind == 'stop':
            self._stop(task)
        else:
            task.send(signal.SIGKILL if fault.kind == 'kill' else signal.SIGTERM)
        # A scheduler takes a moment to notice.
        self._pause(self._source.uniform(0.5, 3.0))
        return True

    def _stop(self, task: local_processes.Task) -> None:
        seen = len(self._job.reported)

        def is_noticed() -> bool:
            # Those who have finished the training look no more.
            return task.name in self._job.reported[seen:] or bool(self._job.last_step())

        task.send(signal.SIGSTOP)
        try:
            self._wait(lambda: is_noticed() or self._job.is_over, _STOPPED_SECONDS)
        except TimeoutError:
            self.problems.append(f'{task.name} was stopped, and nobody said so')
        task.send(signal.SIGCONT)

    def _wait_for_saving(self) -> None:
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline and not self._job.is_saving():
            time.sleep(_SAVING_POLL_SECONDS)
            if not int(time.monotonic() * 20) % 20:
                self._poll()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._poll()
            time.sleep(_SAVING_POLL_SECONDS)

    def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        limit = min(time.monotonic() + seconds, self._deadline)
        while not done():
            if time.monotonic() >= limit:
                raise TimeoutError(f'hung at step {self._job.step}')
            self._poll()
            time.sleep(_POLL_SECONDS)

    def _poll(self) -> None:
        failed = self._job.poll()
        if failed is not None:
            raise TimeoutError(f'{failed[0]} has failed with status {failed[1]}')


def _rest(fault: Fault) -> Sequence:
    return fault.role, 'training', fault.seconds


@dataclasses.dataclass
class Report:
    """What the campaign has found.

    Attributes:
        jobs: how many were run.
        finished: how many of them came to their end.
        faults: how many were injected, by `kind role`.
        steps_lost: at each new begin of a chief.
        checkpoints: how many were read.
        problems: in words.
        damaged: what is wrong with which checkpoints.
    """

    jobs: int = 0
    finished: int = 0
    faults: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    moments: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    steps_lost: List[int] = dataclasses.field(default_factory=list)
    checkpoints: int = 0
    problems: List[str] = dataclasses.field(default_factory=list)
    damaged: List[str] = dataclasses.field(default_factory=list)

    def add(self, mode: str, job: chaos_job.Job, struck: Struck, finished: bool) -> None:
        """Add the results of a job, and read its checkpoints."""
        self.jobs += 1
        self.finished += finished
        self.faults.update(f'{fault.kind} {fault.role}' for fault in struck.faults)
        self.moments.update(fault.moment for fault in struck.faults)
        self.steps_lost += job.lost
        prefixes = job.checkpoints().values()
        self.checkpoints += len(prefixes)
        damaged = [problem for problem in map(chaos_job.load_checkpoint, prefixes) if problem]
        self.damaged += damaged
        place = f'{mode}, {job.model_dir}'
        self.problems += [f'{place}: {text}' for text in (*struck.problems, *job.forgotten)]

    @property
    def num_faults(self) -> int:
        """Return the number of injected faults."""
        return sum(self.faults.values())

    def figures(self) -> Dict[str, object]:
        """Return all fields, for a JSON file."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        # `dataclasses.asdict` would make a counter of pairs of a counter.
        return {
            name: dict(value) if isinstance(value, collections.Counter) else value
            for name, value in values.items()
        }

    def lines(self) -> List[str]:
        """Return the lines of the report."""
        by_kind = ', '.join(f'{count} {kind}' for kind, count in sorted(self.faults.items()))
        by_moment = ', '.join(f'{count} {name}' for name, count in sorted(self.moments.items()))
        return [
            f'faults injected      {self.num_faults} ({by_kind}; {by_moment})',
            f'jobs finished        {self.finished} of {self.jobs}',
            f'steps lost at most   {max(self.steps_lost, default=0)}',
            f'checkpoints damaged  {len(self.damaged)} of {self.checkpoints}',
            *(f'problem: {problem}' for problem in (*self.problems, *self.damaged)),
        ]


def run_campaign(
    modes: Sequence[str],
    num_faults: int,
    *,
    seed: int,
    folder: str,
    faults_per_job: int = 5,
    num_steps: int = 1500,
    save_every: int = 40,
    num_workers: int = 1,
    loop: str = chaos_job.LOOPS[0],
    say: Optional[Callable[[str], None]] = None,
) -> Report:
    """Run jobs, with alternating modes, until enough faults have been injected.

    Args:
        modes: names of `ClusterConfig.Mode`.
        num_faults: in total.
        seed: decides the faults.
        folder: where the jobs' folders are made.
        faults_per_job: at most.
        num_steps: of a job.
        save_every: steps between two checkpoints.
        num_workers: beside the chief.
        loop: a `TrainingLoop`, one that carries the modes.
        say: gets a line for each thing that happens; left out: printed.
    """
    say = say or (lambda line: print(line, flush=True))
    records = os.path.join(folder, 'records.tfrecord')
    chaos_job.write_records(records, seed)
    source = random.Random(seed)
    report = Report()
    injected = 1
    # A job that gets no fault at all is not able to run.
    while report.num_faults < num_faults and injected:
        mode = modes[report.jobs % len(modes)]
        say(f'job {report.jobs + 1}: {mode}')
        started = time.monotonic()
        job = chaos_job.Job(
            os.path.join(folder, f'job_{report.jobs + 1}'),
            records,
            mode,
            num_steps=num_steps,
            save_every=save_every,
            num_workers=num_workers,
            loop=loop,
        )
        struck = Struck(job, source, say)
        finished = struck.run(min(faults_per_job, num_faults - report.num_faults))
        report.add(mode, job, struck, finished)
        injected = len(struck.faults)
        seconds = time.monotonic() - started
        say(
            f'  {"finished" if finished else "NOT FINISHED"} in {seconds:.0f} s; '
            f'{report.num_faults} of {num_faults} faults'
        )
    return report


def main() -> None:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--faults', type=int, default=50)
    parser.add_argument('--modes', default=','.join(chaos_job.MODES), help='with commas between')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--faults_per_job', type=int, default=5)
    parser.add_argument('--num_steps', type=int, default=1500)
    parser.add_argument('--num_workers', type=int, default=1)
    parser.add_argument('--loop', choices=chaos_job.LOOPS, default=chaos_job.LOOPS[0])
    parser.add_argument('--folder', help='of the jobs; left out: a temporary one')
    parser.add_argument('--output', help='a JSON file for the figures')
    values = parser.parse_args()
    modes = values.modes.split(',')
    unknown = sorted(set(modes) - set(chaos_job.MODES))
    if unknown:
        parser.error(f'unknown mode {unknown[0]!r}; known: {", ".join(chaos_job.MODES)}')
    folder = values.folder or tempfile.mkdtemp(prefix='chaos-')
    os.makedirs(folder, exist_ok=True)
    print(f'seed {values.seed}, jobs in {folder}')
    report = run_campaign(
        modes,
        values.faults,
        seed=values.seed,
        folder=folder,
        faults_per_job=values.faults_per_job,
        num_steps=values.num_steps,
        num_workers=values.num_workers,
        loop=values.loop,
    )
    print('\n'.join(report.lines()))
    if values.output:
        with open(values.output, 'w') as file:
            json.dump(report.figures(), file, indent=2)
    sys.exit(1 if report.problems or report.damaged else 0)


if __name__ == '__main__':
    main()
