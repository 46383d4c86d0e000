"""Summary lines of a run: its plan before training, and its results after it."""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import List, Mapping, Optional

import tensorflow as tf

from estimator_lib import environment, errors, texts
from estimator_lib.analysis import files as analysis_files
from estimator_lib.checkpoints import checkpoint_files, plain_paths, savers
from estimator_lib.config import schedule_checks
from estimator_lib.data import epochs, inputs
from estimator_lib.distribution import gpu_code
from estimator_lib.evaluation import evaluators
from estimator_lib.export import artifacts, export_folders, export_policies
from estimator_lib.optimization import learning_rates, optimizers
from estimator_lib.task import Task
from protos import input_reader_pb2, pipeline_pb2, train_pb2

_CLASSES = 8  # class names that are listed
_SAMPLES = 1000  # steps among which the highest rate is searched


def schedule_lines(config: pipeline_pb2.TrainEvalPipelineConfig) -> List[str]:
    """Return the lines of `--mode=check` on steps, epochs, rates, checkpoints and evaluations."""
    train_config = config.train_config
    steps = train_config.num_steps
    lines = [_steps_line(train_config)]
    with contextlib.suppress(errors.UserError):
        count = epochs.count_examples(config.train_input_reader)
        if steps:
            lines.append(f'epochs: {steps * train_config.batch_size / count:.1f}')
    lines.append(f'lr: {describe_rates(train_config)}')
    saves = train_config.checkpoints
    if saves.WhichOneof('cadence') == 'save_every_n_steps':
        cadence = f'every {saves.save_every_n_steps} steps'
    else:
        seconds = saves.save_every_n_seconds or savers.DEFAULT_SAVE_SECONDS
        cadence = f'every {seconds} seconds'
    lines.append(f'checkpoints: {cadence}, the last {saves.keep_max or "all"} stay')
    schedule = config.eval_config.schedule
    if not (schedule.enabled and config.eval_input_reader):
        lines.append('evaluations: none')
    else:
        lines.append(
            f'evaluations: of each checkpoint after {schedule.start_delay_seconds} s, at least '
            f'{schedule.throttle_seconds} s and {schedule.throttle_steps} steps apart'
        )
    return lines


def describe_rates(train_config: train_pb2.TrainConfig) -> str:
    """Describe the learning rates of a run: `0.001 -> 0.04 (step 100) -> 0.0002 over 1200 steps`.

    Args:
        train_config: the schedule and the number of steps.

    Raises:
        errors.ConfigError: the schedule is not valid.
    """
    config = optimizers.learning_rate_config(train_config.optimizer)
    last = train_config.num_steps - 1
    if last < 0:
        return f'{learning_rates.compute_rates(config, [0], 0)[0]:.4g} at the first step'
    span = schedule_checks.span(config)
    steps = {round(last * index / _SAMPLES) for index in range(_SAMPLES + 1)}
    steps = sorted(steps | {step for step in (span.warmup, span.length) if step <= last})
    rates = learning_rates.compute_rates(config, steps, train_config.num_steps)
    highest = int(rates.argmax())
    parts = [f'{rates[0]:.4g}']
    if rates[highest] > max(rates[0], rates[-1]):
        parts.append(f'{rates[highest]:.4g} (step {steps[highest]})')
    return f'{" -> ".join([*parts, f"{rates[-1]:.4g}"])} over {train_config.num_steps} steps'


def first_lines(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, network: str
) -> List[str]:
    """Return the log lines before training starts: model, classes, data, steps, devices.

    Args:
        task: the task that is trained.
        config: the config of the run.
        network: the name of the network.
    """
    names = task.presentation.class_names
    lines = [f'model: {task.name}, {network}']
    if names:
        lines.append(f'classes: {len(names)} ({errors.shortened(names, _CLASSES)})')
    lines.append(f'training on {_data(config.train_input_reader)}')
    titles = evaluators.titles(config).values()
    for title, reader in zip(titles, config.eval_input_reader):
        lines.append(f'evaluation on {title}: {_data(reader)}')
    lines.append(_steps_line(config.train_config))
    accelerators = len(tf.config.list_physical_devices('GPU'))
    code = f'; {gpu_code.description()}' if accelerators else ''
    lines.append(f'devices: {accelerators} GPU, {os.cpu_count()} CPU cores{code}')
    return lines


def _steps_line(train_config: train_pb2.TrainConfig) -> str:
    return f'steps: {train_config.num_steps or "no limit"}, of {train_config.batch_size} examples'


def _data(reader: input_reader_pb2.InputReader) -> str:
    """Describe the number of examples of a reader; the run itself reports unreadable files."""
    try:
        files = inputs.input_files(reader)
        if any('://' in file.path for file in files):  # opening each would take long
            return texts.counted(len(files), 'file')
        examples = texts.counted(inputs.count_records(files), 'example')
        return f'{examples} in {texts.counted(len(files), "file")}'
    except errors.UserError:
        return 'examples that cannot be read'


def last_lines(model_dir: str, metrics: Mapping[str, float]) -> List[str]:
    """Return the lines that are printed after training: the folders and exports of the run.

    Args:
        model_dir: the folder of the run.
        metrics: the metrics of the last checkpoint on the first evaluation set; may be empty.
    """
    best = export_policies.read_best(model_dir)
    step = checkpoint_files.latest_step(plain_paths.plain_path(model_dir))
    best_export = '' if best is None else best.export
    last_export = _last_export(model_dir, step)
    lines = [
        f'checkpoints, events and pipeline.config: {model_dir}',
        f'curves and pictures: tensorboard --logdir={shlex.quote(model_dir)}',
    ]
    report = os.path.join(
        analysis_files.analysis_folder(model_dir, str(step)), analysis_files.REPORT_FILE
    )
    if tf.io.gfile.exists(report):
        lines.append(f'analysis of the last evaluation: {report}')
    if best_export:
        result = _describe(best.step, best.metric, best.value)
        lines.append(f'exported model, the best: {best_export} ({result})')
    if last_export and not (best_export and best.step == step):
        value = metrics.get(best.metric) if best else None
        result = _describe(step, best.metric if best else '', value)
        lines.append(f'exported model, the last: {last_export} ({result})')
    if best_export or last_export:
        lines.append(
            f'next: {environment.front_door_command()} --mode=predict '
            f'--saved_model_dir={shlex.quote(best_export or last_export)} --images="*.jpg" '
            '--output_dir=predictions'
        )
    return lines


def _describe(step: int, metric: str, value: Optional[float]) -> str:
    return f'step {step}' if value is None else f'step {step}, {metric} {value:.4g}'


def _last_export(model_dir: str, step: int) -> str:
    """Return the path of the newest export if it is of a step; else an empty string."""
    for name in (export_folders.FINAL, export_folders.LATEST):
        path = export_folders.latest_export(export_folders.run_folder(model_dir, name))
        if path and artifacts.read_step(path) == step:
            return path
    return ''
