"""Targets that read what a run keeps in its folder beside checkpoints."""

from __future__ import annotations

import contextlib
import functools
import random
from typing import Callable, Dict
from unittest import mock

from estimator_lib import distribution
from estimator_lib.checkpoints import evaluated
from estimator_lib.cluster import heartbeats, job_state, run_lock
from estimator_lib.evaluation import early_stopping, scheduling
from estimator_lib.export import export_policies
from estimator_lib.run_records import results, results_table, run_file
from model_fns.cli import chosen_models
from protos import eval_pb2, train_pb2
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.mutations import (
    mutate_json,
    mutate_text,
)
from tests.campaigns.fuzz.workspace import CHECKPOINT, Workspace


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (state, run_files)
    return {one.__name__: functools.partial(one, workspace) for one in functions}


def run_files(workspace: Workspace, generator: random.Random) -> None:
    """Continue a run, and read it again, with one malformed file of its own."""
    folder = workspace.copy(workspace.model)
    malformed = generator.choice(sorted(valid_inputs.RUN_FILES))
    for name, content in valid_inputs.RUN_FILES.items():
        mutate = mutate_text if isinstance(content, str) else mutate_json
        (folder / name).write_bytes(mutate(generator, content) if name == malformed else b'{}')
    if malformed != results.RESULTS_FILE:
        (folder / results.RESULTS_FILE).unlink()
    model_dir = str(folder)
    evaluated.first_set(evaluated.read(f'{model_dir}/{CHECKPOINT}'))
    config = workspace.configs['classification']
    start = run_file.RunFile(model_dir, config, {}, distribution.alone(config))
    start.begin()
    start.end(run_file.FINISHED)
    table = results.Results(model_dir)
    table.forget_after(5)
    table.add(f'{model_dir}/{CHECKPOINT}', 5, {'val': {'accuracy': 0.5}})
    read = results_table.read(f'{model_dir}/{results.RESULTS_FILE}')
    for column in read.columns:
        read.curve(column)


def state(workspace: Workspace, generator: random.Random) -> None:
    """Read the state files of a run, one of which is malformed."""
    folder = workspace.copy(workspace.model)
    malformed = generator.choice(sorted(valid_inputs.STATES))
    for name, content in valid_inputs.STATES.items():
        if name == malformed or name not in ('run.lock', 'cluster/finished.json'):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mutate_json(generator, content) if name == malformed else b'{}')
    model_dir = str(folder)
    _read_evaluations(model_dir)
    _read_job(model_dir)
    # The owner of a lock that may be of another machine is waited for.
    with mock.patch.object(heartbeats, 'LEAST_SILENT_SECONDS', 0.05), run_lock.held(model_dir):
        run_lock.require(model_dir)


def _read_evaluations(model_dir: str) -> None:
    path = f'{model_dir}/{early_stopping.STATE_FILE}'
    stopping = early_stopping.EarlyStopping('accuracy', path=path, run_step=5)
    stopping.should_stop(5)
    stopping.update(7, {'accuracy': 0.75})
    schedule = scheduling.Schedule(eval_pb2.EvaluationSchedule(), model_dir)
    schedule.is_due(5)
    schedule.was_final(5)
    with schedule.evaluating(5):
        pass
    found = evaluated.read(f'{model_dir}/{CHECKPOINT}')
    evaluated.first_set(found)
    with contextlib.suppress(FileNotFoundError):
        evaluated.copy(f'{model_dir}/{CHECKPOINT}', f'{model_dir}/export')
    export_policies.read_best(model_dir)
    exports = f'{model_dir}/export/best'
    best = export_policies.BestExporter(exports, lambda *paths: exports, 'accuracy')
    best.export(5, CHECKPOINT, {'accuracy': 0.75}, False)
    chosen_models._log_better(model_dir, f'{model_dir}/model.ckpt-3')


def _read_job(model_dir: str) -> None:
    job = job_state.JobState(model_dir, train_pb2.TrainConfig(num_steps=10))
    job.finished()
    job.failure()
    job.write_failed('worker:0', 'no', 'abc')
    watch = heartbeats.Watch(job.folder, ['worker:1'], 15.0)
    watch.look()
    watch.state('worker:1')
    watch.last('worker:1').get('step')
    heartbeats.Heart(job.folder, 'worker:1').beat()
    watch.look()
    watch.state('worker:1')
